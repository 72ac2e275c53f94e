/* Attention of a single query (Equation 1): over packed keys, or over the KV cache.
 *
 * Reference: scaled_dot_product_attention in model/attention.py; tests/backends/native/
 * test_decoder.py holds them equal. */
#ifndef HEADWISE_ATTENTION_H
#define HEADWISE_ATTENTION_H

#include "kernels.h"

/* The KV cache holds float32 numbers, or bfloat16 with `bf16`. */
typedef struct {
    int64_t heads, d_k, d_v, bf16;
} attention_shape;

INLINE int64_t element_bytes(const attention_shape *m) { return m->bf16 ? 2 : 4; }

/* Convert numbers to the format of the KV cache. */
void store_kv(const attention_shape *, const float *from, int64_t size, void *to);

/* Transpose keys [S, ldk] of one head to [K, pad_to_lanes(S)]. */
void transpose_keys(const float *from, int64_t ldk, int64_t size, int64_t d_k, float *to);

/* Replace scores [pad_to_lanes(size)] by e^(x - max) and return their sum; the padding becomes 0,
 * and no result is denormal: arithmetic on denormals is slow. */
INLINE float exp_and_sum(float *x, int64_t size) {
    vec largest_lanes = broadcast(-INFINITY), total = {0};
    for (int64_t i = 0; i < size; i += LANES)
        largest_lanes = vec_max(mask_tail(load(x + i), size - i, -INFINITY), largest_lanes);
    float largest = reduce_max(largest_lanes);
    for (int64_t i = 0; i < size; i += LANES) {
        vec each = mask_tail(vec_exp(load(x + i) - largest), size - i, 0);
        store(x + i, each);
        total += each;
    }
    return reduce_sum(total);
}

/* Keys [K, pad_to_lanes(S)] and values [S, ldv] of a head. */
typedef struct {
    const void *keys, *values;
    int64_t ldv, size; /* size: S */
} keys_values;

/* One query over packed keys: out [C]; zeros where S is 0. weights [pad_to_lanes(S)]: scratch. */
void attend_query(const attention_shape *, const float *query, const keys_values *from,
                  float *weights, float *out);

/* The queries of all heads [H K] of a row over its KV cache, one row [H K, H C] per position: out
 * [H C]. */
void self_attention(const attention_shape *, const float *queries, const void *const *cache_rows,
                    int64_t size, float *weights, float *out);

#endif
