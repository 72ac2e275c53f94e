/* Attention of one head in one sentence, forward and backward, as small matmuls: by vectors, or by
 * AMX tiles where the processor has them.
 *
 * Attention weights are [Q, pad_to_lanes(K)], zeros behind K and, in causal attention, above the
 * diagonal and before the window. Keys, and in the backward pass values, are transposed first.
 *
 * Reference: scaled_dot_product_attention in model/attention.py; tests/backends/native/
 * test_training.py holds gradients equal to autograd's. */
#include "attention.h"
#include "small_matmul.h"
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

/* Scratch of a head: transposed keys or values [channels, pad_to_lanes(K)], twice scores
 * [Q, pad_to_lanes(K)], and tiles. */
typedef struct {
    float *transposed, *grad_scores, *dropped;
    void *tiles;
} head_scratch;

INLINE head_scratch alloc_head(int64_t channels, int64_t num_queries, int64_t num_keys, arena *a) {
    head_scratch s;
    int64_t padded = pad_to_lanes(num_keys), size = num_queries > num_keys ? num_queries : num_keys;
    s.transposed = alloc_floats(a, channels * padded);
    s.grad_scores = alloc_floats(a, num_queries * padded);
    s.dropped = alloc_floats(a, num_queries * padded);
    s.tiles = alloc(a, small_matmul_amx_bytes(size > channels ? size : channels));
    return s;
}

int64_t attention_scratch_floats(int64_t longest, int64_t d_k, int64_t d_v) {
    arena a = {0};
    alloc_head(d_k > d_v ? d_k : d_v, longest, longest, &a);
    return a.used / 4;
}

/* Sums over the depth from `from` to `to` of a left operand whose numbers are `step` apart and its
 * rows `ld` apart, and a right one; `width` columns. Passed by value, so that constants stay
 * constants when functions are inlined. */
typedef struct {
    const float *left, *right;
    int64_t ld, step, right_ld;
    float *y;
    int64_t ldy, from, to, width;
    float scale;
} vector_product;

