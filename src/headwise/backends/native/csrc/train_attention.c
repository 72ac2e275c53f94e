/* Attention of one head in one sentence, forward and backward, as small matmuls.
 *
 * Reference: scaled_dot_product_attention in model/attention.py; tests/backends/native/
 * test_training.py holds gradients equal to autograd's. */
#include "attention.h"
#include "train.h"

/* A register block: rows times vectors of columns, as in matmul.c; a single sum would wait for
 * itself. */
#ifdef __AVX512F__
#define BLOCK_ROWS 4
#define BLOCK_VECS 2
#else
#define BLOCK_ROWS 6
#define BLOCK_VECS 1
#endif
#define SMALL_ROWS 2

/* Scratch of a head: transposed keys or values [channels, pad_to_lanes(K)], and twice scores
 * [Q, pad_to_lanes(K)]. */
typedef struct {
    float *transposed, *grad_scores, *dropped;
} head_scratch;

INLINE head_scratch alloc_head(int64_t channels, int64_t num_queries, int64_t padded, arena *a) {
    head_scratch s;
    s.transposed = alloc_floats(a, channels * padded);
    s.grad_scores = alloc_floats(a, num_queries * padded);
    s.dropped = alloc_floats(a, num_queries * padded);
    return s;
}

int64_t attention_scratch_floats(int64_t longest, int64_t d_k, int64_t d_v) {
    arena a = {0};
    alloc_head(d_k > d_v ? d_k : d_v, longest, pad_to_lanes(longest), &a);
    return a.used / 4;
}

/* Left operand: numbers of a row are `step` apart, rows `ld` apart. */
typedef struct {
    const float *x;
    int64_t ld, step;
} left_side;

