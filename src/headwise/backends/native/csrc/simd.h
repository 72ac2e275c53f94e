/* Vectors of 16 floats, and the mathematical functions of them.
 *
 * Plain C with the vector extensions of Clang and GCC, so that it compiles for any processor: a
 * vector takes one register of AVX-512, two of AVX2 and four of NEON. The same operations are done
 * in the same order on all of them, and nothing is taken from a mathematical library, so that AVX2
 * and AVX-512 give the same bits. tests/backends/native/test_matmul.py and tests/decoding/
 * test_topk_native.py compare the functions with PyTorch's. */
#ifndef HEADWISE_SIMD_H
#define HEADWISE_SIMD_H

#include <math.h> /* for constants and sqrtf, which is an instruction */
#include <stdint.h>
#include <string.h>

#define LANES 16 /* floats of a vector */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

INLINE vec load(const float *from) { return *(const vec *)from; }
INLINE void store(float *to, vec x) { *(vec *)to = x; }
INLINE vec broadcast(float x) { return x - (vec){0}; }

/* a * b + c, rounded once. A sum of products of single numbers needs it: for ARM, Clang would take
 * the products of several at once and round them before it adds them in order. */
INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

typedef float vec8 __attribute__((vector_size(32)));
typedef int32_t ivec8 __attribute__((vector_size(32)));
typedef float vec4 __attribute__((vector_size(16)));
typedef int32_t ivec4 __attribute__((vector_size(16)));

INLINE float
reduce_sum(vec x) { /* pairwise, by halves: a sequential sum would wait for each addition */
    union {
        vec whole;
        vec8 half[2];
    } a = {x};
    union {
        vec8 whole;
        vec4 half[2];
    } b = {a.half[0] + a.half[1]};
    vec4 c = b.half[0] + b.half[1];
    return (c[0] + c[2]) + (c[1] + c[3]);
}

INLINE vec vec_max(vec a, vec b) {
    ivec first = a > b;
    return (vec)((first & (ivec)a) | (~first & (ivec)b));
}

/* Keep the first `count` lanes of x, set the others to `fill`. */
INLINE vec mask_tail(vec x, int64_t count, float fill) {
    ivec lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    ivec there = lane < (ivec){0} + (int32_t)(count < LANES ? count : LANES);
    return (vec)((there & (ivec)x) | (~there & (ivec)broadcast(fill)));
}

INLINE float reduce_max(vec x) {
    union {
        vec whole;
        vec8 half[2];
    } a = {x};
    ivec8 m = a.half[0] > a.half[1];
    union {
        vec8 whole;
        vec4 half[2];
    } b;
    b.whole = (vec8)((m & (ivec8)a.half[0]) | (~m & (ivec8)a.half[1]));
    ivec4 n = b.half[0] > b.half[1];
    vec4 four = (vec4)((n & (ivec4)b.half[0]) | (~n & (ivec4)b.half[1]));
    float best = four[0];
    for (int i = 1; i < 4; i++) best = four[i] > best ? four[i] : best;
    return best;
}

/* Load or store the first `count` lanes, if they are fewer than all; the others are zeros. */
INLINE vec load_partial(const float *x, int64_t count) {
    if (count >= LANES) return load(x);
    float lanes[LANES] = {0};
    if (count > 0) memcpy(lanes, x, count * 4);
    return load(lanes);
}

INLINE void store_partial(float *to, vec x, int64_t count) {
    if (count >= LANES) {
        store(to, x);
    } else if (count > 0) {
        float lanes[LANES];
        store(lanes, x);
        memcpy(to, lanes, count * 4);
    }
}

INLINE int64_t pad_to_lanes(int64_t size) { return (size + LANES - 1) / LANES * LANES; }

