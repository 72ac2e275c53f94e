/* Attention of one head in one sentence, forth and back: small products, one after the other. */
#include "attention.h"
#include "train.h"

#define ROWS 4 /* that are computed at a time: one sum would wait for itself */

int64_t attend_spare(int64_t longest, int64_t key, int64_t value) {
    return filled(longest) * ((key > value ? key : value) + longest + 2);
}

/* The left side of a product: numbers of a row `step` apart, rows `ld` apart. */
typedef struct {
    const float *x;
    int64_t ld, step;
} side;

/* Some rows of out [rows, wide] = scale * left right [from to `to`, wide]. */
INLINE void few_rows(side left, const float *right, int64_t ld, int64_t from, int64_t to,
                      int64_t wide, float scale, float *out, int64_t ldo, const int rows) {
    int64_t n = 0;
    for (; n + 2 * LANES <= wide; n += 2 * LANES) {
        vec sums[ROWS][2] = {{{0}}};
        for (int64_t k = from; k < to; k++) {
            vec first = load(right + k * ld + n), second = load(right + k * ld + n + LANES);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                float each = left.x[r * left.ld + k * left.step];
                sums[r][0] += first * each;
                sums[r][1] += second * each;
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            store(out + r * ldo + n, sums[r][0] * scale);
            store(out + r * ldo + n + LANES, sums[r][1] * scale);
        }
    }
    for (; n + LANES <= wide; n += LANES) {
        vec sums[ROWS] = {{0}};
        for (int64_t k = from; k < to; k++) {
            vec first = load(right + k * ld + n);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) sums[r] += first * left.x[r * left.ld + k * left.step];
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) store(out + r * ldo + n, sums[r] * scale);
    }
    for (; n < wide; n++)
        for (int r = 0; r < rows; r++) {
            float sum = 0;
            for (int64_t k = from; k < to; k++)
                sum += left.x[r * left.ld + k * left.step] * right[k * ld + n];
            out[r * ldo + n] = sum * scale;
        }
}

/* What of the right side counts for the rows from `row` to `last`: all, or where a triangle
 * of the left side, below or above its diagonal, is all that is not 0. */
enum { ALL, BELOW, ABOVE };

/* out [rows, wide] = scale * left [rows, depth] right [depth, wide]. Where the result is only
 * asked for on and below its diagonal (`triangle`), the rest may be anything. */
INLINE void multiply(side left, int64_t rows, const float *right, int64_t ld, int64_t depth,
                     int64_t wide, float scale, float *out, int64_t ldo, int part,
                     int64_t triangle) {
    for (int64_t row = 0, last; row < rows; row = last) {
        int four = row + ROWS <= rows;
        last = row + (four ? ROWS : 1);
        int64_t from = part == ABOVE ? row : 0, to = part == BELOW && last < depth ? last : depth;
        int64_t asked = triangle && filled(last) < wide ? filled(last) : wide;
        side at = {left.x + row * left.ld, left.ld, left.step};
        float *y = out + row * ldo;
        if (four)
            few_rows(at, right, ld, from, to, asked, scale, y, ldo, ROWS);
        else
            few_rows(at, right, ld, from, to, asked, scale, y, ldo, 1);
    }
}

/* Softmax of the first `size` scores of a row; what follows becomes 0. */
INLINE void softmax(float *row, int64_t size, int64_t wide) {
    vec share = all(1 / exponents(row, size));
    for (int64_t s = 0; s < size; s += LANES) store(row + s, load(row + s) * share);
    for (int64_t s = filled(size); s < wide; s += LANES) store(row + s, (vec){0});
}

INLINE void attend_by(const head *h, float *weights, float *out, int64_t ldo, float *spare,
                      int64_t key, int64_t value) {
    int64_t wide = filled(h->asked);
    side queries = {h->queries, h->ldq, 1}, weighed = {weights, wide, 1};
    turn(h->keys, h->ldk, h->asked, key, spare);
    multiply(queries, h->asking, spare, wide, key, wide, 1 / sqrtf(key), weights, wide, ALL,
             h->causal);
    for (int64_t q = 0; q < h->asking; q++)
        softmax(weights + q * wide, h->causal ? q + 1 : h->asked, wide);
    multiply(weighed, h->asking, h->values, h->ldv, h->asked, value, 1, out, ldo,
             h->causal ? BELOW : ALL, 0);
}

void attend(const head *h, float *weights, float *out, int64_t ldo, float *spare) {
    if (h->key == 32 && h->value == 32)
        attend_by(h, weights, out, ldo, spare, 32, 32);
    else if (h->key == 64 && h->value == 64)
        attend_by(h, weights, out, ldo, spare, 64, 64);
    else
        attend_by(h, weights, out, ldo, spare, h->key, h->value);
}

/* From the gradients of a row of weights to those of its scores, in their place. */
INLINE void softmax_back(const float *weights, float *to, int64_t size, int64_t wide,
                         float scale) {
    vec total = {0};
    for (int64_t s = 0; s < size; s += LANES) total += load(to + s) * load(weights + s);
    float mean = sum_of(total);
    for (int64_t s = 0; s < size; s += LANES)
        store(to + s, load(weights + s) * (load(to + s) - mean) * scale);
    for (int64_t s = filled(size); s < wide; s++) to[s] = 0;
}

INLINE void attend_back_by(const head *h, const float *weights, const float *to_out, int64_t ldo,
                           float *to_queries, float *to_keys, float *to_values, float *spare,
                           int64_t key, int64_t value) {
    int64_t wide = filled(h->asked);
    float scale = 1 / sqrtf(key), *to_scores = spare + wide * value;
    int below = h->causal ? BELOW : ALL, above = h->causal ? ABOVE : ALL;
    side given = {to_out, ldo, 1}, scored = {to_scores, wide, 1};
    side scored_turned = {to_scores, 1, wide}, weighed_turned = {weights, 1, wide};
    turn(h->values, h->ldv, h->asked, value, spare);
    multiply(given, h->asking, spare, wide, value, wide, 1, to_scores, wide, ALL, h->causal);
    for (int64_t q = 0; q < h->asking; q++)
        softmax_back(weights + q * wide, to_scores + q * wide, h->causal ? q + 1 : h->asked, wide,
                     scale);
    multiply(scored, h->asking, h->keys, h->ldk, h->asked, key, 1, to_queries, h->ldq, below, 0);
    multiply(scored_turned, h->asked, h->queries, h->ldq, h->asking, key, 1, to_keys, h->ldk,
             above, 0);
    multiply(weighed_turned, h->asked, to_out, ldo, h->asking, value, 1, to_values, h->ldv, above,
             0);
}

void attend_back(const head *h, const float *weights, const float *to_out, int64_t ldo,
                 float *to_queries, float *to_keys, float *to_values, float *spare) {
    if (h->key == 32 && h->value == 32)
        attend_back_by(h, weights, to_out, ldo, to_queries, to_keys, to_values, spare, 32, 32);
    else if (h->key == 64 && h->value == 64)
        attend_back_by(h, weights, to_out, ldo, to_queries, to_keys, to_values, spare, 64, 64);
    else
        attend_back_by(h, weights, to_out, ldo, to_queries, to_keys, to_values, spare, h->key,
                       h->value);
}