/* Columns n to n + 16 vecs of a few rows. */
INLINE void matmul_block(vector_product p, int64_t n, const int rows, const int vecs) {
    vec sums[BLOCK_ROWS][2] = {{{0}}};
    for (int64_t k = p.from; k < p.to; k++) {
        vec first = load(p.right + k * p.right_ld + n), second = {0};
        if (vecs == 2) second = load(p.right + k * p.right_ld + n + LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            vec each = broadcast(p.left[r * p.ld + k * p.step]);
            sums[r][0] += first * each;
            if (vecs == 2) sums[r][1] += second * each;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        store(p.y + r * p.ldy + n, sums[r][0] * p.scale);
        if (vecs == 2) store(p.y + r * p.ldy + n + LANES, sums[r][1] * p.scale);
    }
}

/* All columns of a few rows. */
INLINE void matmul_rows(vector_product p, const int rows, const int vecs) {
    int64_t n = 0;
    for (; n + vecs * LANES <= p.width; n += vecs * LANES) matmul_block(p, n, rows, vecs);
    for (; n + LANES <= p.width; n += LANES) matmul_block(p, n, rows, 1);
    for (; n < p.width; n++)
        for (int r = 0; r < rows; r++) {
            float sum = 0;
            for (int64_t k = p.from; k < p.to; k++)
                sum = fused(p.left[r * p.ld + k * p.step], p.right[k * p.right_ld + n], sum);
            p.y[r * p.ldy + n] = sum * p.scale;
        }
}

/* By vectors; a transposed right operand goes to `transposed` [depth, pad_to_lanes(columns)]. */
INLINE void small_matmul(small_product p, float *transposed) {
    vector_product whole = {.left = p.left.x,
                            .right = p.right.x,
                            .ld = p.left.transposed ? 1 : p.left.ld,
                            .step = p.left.transposed ? p.left.ld : 1,
                            .right_ld = p.right.ld,
                            .y = p.y,
                            .ldy = p.ldy,
                            .to = p.depth,
                            .width = p.columns,
                            .scale = p.scale};
    if (p.right.transposed) {
        transpose_keys(p.right.x, p.right.ld, p.columns, p.depth, transposed);
        whole.right = transposed;
        whole.right_ld = whole.width = pad_to_lanes(p.columns);
    }
    for (int64_t row = 0, last; row < p.rows; row = last) {
        vector_product few = whole;
        last = row + BLOCK_ROWS <= p.rows ? row + BLOCK_ROWS : row + SMALL_ROWS;
        if (last > p.rows) last = row + 1;
        few.left += row * whole.ld;
        few.y += row * p.ldy;
        if (p.triangle_of_left == UPPER) few.from = row;
        if (p.triangle_of_left == LOWER && last < p.depth) few.to = last;
        if (p.lower_only && pad_to_lanes(last) < whole.width) few.width = pad_to_lanes(last);
        if (last - row == BLOCK_ROWS)
            matmul_rows(few, BLOCK_ROWS, BLOCK_VECS);
        else if (last - row == SMALL_ROWS)
            matmul_rows(few, SMALL_ROWS, 2);
        else
            matmul_rows(few, 1, 2);
    }
}

INLINE void multiply(const head *h, const head_scratch *s, small_product p) {
    if (h->by_tiles)
        small_matmul_amx(&p, s->tiles);
    else
        small_matmul(p, s->transposed);
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
    arena a = {(char *)scratch, 0};
    head_scratch s = alloc_head(h.d_k > h.d_v ? h.d_k : h.d_v, h.num_queries, h.num_keys, &a);
    small_product scores = {.left = {h.queries, h.ldq},
                            .right = {h.keys, h.ldk, 1},
                            .y = weights,
                            .ldy = padded,
                            .rows = h.num_queries,
                            .columns = h.num_keys,
                            .depth = h.d_k,
                            .lower_only = h.causal,
                            .scale = 1 / sqrtf(h.d_k)};
    multiply(&h, &s, scores);
    for (int64_t q = 0; q < h.num_queries; q++)
        softmax(weights + q * padded, first_visible(h, q), num_visible(h, q), padded);
    small_product sums = {.left = {dropped_weights(weights, size, rng, s.dropped), padded},
                          .right = {h.values, h.ldv},
                          .y = out,
                          .ldy = ldo,
                          .rows = h.num_queries,
                          .columns = h.d_v,
                          .depth = h.num_keys,
                          .triangle_of_left = h.causal ? LOWER : ALL,
                          .scale = 1};
    multiply(&h, &s, sums);
    end_arena(&a);
}

/* The same head by vectors, whose widths are constants. */
INLINE head with_widths(const head *h, const int64_t d_k, const int64_t d_v) {
    head same = *h;
    same.by_tiles = 0;
    same.d_k = d_k;
    same.d_v = d_v;
    return same;
}

void attention_forward(const head *h, float *weights, float *out, int64_t ldo, dropout_rng *rng,
                       float *scratch) {
    if (!h->by_tiles && h->d_k == 32 && h->d_v == 32)
        forward_inline(with_widths(h, 32, 32), weights, out, ldo, rng, scratch);
    else if (!h->by_tiles && h->d_k == 64 && h->d_v == 64)
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
    head_scratch s = alloc_head(h.d_k > h.d_v ? h.d_k : h.d_v, h.num_queries, h.num_keys, &a);
    float scale = 1 / sqrtf(h.d_k), *grad_scores = s.grad_scores;
    int lower = h.causal ? LOWER : ALL, upper = h.causal ? UPPER : ALL;
    dropout_rng same = *rng;
    const float *dropped = dropped_weights(weights, size, rng, s.dropped);
    small_product of_weights = {.left = {grad_out, ldo},
                                .right = {h.values, h.ldv, 1},
                                .y = grad_scores,
                                .ldy = padded,
                                .rows = h.num_queries,
                                .columns = h.num_keys,
                                .depth = h.d_v,
                                .lower_only = h.causal,
                                .scale = 1};
    multiply(&h, &s, of_weights);
    dropout(&same, grad_scores, size);
    for (int64_t q = 0; q < h.num_queries; q++)
        softmax_backward(weights + q * padded, grad_scores + q * padded, num_visible(h, q), padded,
                         scale);
    small_product of_queries = {.left = {grad_scores, padded},
                                .right = {h.keys, h.ldk},
                                .y = to.queries,
                                .ldy = h.ldq,
                                .rows = h.num_queries,
                                .columns = h.d_k,
                                .depth = h.num_keys,
                                .triangle_of_left = lower,
                                .scale = 1};
    small_product of_keys = {.left = {grad_scores, padded, 1},
                             .right = {h.queries, h.ldq},
                             .y = to.keys,
                             .ldy = h.ldk,
                             .rows = h.num_keys,
                             .columns = h.d_k,
                             .depth = h.num_queries,
                             .triangle_of_left = upper,
                             .scale = 1};
    small_product of_values = {.left = {dropped, padded, 1},
                               .right = {grad_out, ldo},
                               .y = to.values,
                               .ldy = h.ldv,
                               .rows = h.num_keys,
                               .columns = h.d_v,
                               .depth = h.num_queries,
                               .triangle_of_left = upper,
                               .scale = 1};
    multiply(&h, &s, of_queries);
    multiply(&h, &s, of_keys);
    multiply(&h, &s, of_values);
    end_arena(&a);
}

void attention_backward(const head *h, const float *weights, const float *grad_out, int64_t ldo,
                        head_gradients to, dropout_rng *rng, float *scratch) {
    if (!h->by_tiles && h->d_k == 32 && h->d_v == 32)
        backward_inline(with_widths(h, 32, 32), weights, grad_out, ldo, to, rng, scratch);
    else if (!h->by_tiles && h->d_k == 64 && h->d_v == 64)
        backward_inline(with_widths(h, 64, 64), weights, grad_out, ldo, to, rng, scratch);
    else
        backward_inline(*h, weights, grad_out, ldo, to, rng, scratch);
}
