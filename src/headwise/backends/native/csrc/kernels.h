/* What the compiled kernels share: vectors, and the shapes that Python fills in.
 *
 * Plain C with the vector extensions of GCC and Clang, so that it compiles for any
 * processor; what one has in hardware beyond that stands behind #ifdef. Every row of a
 * result is computed by the same operations in the same order however many rows there
 * are: a batch does not change a sentence, not even in its last bit.
 */
#ifndef HEADWISE_KERNELS_H
#define HEADWISE_KERNELS_H

#include <stdint.h>
#include <string.h>

#define LANES 16 /* floats of a vector */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float *from) { return *(const vec *)from; }
INLINE void store(float *to, vec x) { *(vec *)to = x; }
INLINE vec all(float x) { return x - (vec){0}; }

typedef float vec8 __attribute__((vector_size(32)));
typedef int32_t ivec8 __attribute__((vector_size(32)));
typedef float vec4 __attribute__((vector_size(16)));
typedef int32_t ivec4 __attribute__((vector_size(16)));

INLINE float sum_of(vec x) { /* by halves: sums in a row would wait for one another */
    union { vec whole; vec8 half[2]; } a = {x};
    union { vec8 whole; vec4 half[2]; } b = {a.half[0] + a.half[1]};
    vec4 c = b.half[0] + b.half[1];
    return (c[0] + c[2]) + (c[1] + c[3]);
}

INLINE vec larger(vec a, vec b) {
    ivec first = a > b;
    return (vec)((first & (ivec)a) | (~first & (ivec)b));
}

/* The first numbers of x, and `rest` behind them. */
INLINE vec first_of(vec x, int64_t count, float rest) {
    ivec lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    ivec there = lane < (ivec){0} + (int32_t)(count < LANES ? count : LANES);
    return (vec)((there & (ivec)x) | (~there & (ivec)all(rest)));
}

INLINE float largest_of(vec x) {
    union { vec whole; vec8 half[2]; } a = {x};
    ivec8 m = a.half[0] > a.half[1];
    union { vec8 whole; vec4 half[2]; } b;
    b.whole = (vec8)((m & (ivec8)a.half[0]) | (~m & (ivec8)a.half[1]));
    ivec4 n = b.half[0] > b.half[1];
    vec4 four = (vec4)((n & (ivec4)b.half[0]) | (~n & (ivec4)b.half[1]));
    float best = four[0];
    for (int i = 1; i < 4; i++) best = four[i] > best ? four[i] : best;
    return best;
}

INLINE int64_t filled(int64_t size) { return (size + LANES - 1) / LANES * LANES; }

/* e to the power of x for x <= 88, to about 2 units in the last place; a NaN stays one. */
INLINE vec exp_of(vec x) {
    ivec low = x < all(-87.0f);
    x = (vec)((low & (ivec)all(-87.0f)) | (~low & (ivec)x));
    vec magic = all(12582912.0f); /* 1.5 * 2^23: its last bit is worth 1 */
    vec shifted = x * 1.44269504f + magic;
    vec n = shifted - magic;
    vec r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vec p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    ivec power = ((ivec)shifted - (ivec)magic + 127) << 23;
    return p * (vec)power;
}

#ifdef __AVX512F__
#include <immintrin.h>

/* Turn 16 vectors of 16 words. */
INLINE void turn_square(__m512i r[LANES]) {
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
        int low = i / 8 * 8 + i % 4; /* with the one four further on */
        t[i] = i & 4 ? _mm512_shuffle_i32x4(r[low], r[low + 4], 0xdd)
                     : _mm512_shuffle_i32x4(r[low], r[low + 4], 0x88);
    }
    for (int j = 0; j < 8; j++) {
        r[j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0x88);
        r[8 + j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0xdd);
    }
}

#endif

enum { ROUNDED = 1, WHOLE = 3 }; /* parts: the first of a float32, or all that it has;
                                   * whole numbers without tiles stay float32 numbers */

typedef struct {
    int64_t in, out;
    int64_t parts;       /* bfloat16 parts of each number; 0: float32 numbers */
    const void *weight;  /* as product_pack laid it out */
    const float *bias;   /* [out] or NULL */
} product;

typedef struct {
    const float *weight, *bias; /* [D]; NULL: leaves everything as it is */
    float eps;
} norm;

enum { NO_BEND, RELU, GELU, SWISH };

#define AT_A_TIME 1024 /* scores of a row that are computed and looked at together */

/* The best `count` of a row of scores so far, and what their sum of e^x is. */
typedef struct {
    float most, sum;
    int64_t found;
} tally;

/* Look at `size` further scores of each row [rows, ld], the first of which is token `first`;
 * best first and the lower token first among equals. Refused tokens are left out. */
void choose(const float *scores, int64_t ld, int64_t rows, int64_t first, int64_t size,
            int64_t count, const int64_t *refused, int64_t num_refused, float *values,
            int64_t *tokens, tally *tallies);

/* Make ln p of the values; refused tokens, with -inf, fill up what is missing.
 * Returns 0 where scores were no numbers. */
int64_t chosen(int64_t rows, int64_t count, const int64_t *refused, float *values,
               int64_t *tokens, const tally *tallies);

typedef struct {
    int64_t bend;
    int64_t turned; /* 1: the left side is given as [in, ld], its rows being columns there */
    int64_t add;    /* 1: add to y what else would replace it; nothing is bent then */
} manner;

/* y [rows, ldy] = bend(x [rows, ld] W + b); spare: product_spare(in, rows) bytes. */
void product_apply(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                   int64_t ldy, manner how, void *spare);
int64_t product_spare(int64_t in, int64_t rows);

/* Lay out a matrix [in, out] for the right side of products: given in rows of `ld`, or turned
 * ([out, in]); product_size bytes, aligned to 64. */
void product_lay_out(const float *from, int64_t ld, int64_t in, int64_t out, int64_t parts,
                     void *to);
void product_pack(const float *from, int64_t in, int64_t out, int64_t parts, void *to);
int64_t product_size(int64_t in, int64_t out, int64_t parts);

/* The part of a product that has the columns from `first` on, a multiple of 32. */
product product_part(const product *p, int64_t first, int64_t columns);

#endif
