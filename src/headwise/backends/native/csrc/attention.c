/* How a row looks at what is remembered: Equation 1, one query of one head at a time. */
#include "attention.h"

#include <math.h>

typedef uint32_t uvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint16_t hvec __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* Vector number `i`, or number `i`, of what is remembered. */
INLINE vec vector_of(const void *from, int64_t i, const int64_t half) {
    if (!half) return load((const float *)from + i);
    hvec bits = *(const hvec *)((const uint16_t *)from + i);
    return (vec)(__builtin_convertvector(bits, uvec) << 16);
}

INLINE float number_of(const void *from, int64_t i, const int64_t half) {
    if (!half) return ((const float *)from)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

INLINE uvec rounded(uvec bits) { /* to bfloat16, ties to even; a NaN stays one */
    uvec no_number = (uvec)((bits & 0x7fffffff) > 0x7f800000);
    uvec near = bits + 0x7fff + (bits >> 16 & 1);
    return ((no_number & (bits | 0x400000)) | (~no_number & near)) >> 16;
}

void write_down(const manner_of_looking *m, const float *from, int64_t size, void *to) {
    if (!m->half) {
        memcpy(to, from, size * 4);
        return;
    }
    uint16_t *halves = to;
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
        *(hvec *)(halves + i) = __builtin_convertvector(rounded((uvec)load(from + i)), hvec);
    if (i == size) return;
    float rest[LANES] = {0};
    memcpy(rest, from + i, (size - i) * 4);
    hvec last = __builtin_convertvector(rounded((uvec)load(rest)), hvec);
    memcpy(halves + i, &last, (size - i) * 2);
}

void turn(const float *from, int64_t ldk, int64_t size, int64_t key, float *to) {
    int64_t wide = filled(size), k = 0;
#ifdef __AVX512F__
    for (; k + LANES <= key; k += LANES)
        for (int64_t s = 0; s < wide; s += LANES) {
            __m512i square[LANES];
            for (int i = 0; i < LANES; i++)
                square[i] = s + i < size ? _mm512_loadu_si512(from + (s + i) * ldk + k)
                                         : _mm512_setzero_si512();
            turn_square(square);
            for (int i = 0; i < LANES; i++)
                _mm512_storeu_si512(to + (k + i) * wide + s, square[i]);
        }
#endif
    for (; k < key; k++) {
        for (int64_t s = 0; s < size; s++) to[k * wide + s] = from[s * ldk + k];
        for (int64_t s = size; s < wide; s++) to[k * wide + s] = 0;
    }
}

/* Where values stand: one behind the other, or each somewhere. */
typedef struct {
    const char *first;
    int64_t apart; /* bytes */
    const void *const *each;
    int64_t behind; /* bytes */
} places;

INLINE const void *place_of(const places *p, int64_t s) {
    return p->each ? (const char *)p->each[s] + p->behind : p->first + s * p->apart;
}

/* The mean of values [S, C] by their weights; in two sums, as one would wait for itself. */
INLINE void mean_of(const places *from, int64_t size, int64_t value, const int64_t half,
                    const float *weights, float share, float *out) {
    int64_t c = 0;
    for (; c + LANES <= value; c += LANES) {
        vec even = {0}, odd = {0};
        int64_t s = 0;
        for (; s + 2 <= size; s += 2) {
            even += vector_of(place_of(from, s), c, half) * weights[s];
            odd += vector_of(place_of(from, s + 1), c, half) * weights[s + 1];
        }
        if (s < size) even += vector_of(place_of(from, s), c, half) * weights[s];
        store(out + c, (even + odd) * share);
    }
    for (; c < value; c++) {
        float total = 0;
        for (int64_t s = 0; s < size; s++)
            total += weights[s] * number_of(place_of(from, s), c, half);
        out[c] = total * share;
    }
}

INLINE void look_at(const float *query, const void *keys, const void *values, int64_t ldv,
                    int64_t size, int64_t key, int64_t value, const int64_t half,
                    float *weights, float *out) {
    int64_t wide = filled(size);
    float scale = 1 / sqrtf(key);
    for (int64_t s = 0; s < wide; s += LANES) {
        vec sums[4] = {{0}};
        int64_t k = 0;
        for (; k + 4 <= key; k += 4)
            for (int64_t i = 0; i < 4; i++)
                sums[i] += vector_of(keys, (k + i) * wide + s, half) * query[k + i];
        for (; k < key; k++) sums[0] += vector_of(keys, k * wide + s, half) * query[k];
        store(weights + s, ((sums[0] + sums[1]) + (sums[2] + sums[3])) * scale);
    }
    float share = 1 / exponents(weights, size);
    places from = {.first = values, .apart = ldv * (half ? 2 : 4)};
    mean_of(&from, size, value, half, weights, share, out);
}

INLINE void look_by_size(const manner_of_looking *m, const float *query, const void *keys,
                         const void *values, int64_t ldv, int64_t size, const int64_t half,
                         float *weights, float *out) {
    if (m->key == 32 && m->value == 32)
        look_at(query, keys, values, ldv, size, 32, 32, half, weights, out);
    else if (m->key == 64 && m->value == 64)
        look_at(query, keys, values, ldv, size, 64, 64, half, weights, out);
    else
        look_at(query, keys, values, ldv, size, m->key, m->value, half, weights, out);
}

void look(const manner_of_looking *m, const float *query, const void *keys, const void *values,
          int64_t ldv, int64_t size, float *weights, float *out) {
    if (!size)
        memset(out, 0, m->value * 4);
    else if (m->half)
        look_by_size(m, query, keys, values, ldv, size, 1, weights, out);
    else
        look_by_size(m, query, keys, values, ldv, size, 0, weights, out);
}

INLINE float dot(const float *a, const void *b, int64_t from, int64_t size,
                 const int64_t half) {
    vec total = {0};
    int64_t i = 0;
    float rest = 0;
    for (; i + LANES <= size; i += LANES) total += load(a + i) * vector_of(b, from + i, half);
    for (; i < size; i++) rest += a[i] * number_of(b, from + i, half);
    return sum_of(total) + rest;
}

INLINE void look_back_at(int64_t heads, const float *query, const void *const *written,
                         int64_t size, int64_t key, int64_t value, const int64_t half,
                         float *weights, float *out) {
    float scale = 1 / sqrtf(key);
    for (int64_t h = 0; h < heads; h++, query += key, out += value) {
        for (int64_t p = 0; p < size; p++)
            weights[p] = scale * dot(query, written[p], h * key, key, half);
        float share = 1 / exponents(weights, size);
        places from = {.each = written, .behind = (heads * key + h * value) * (half ? 2 : 4)};
        mean_of(&from, size, value, half, weights, share, out);
    }
}

INLINE void look_back_by_size(const manner_of_looking *m, const float *queries,
                              const void *const *written, int64_t size, const int64_t half,
                              float *weights, float *out) {
    if (m->key == 32 && m->value == 32)
        look_back_at(m->heads, queries, written, size, 32, 32, half, weights, out);
    else if (m->key == 64 && m->value == 64)
        look_back_at(m->heads, queries, written, size, 64, 64, half, weights, out);
    else
        look_back_at(m->heads, queries, written, size, m->key, m->value, half, weights, out);
}

void look_back(const manner_of_looking *m, const float *queries, const void *const *written,
               int64_t size, float *weights, float *out) {
    if (m->half)
        look_back_by_size(m, queries, written, size, 1, weights, out);
    else
        look_back_by_size(m, queries, written, size, 0, weights, out);
}
