/* Attention of a single query over packed keys or over the KV cache.
 *
 * Packed keys are transposed, so that the scores of 16 positions are computed side by side; in the
 * KV cache a position's key and value stand together, as they are written. Numbers of the cache
 * are float32 or the upper halves of them (bfloat16). Reference and tests: see attention.h. */
#include "attention.h"

typedef uint32_t uvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint16_t hvec __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* Load a vector, or a number, of the KV cache as float32. */
INLINE vec cached_vec(const void *from, int64_t i, const int64_t bf16) {
    if (!bf16) return load((const float *)from + i);
    hvec bits = *(const hvec *)((const uint16_t *)from + i);
    return (vec)(__builtin_convertvector(bits, uvec) << 16);
}

INLINE float cached_float(const void *from, int64_t i, const int64_t bf16) {
    if (!bf16) return ((const float *)from)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

INLINE uvec round_to_bf16(uvec bits) { /* ties to even; NaN stays NaN */
    uvec is_nan = (uvec)((bits & 0x7fffffff) > 0x7f800000);
    uvec nearest = bits + 0x7fff + (bits >> 16 & 1);
    return ((is_nan & (bits | 0x400000)) | (~is_nan & nearest)) >> 16;
}

void store_kv(const attention_shape *m, const float *from, int64_t size, void *to) {
    if (!m->bf16) {
        memcpy(to, from, size * 4);
        return;
    }
    uint16_t *halves = to;
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
        *(hvec *)(halves + i) = __builtin_convertvector(round_to_bf16((uvec)load(from + i)), hvec);
    if (i == size) return;
    float rest[LANES] = {0};
    memcpy(rest, from + i, (size - i) * 4);
    hvec last = __builtin_convertvector(round_to_bf16((uvec)load(rest)), hvec);
    memcpy(halves + i, &last, (size - i) * 2);
}

void transpose_keys(const float *from, int64_t ldk, int64_t size, int64_t d_k, float *to) {
    int64_t padded = pad_to_lanes(size), k = 0;
#ifdef __AVX512F__
    for (; k + LANES <= d_k; k += LANES)
        for (int64_t s = 0; s < padded; s += LANES) {
            __m512i square[LANES];
            for (int i = 0; i < LANES; i++)
                square[i] = s + i < size ? _mm512_loadu_si512(from + (s + i) * ldk + k)
                                         : _mm512_setzero_si512();
            transpose_16x16(square);
            for (int i = 0; i < LANES; i++)
                _mm512_storeu_si512(to + (k + i) * padded + s, square[i]);
        }
#elif defined(__AVX2__)
    for (; k + 8 <= d_k; k += 8)
        for (int64_t s = 0; s < padded; s += 8) {
            __m256 square[8];
            for (int i = 0; i < 8; i++)
                square[i] = s + i < size ? _mm256_loadu_ps(from + (s + i) * ldk + k)
                                         : _mm256_setzero_ps();
            transpose_8x8(square);
            for (int i = 0; i < 8; i++) _mm256_storeu_ps(to + (k + i) * padded + s, square[i]);
        }
#endif
    for (; k < d_k; k++) {
        for (int64_t s = 0; s < size; s++) to[k * padded + s] = from[s * ldk + k];
        for (int64_t s = size; s < padded; s++) to[k * padded + s] = 0;
    }
}

/* Rows of values: contiguous, or one pointer per row. */
typedef struct {
    const char *first;
    int64_t stride; /* bytes */
    const void *const *rows;
    int64_t offset; /* bytes */
} value_rows;

INLINE const void *value_row(const value_rows *p, int64_t s) {
    return p->rows ? (const char *)p->rows[s] + p->offset : p->first + s * p->stride;
}

/* Weighted sum of values [S, C], in two accumulators to shorten the dependency chain. */
INLINE void weighted_sum(const value_rows *from, int64_t size, int64_t d_v, const int64_t bf16,
                         const float *weights, float scale, float *out) {
    int64_t c = 0;
    for (; c + LANES <= d_v; c += LANES) {
        vec even = {0}, odd = {0};
        int64_t s = 0;
        for (; s + 2 <= size; s += 2) {
            even += cached_vec(value_row(from, s), c, bf16) * weights[s];
            odd += cached_vec(value_row(from, s + 1), c, bf16) * weights[s + 1];
        }
        if (s < size) even += cached_vec(value_row(from, s), c, bf16) * weights[s];
        store(out + c, (even + odd) * scale);
    }
    for (; c < d_v; c++) {
        float total = 0;
        for (int64_t s = 0; s < size; s++)
            total = fused(weights[s], cached_float(value_row(from, s), c, bf16), total);
        out[c] = total * scale;
    }
}

/* The shape is passed by value, so that known widths become constants. */
INLINE void attend_query_inline(attention_shape m, const float *query, const keys_values *from,
                                float *weights, float *out) {
    int64_t padded = pad_to_lanes(from->size);
    float scale = 1 / sqrtf(m.d_k);
    for (int64_t s = 0; s < padded; s += LANES) {
        vec sums[4] = {{0}};
        int64_t k = 0;
        for (; k + 4 <= m.d_k; k += 4)
            for (int64_t i = 0; i < 4; i++)
                sums[i] += cached_vec(from->keys, (k + i) * padded + s, m.bf16) * query[k + i];
        for (; k < m.d_k; k++) sums[0] += cached_vec(from->keys, k * padded + s, m.bf16) * query[k];
        store(weights + s, ((sums[0] + sums[1]) + (sums[2] + sums[3])) * scale);
    }
    float inv_sum = 1 / exp_and_sum(weights, from->size);
    value_rows values = {.first = from->values, .stride = from->ldv * element_bytes(&m)};
    weighted_sum(&values, from->size, m.d_v, m.bf16, weights, inv_sum, out);
}

INLINE void attend_query_by_width(attention_shape m, const float *query, const keys_values *from,
                                  float *weights, float *out) {
    if (m.d_k == 32 && m.d_v == 32)
        attend_query_inline((attention_shape){m.heads, 32, 32, m.bf16}, query, from, weights, out);
    else if (m.d_k == 64 && m.d_v == 64)
        attend_query_inline((attention_shape){m.heads, 64, 64, m.bf16}, query, from, weights, out);
    else
        attend_query_inline(m, query, from, weights, out);
}

void attend_query(const attention_shape *m, const float *query, const keys_values *from,
                  float *weights, float *out) {
    if (!from->size)
        memset(out, 0, m->d_v * 4);
    else if (m->bf16)
        attend_query_by_width((attention_shape){m->heads, m->d_k, m->d_v, 1}, query, from, weights,
                              out);
    else
        attend_query_by_width((attention_shape){m->heads, m->d_k, m->d_v, 0}, query, from, weights,
                              out);
}

INLINE float dot(const float *a, const void *b, int64_t from, int64_t size, const int64_t bf16) {
    vec total = {0};
    int64_t i = 0;
    float rest = 0;
    for (; i + LANES <= size; i += LANES) total += load(a + i) * cached_vec(b, from + i, bf16);
    for (; i < size; i++) rest = fused(a[i], cached_float(b, from + i, bf16), rest);
    return reduce_sum(total) + rest;
}

INLINE void self_attention_inline(attention_shape m, const float *query,
                                  const void *const *cache_rows, int64_t size, float *weights,
                                  float *out) {
    float scale = 1 / sqrtf(m.d_k);
    for (int64_t h = 0; h < m.heads; h++, query += m.d_k, out += m.d_v) {
        for (int64_t p = 0; p < size; p++)
            weights[p] = scale * dot(query, cache_rows[p], h * m.d_k, m.d_k, m.bf16);
        float inv_sum = 1 / exp_and_sum(weights, size);
        value_rows values = {.rows = cache_rows,
                             .offset = (m.heads * m.d_k + h * m.d_v) * element_bytes(&m)};
        weighted_sum(&values, size, m.d_v, m.bf16, weights, inv_sum, out);
    }
}

INLINE void self_attention_by_width(attention_shape m, const float *queries,
                                    const void *const *cache_rows, int64_t size, float *weights,
                                    float *out) {
    if (m.d_k == 32 && m.d_v == 32)
        self_attention_inline((attention_shape){m.heads, 32, 32, m.bf16}, queries, cache_rows, size,
                              weights, out);
    else if (m.d_k == 64 && m.d_v == 64)
        self_attention_inline((attention_shape){m.heads, 64, 64, m.bf16}, queries, cache_rows, size,
                              weights, out);
    else
        self_attention_inline(m, queries, cache_rows, size, weights, out);
}

void self_attention(const attention_shape *m, const float *queries, const void *const *cache_rows,
                    int64_t size, float *weights, float *out) {
    if (m->bf16)
        self_attention_by_width((attention_shape){m->heads, m->d_k, m->d_v, 1}, queries, cache_rows,
                                size, weights, out);
    else
        self_attention_by_width((attention_shape){m->heads, m->d_k, m->d_v, 0}, queries, cache_rows,
                                size, weights, out);
}