/* Columns n to n + 16 vecs of a few rows of out = scale * left [rows, from to `to`] right. */
INLINE void matmul_block(left_side left, const float *right, int64_t ld, int64_t from, int64_t to,
                         int64_t n, float scale, float *out, int64_t ldo, const int rows,
                         const int vecs) {
    vec sums[BLOCK_ROWS][2] = {{{0}}};
    for (int64_t k = from; k < to; k++) {
        vec first = load(right + k * ld + n), second = {0};
        if (vecs == 2) second = load(right + k * ld + n + LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            vec each = broadcast(left.x[r * left.ld + k * left.step]);
            sums[r][0] += first * each;
            if (vecs == 2) sums[r][1] += second * each;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        store(out + r * ldo + n, sums[r][0] * scale);
        if (vecs == 2) store(out + r * ldo + n + LANES, sums[r][1] * scale);
    }
}

/* A few rows of out [rows, width] = scale * left right [from to `to`, width]. */
INLINE void matmul_rows(left_side left, const float *right, int64_t ld, int64_t from, int64_t to,
                        int64_t width, float scale, float *out, int64_t ldo, const int rows,
                        const int vecs) {
    int64_t n = 0;
    for (; n + vecs * LANES <= width; n += vecs * LANES)
        matmul_block(left, right, ld, from, to, n, scale, out, ldo, rows, vecs);
    for (; n + LANES <= width; n += LANES)
        matmul_block(left, right, ld, from, to, n, scale, out, ldo, rows, 1);
    for (; n < width; n++)
        for (int r = 0; r < rows; r++) {
            float sum = 0;
            for (int64_t k = from; k < to; k++)
                sum = fused(left.x[r * left.ld + k * left.step], right[k * ld + n], sum);
            out[r * ldo + n] = sum * scale;
        }
}

/* Which part of the left operand is not zero: all of it, or its lower or upper triangle (causal
 * attention). */
enum { ALL, LOWER, UPPER };

/* out [rows, width] = scale * left [rows, depth] right [depth, width]. With `lower_only` only the
 * lower triangle of the result is needed; the rest is undefined. */
INLINE void small_matmul(left_side left, int64_t rows, const float *right, int64_t ld,
                         int64_t depth, int64_t padded, float scale, float *out, int64_t ldo,
                         int triangle_of_left, int64_t lower_only) {
    for (int64_t row = 0, last; row < rows; row = last) {
        last = row + (row + BLOCK_ROWS <= rows ? BLOCK_ROWS : row + SMALL_ROWS <= rows ? SMALL_ROWS : 1);
        int64_t from = triangle_of_left == UPPER ? row : 0,
                to = triangle_of_left == LOWER && last < depth ? last : depth;
        int64_t columns = lower_only && pad_to_lanes(last) < padded ? pad_to_lanes(last) : padded;
        left_side at = {left.x + row * left.ld, left.ld, left.step};
        float *y = out + row * ldo;
        if (last - row == BLOCK_ROWS)
            matmul_rows(at, right, ld, from, to, columns, scale, y, ldo, BLOCK_ROWS, BLOCK_VECS);
        else if (last - row == SMALL_ROWS)
            matmul_rows(at, right, ld, from, to, columns, scale, y, ldo, SMALL_ROWS, 2);
        else
            matmul_rows(at, right, ld, from, to, columns, scale, y, ldo, 1, 2);
    }
}

/* Softmax of the first `size` scores of a row; the rest becomes 0. */
INLINE void softmax(float *row, int64_t size, int64_t padded) {
    vec inv_sum = broadcast(1 / exp_and_sum(row, size));
    for (int64_t s = 0; s < size; s += LANES) store(row + s, load(row + s) * inv_sum);
    for (int64_t s = pad_to_lanes(size); s < padded; s += LANES) store(row + s, (vec){0});
}

/* The weights after dropout, in `scratch` if there is any. */
INLINE const float *dropped_weights(const float *weights, int64_t size, dropout_rng *rng,
                                    float *scratch) {
    if (!rng->threshold) return weights;
    memcpy(scratch, weights, size * 4);
    dropout(rng, scratch, size);
    return scratch;
}

INLINE void forward_inline(const head *h, float *weights, float *out, int64_t ldo, dropout_rng *rng,
                           float *scratch, int64_t d_k, int64_t d_v) {
    int64_t padded = pad_to_lanes(h->num_keys);
    left_side queries = {h->queries, h->ldq, 1};
    transpose_keys(h->keys, h->ldk, h->num_keys, d_k, scratch);
    small_matmul(queries, h->num_queries, scratch, padded, d_k, padded, 1 / sqrtf(d_k), weights,
                 padded, ALL, h->causal);
    for (int64_t q = 0; q < h->num_queries; q++)
        softmax(weights + q * padded, h->causal ? q + 1 : h->num_keys, padded);
    const float *dropped = dropped_weights(weights, h->num_queries * padded, rng, scratch);
    small_matmul((left_side){dropped, padded, 1}, h->num_queries, h->values, h->ldv, h->num_keys,
                 d_v, 1, out, ldo, h->causal ? LOWER : ALL, 0);
}

void attention_forward(const head *h, float *weights, float *out, int64_t ldo, dropout_rng *rng,
                       float *scratch) {
    if (h->d_k == 32 && h->d_v == 32)
        forward_inline(h, weights, out, ldo, rng, scratch, 32, 32);
    else if (h->d_k == 64 && h->d_v == 64)
        forward_inline(h, weights, out, ldo, rng, scratch, 64, 64);
    else
        forward_inline(h, weights, out, ldo, rng, scratch, h->d_k, h->d_v);
}

/* Backward pass of softmax, in place: from gradients of weights to gradients of scores. */
INLINE void softmax_backward(const float *weights, float *to, int64_t size, int64_t padded,
                             float scale) {
    vec total = {0};
    for (int64_t s = 0; s < size; s += LANES) total += load(to + s) * load(weights + s);
    float mean = reduce_sum(total);
    for (int64_t s = 0; s < size; s += LANES)
        store(to + s, load(weights + s) * (load(to + s) - mean) * scale);
    for (int64_t s = pad_to_lanes(size); s < padded; s++) to[s] = 0;
}

INLINE void backward_inline(const head *h, const float *weights, const float *grad_out, int64_t ldo,
                            head_gradients to, dropout_rng *rng, float *scratch, int64_t d_k,
                            int64_t d_v) {
    int64_t padded = pad_to_lanes(h->num_keys), size = h->num_queries * padded;
    arena a = {(char *)scratch, 0};
    head_scratch s = alloc_head(d_v, h->num_queries, padded, &a);
    float scale = 1 / sqrtf(d_k), *grad_scores = s.grad_scores;
    int lower = h->causal ? LOWER : ALL, upper = h->causal ? UPPER : ALL;
    dropout_rng same = *rng;
    const float *dropped = dropped_weights(weights, size, rng, s.dropped);
    left_side grad_left = {grad_out, ldo, 1}, scores_left = {grad_scores, padded, 1};
    left_side scores_transposed = {grad_scores, 1, padded},
              weights_transposed = {dropped, 1, padded};
    transpose_keys(h->values, h->ldv, h->num_keys, d_v, s.transposed);
    small_matmul(grad_left, h->num_queries, s.transposed, padded, d_v, padded, 1, grad_scores,
                 padded, ALL, h->causal);
    dropout(&same, grad_scores, size);
    for (int64_t q = 0; q < h->num_queries; q++)
        softmax_backward(weights + q * padded, grad_scores + q * padded,
                         h->causal ? q + 1 : h->num_keys, padded, scale);
    small_matmul(scores_left, h->num_queries, h->keys, h->ldk, h->num_keys, d_k, 1, to.queries,
                 h->ldq, lower, 0);
    small_matmul(scores_transposed, h->num_keys, h->queries, h->ldq, h->num_queries, d_k, 1,
                 to.keys, h->ldk, upper, 0);
    small_matmul(weights_transposed, h->num_keys, grad_out, ldo, h->num_queries, d_v, 1, to.values,
                 h->ldv, upper, 0);
    end_arena(&a);
}

void attention_backward(const head *h, const float *weights, const float *grad_out, int64_t ldo,
                        head_gradients to, dropout_rng *rng, float *scratch) {
    if (h->d_k == 32 && h->d_v == 32)
        backward_inline(h, weights, grad_out, ldo, to, rng, scratch, 32, 32);
    else if (h->d_k == 64 && h->d_v == 64)
        backward_inline(h, weights, grad_out, ldo, to, rng, scratch, 64, 64);
    else
        backward_inline(h, weights, grad_out, ldo, to, rng, scratch, h->d_k, h->d_v);
}