/* e^x for x <= 88, to about 2 units in the last place; NaN stays NaN. */
INLINE vec vec_exp(vec x) {
    ivec low = x < broadcast(-87.0f);
    x = (vec)((low & (ivec)broadcast(-87.0f)) | (~low & (ivec)x));
    vec magic = broadcast(12582912.0f); /* 1.5 * 2^23: its last bit is worth 1 */
    vec shifted = x * 1.44269504f + magic;
    vec n = shifted - magic;
    vec r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vec p = broadcast(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    ivec power = ((ivec)shifted - (ivec)magic + 127) << 23;
    return p * (vec)power;
}

INLINE vec vec_min(vec a, vec b) {
    ivec first = a < b;
    return (vec)((first & (ivec)a) | (~first & (ivec)b));
}

/* The error function, to about 3 units in the last place: x P(x^2) / Q(x^2), fitted to the relative
 * error. */
INLINE vec vec_erf(vec x) {
    x = vec_max(broadcast(-3.92f), vec_min(broadcast(3.92f), x)); /* NaN stays NaN */
    vec t = x * x;
    vec p = broadcast(1.992424064e-8f);
    p = p * t - 1.957782920e-6f;
    p = p * t + 1.418402528e-4f;
    p = p * t + 3.701221330e-3f;
    p = p * t + 5.057214655e-2f;
    p = p * t + 1.999156750e-1f;
    p = p * t + 1.128379109f;
    vec q = broadcast(9.559416891e-4f);
    q = q * t + 1.435243571e-2f;
    q = q * t + 1.149947419e-1f;
    q = q * t + 5.105023126e-1f;
    q = q * t + 1.0f;
    return x * p / q;
}

INLINE float scalar_exp(float x) { return vec_exp(broadcast(x))[0]; }

/* ln x for x >= 0, to the last place: m 2^n, and the series of artanh. */
INLINE float scalar_log(float x) {
    if (!(x > 0 && x < INFINITY)) return x == 0 ? -INFINITY : x;
    double whole = x;
    int64_t bits;
    memcpy(&bits, &whole, 8);
    int64_t power = (bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffff) | (int64_t)1023 << 52;
    memcpy(&whole, &bits, 8); /* 1 <= m < 2 */
    if (whole > 1.4142135623730951) whole *= 0.5, power++;
    double t = (whole - 1) / (whole + 1), square = t * t, sum = 0;
    for (int i = 17; i > 0; i -= 2) sum = sum * square + 1.0 / i;
    return (float)(2 * t * sum + (double)power * 0.69314718055994531);
}

#ifdef __AVX512F__
#include <immintrin.h>

/* Transpose a 16 x 16 block of 32-bit words. */
INLINE void transpose_16x16(__m512i r[LANES]) {
    __m512i t[LANES];
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + 2 + j]);
            r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + 2 + j]);
        }
    for (int i = 0; i < LANES; i++) {
        int low = i / 8 * 8 + i % 4; /* pairs with the one four further on */
        t[i] = i & 4 ? _mm512_shuffle_i32x4(r[low], r[low + 4], 0xdd)
                     : _mm512_shuffle_i32x4(r[low], r[low + 4], 0x88);
    }
    for (int j = 0; j < 8; j++) {
        r[j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0x88);
        r[8 + j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0xdd);
    }
}

/* Load the first `count` floats, if they are fewer than all; the others are zeros. */
INLINE __m512 load_masked(const float *x, int64_t count) {
    if (count >= LANES) return _mm512_loadu_ps(x);
    return _mm512_maskz_loadu_ps(count > 0 ? (1 << count) - 1 : 0, x);
}

#endif

#ifdef __AVX512BF16__

/* Round two vectors to bf16 (ties to even), and pair the numbers of a lane: the first vector's
 * stands in the lower half of a word. */
INLINE __m512i interleave_bf16(__m512 first, __m512 second) {
    __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                     23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
#include <immintrin.h>

/* Transpose an 8 x 8 block of floats. */
INLINE void transpose_8x8(__m256 r[8]) {
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + 2 + j], 0x44);
            r[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + 2 + j], 0xee);
        }
    for (int j = 0; j < 4; j++) {
        t[j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x20);
        t[4 + j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x31);
    }
    for (int i = 0; i < 8; i++) r[i] = t[i];
}

#endif

#endif
