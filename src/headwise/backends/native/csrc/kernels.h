/* Shared declarations of the native kernels: SIMD vectors, packed matrices, matmul and top-k.
 *
 * Plain C with the vector extensions of GCC and Clang, so that it compiles for any processor;
 * instruction set extensions stand behind #ifdef. Each row of a result is computed by the same
 * operations in the same order whatever the number of rows: the batch never changes a sentence,
 * not even in its last bit. The structs mirror ctypes_structs.py. */
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
INLINE vec broadcast(float x) { return x - (vec){0}; }

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

/* Keep the first `count` lanes of x and set the others to `fill`. */
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

#endif

/* Number formats, as the number of bf16 terms that represent a float32. BF16: rounded to
 * bfloat16. BF16X3: split into three bfloat16 terms, which is exact; without AMX such matrices
 * stay float32. FLOAT32: not split. */
enum { FLOAT32 = 0, BF16 = 1, BF16X3 = 3 };

typedef struct {
    int64_t in, out;
    int64_t terms;      /* FLOAT32, BF16 or BF16X3 */
    const void *weight; /* packed by pack_matrix or pack_transposed */
    const float *bias;  /* [out] or NULL */
} matrix;

typedef struct {
    const float *weight, *bias; /* [D]; NULL: no normalization */
    float eps;
} layer_norm;

enum { NO_ACTIVATION, RELU, GELU, SWISH };

#define VOCAB_BLOCK 1024 /* scores of a row that are computed and searched together */

/* Running top-k of a row of scores, with the log-sum-exp so far. */
typedef struct {
    float max_score, sum_exp;
    int64_t found;
} topk_state;

/* Continue the top-k of each row [rows, ld] with `size` more scores; the first belongs to token
 * `first`. Best first; ties go to the lower token. Forbidden tokens are skipped. */
void topk_update(const float *scores, int64_t ld, int64_t rows, int64_t first, int64_t size,
                 int64_t count, const int64_t *forbidden, int64_t num_forbidden, float *values,
                 int64_t *tokens, topk_state *states);

/* Turn the values into log-probabilities; pad with forbidden tokens at -inf if too few tokens were
 * allowed. Returns 0 if a score is NaN or infinite. */
int64_t topk_finish(int64_t rows, int64_t count, const int64_t *forbidden, float *values,
                    int64_t *tokens, const topk_state *states);

typedef struct {
    int64_t activation;
    int64_t transposed; /* x is given as [in, ld], that is, its transpose is multiplied */
    int64_t accumulate; /* add to y instead of overwriting it; excludes an activation */
} matmul_opts;

/* y [rows, ldy] = activation(x [rows, ld] W + b); scratch: matmul_scratch_bytes(in, rows). */
void matmul(const matrix *p, const float *x, int64_t ld, int64_t rows, float *y, int64_t ldy,
            matmul_opts opts, void *scratch);
int64_t matmul_scratch_bytes(int64_t in, int64_t rows);

/* Pack a matrix [in, out] as the right operand of matmul, given in rows of `ld` (pack_matrix) or
 * transposed as [out, in] (pack_transposed); `to`: packed_bytes bytes, aligned to 64. */
void pack_matrix(const float *from, int64_t ld, int64_t in, int64_t out, int64_t terms, void *to);
void pack_transposed(const float *from, int64_t in, int64_t out, int64_t terms, void *to);
int64_t packed_bytes(int64_t in, int64_t out, int64_t terms);

/* Return the columns from `first` on (a multiple of 32) of a packed matrix. */
matrix matrix_columns(const matrix *p, int64_t first, int64_t columns);

#endif
