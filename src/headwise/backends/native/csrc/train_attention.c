/* Attention of one head in one sentence, forward and backward, as small matmuls.
 *
 * Attention weights are [Q, pad_to_lanes(K)], zeros behind K and, in causal attention, above the
 * diagonal and before the window. Keys, and in the backward pass values, are transposed first.
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

/* Right operand, and result: rows are `ld` apart. */
typedef struct {
    const float *x;
    int64_t ld;
} right_side;

typedef struct {
    float *x;
    int64_t ld;
} result;

/* Sums over the depth from `from` to `to`, times `scale`; `width` columns. Passed by value, so that
 * constants stay constants when functions are inlined. */
typedef struct {
    left_side left;
    right_side right;
    result out;
    int64_t from, to, width;
    float scale;
} product;

/* Columns n to n + 16 vecs of a few rows. */
INLINE void matmul_block(product p, int64_t n, const int rows, const int vecs) {
    vec sums[BLOCK_ROWS][2] = {{{0}}};
    for (int64_t k = p.from; k < p.to; k++) {
        vec first = load(p.right.x + k * p.right.ld + n), second = {0};
        if (vecs == 2) second = load(p.right.x + k * p.right.ld + n + LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            vec each = broadcast(p.left.x[r * p.left.ld + k * p.left.step]);
            sums[r][0] += first * each;
            if (vecs == 2) sums[r][1] += second * each;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        store(p.out.x + r * p.out.ld + n, sums[r][0] * p.scale);
        if (vecs == 2) store(p.out.x + r * p.out.ld + n + LANES, sums[r][1] * p.scale);
    }
}

/* All columns of a few rows. */
INLINE void matmul_rows(product p, const int rows, const int vecs) {
    int64_t n = 0;
    for (; n + vecs * LANES <= p.width; n += vecs * LANES) matmul_block(p, n, rows, vecs);
    for (; n + LANES <= p.width; n += LANES) matmul_block(p, n, rows, 1);
    for (; n < p.width; n++)
        for (int r = 0; r < rows; r++) {
            float sum = 0;
            for (int64_t k = p.from; k < p.to; k++)
                sum = fused(p.left.x[r * p.left.ld + k * p.left.step],
                            p.right.x[k * p.right.ld + n], sum);
            p.out.x[r * p.out.ld + n] = sum * p.scale;
        }
}

/* Which part of the left operand is not zero: all of it, or its lower or upper triangle (causal
 * attention). */
enum { ALL, LOWER, UPPER };

/* All rows. With `lower_only` only the lower triangle of the result is needed; the rest is
 * undefined. */
INLINE void small_matmul(product p, int64_t rows, int triangle_of_left, int64_t lower_only) {
    for (int64_t row = 0, last; row < rows; row = last) {
        product few = p;
        last = row + BLOCK_ROWS <= rows ? row + BLOCK_ROWS : row + SMALL_ROWS;
        if (last > rows) last = row + 1;
        few.left.x += row * p.left.ld;
        few.out.x += row * p.out.ld;
        if (triangle_of_left == UPPER) few.from = row;
        if (triangle_of_left == LOWER && last < p.to) few.to = last;
        if (lower_only && pad_to_lanes(last) < p.width) few.width = pad_to_lanes(last);
        if (last - row == BLOCK_ROWS)
            matmul_rows(few, BLOCK_ROWS, BLOCK_VECS);
        else if (last - row == SMALL_ROWS)
            matmul_rows(few, SMALL_ROWS, 2);
        else
            matmul_rows(few, 1, 2);
    }
}

/* Softmax of the scores from `first` to `size` of a row; the rest becomes 0. */
INLINE void softmax(float *row, int64_t first, int64_t size, int64_t padded) {
    for (int64_t s = 0; s < first; s++) row[s] = -INFINITY;
    vec inv_sum = broadcast(1 / exp_and_sum(row, size));
    for (int64_t s = 0; s < size; s += LANES) store(row + s, load(row + s) * inv_sum);
    for (int64_t s = pad_to_lanes(size); s < padded; s += LANES) store(row + s, (vec){0});
    for (int64_t s = 0; s < first; s++) row[s] = 0;
}

/* Keys to which query q attends: from first_visible to num_visible. */
INLINE int64_t num_visible(head h, int64_t q) { return h.causal ? q + 1 : h.num_keys; }
INLINE int64_t first_visible(head h, int64_t q) {
    return h.causal && h.window && q >= h.window ? q - h.window + 1 : 0;
}

/* The weights after dropout, in `scratch` if there is any. */
INLINE const float *dropped_weights(const float *weights, int64_t size, dropout_rng *rng,
                                    float *scratch) {
    if (!rng->threshold) return weights;
    memcpy(scratch, weights, size * 4);
    dropout(rng, scratch, size);
    return scratch;
}

INLINE void forward_inline(head h, float *weights, float *out, int64_t ldo, dropout_rng *rng,
                           float *scratch) {
    int64_t padded = pad_to_lanes(h.num_keys), size = h.num_queries * padded;
    transpose_keys(h.keys, h.ldk, h.num_keys, h.d_k, scratch);
    product scores = {.left = {h.queries, h.ldq, 1},
                      .right = {scratch, padded},
                      .out = {weights, padded},
                      .to = h.d_k,
                      .width = padded,
                      .scale = 1 / sqrtf(h.d_k)};
    small_matmul(scores, h.num_queries, ALL, h.causal);
    for (int64_t q = 0; q < h.num_queries; q++)
        softmax(weights + q * padded, first_visible(h, q), num_visible(h, q), padded);
    const float *dropped = dropped_weights(weights, size, rng, scratch);
    product sums = {.left = {dropped, padded, 1},
                    .right = {h.values, h.ldv},
                    .out = {out, ldo},
                    .to = h.num_keys,
                    .width = h.d_v,
                    .scale = 1};
    small_matmul(sums, h.num_queries, h.causal ? LOWER : ALL, 0);
}

/* The same head, whose widths are constants. */
INLINE head with_widths(const head *h, const int64_t d_k, const int64_t d_v) {
    head same = *h;
    same.d_k = d_k;
    same.d_v = d_v;
    return same;
}

void attention_forward(const head *h, float *weights, float *out, int64_t ldo, dropout_rng *rng,
                       float *scratch) {
    if (h->d_k == 32 && h->d_v == 32)
        forward_inline(with_widths(h, 32, 32), weights, out, ldo, rng, scratch);
    else if (h->d_k == 64 && h->d_v == 64)
        forward_inline(with_widths(h, 64, 64), weights, out, ldo, rng, scratch);
    else
        forward_inline(*h, weights, out, ldo, rng, scratch);
}

/* Backward pass of softmax, in place: from gradients of weights to gradients of scores, which are 0
 * where the weight is. */
INLINE void softmax_backward(const float *weights, float *to, int64_t size, int64_t padded,
                             float scale) {
    vec total = {0};
    for (int64_t s = 0; s < size; s += LANES) total += load(to + s) * load(weights + s);
    float mean = reduce_sum(total);
    for (int64_t s = 0; s < size; s += LANES)
        store(to + s, load(weights + s) * (load(to + s) - mean) * scale);
    for (int64_t s = pad_to_lanes(size); s < padded; s++) to[s] = 0;
}

INLINE void backward_inline(head h, const float *weights, const float *grad_out, int64_t ldo,
                            head_gradients to, dropout_rng *rng, float *scratch) {
    int64_t padded = pad_to_lanes(h.num_keys), size = h.num_queries * padded;
    arena a = {(char *)scratch, 0};
    head_scratch s = alloc_head(h.d_v, h.num_queries, padded, &a);
    float scale = 1 / sqrtf(h.d_k), *grad_scores = s.grad_scores;
    int lower = h.causal ? LOWER : ALL, upper = h.causal ? UPPER : ALL;
    dropout_rng same = *rng;
    const float *dropped = dropped_weights(weights, size, rng, s.dropped);
    left_side scores_transposed = {grad_scores, 1, padded};
    left_side weights_transposed = {dropped, 1, padded};
    transpose_keys(h.values, h.ldv, h.num_keys, h.d_v, s.transposed);
    product of_weights = {.left = {grad_out, ldo, 1},
                          .right = {s.transposed, padded},
                          .out = {grad_scores, padded},
                          .to = h.d_v,
                          .width = padded,
                          .scale = 1};
    small_matmul(of_weights, h.num_queries, ALL, h.causal);
    dropout(&same, grad_scores, size);
    for (int64_t q = 0; q < h.num_queries; q++)
        softmax_backward(weights + q * padded, grad_scores + q * padded,
                         num_visible(h, q), padded, scale);
    product of_queries = {.left = {grad_scores, padded, 1},
                          .right = {h.keys, h.ldk},
                          .out = {to.queries, h.ldq},
                          .to = h.num_keys,
                          .width = h.d_k,
                          .scale = 1};
    product of_keys = {.left = scores_transposed,
                       .right = {h.queries, h.ldq},
                       .out = {to.keys, h.ldk},
                       .to = h.num_queries,
                       .width = h.d_k,
                       .scale = 1};
    product of_values = {.left = weights_transposed,
                         .right = {grad_out, ldo},
                         .out = {to.values, h.ldv},
                         .to = h.num_queries,
                         .width = h.d_v,
                         .scale = 1};
    small_matmul(of_queries, h.num_queries, lower, 0);
    small_matmul(of_keys, h.num_keys, upper, 0);
    small_matmul(of_values, h.num_keys, upper, 0);
    end_arena(&a);
}

void attention_backward(const head *h, const float *weights, const float *grad_out, int64_t ldo,
                        head_gradients to, dropout_rng *rng, float *scratch) {
    if (h->d_k == 32 && h->d_v == 32)
        backward_inline(with_widths(h, 32, 32), weights, grad_out, ldo, to, rng, scratch);
    else if (h->d_k == 64 && h->d_v == 64)
        backward_inline(with_widths(h, 64, 64), weights, grad_out, ldo, to, rng, scratch);
    else
        backward_inline(*h, weights, grad_out, ldo, to, rng, scratch);
}
