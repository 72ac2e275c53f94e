/* Shared declarations of the native library: packed matrices, activations and matmul.
 *
 * Instruction set extensions stand behind #ifdef. Each row of a result is computed by the same
 * operations in the same order whatever the number of rows: the batch never changes a sentence,
 * not even in its last bit. The structs mirror ctypes_structs.py. */
#ifndef HEADWISE_KERNELS_H
#define HEADWISE_KERNELS_H

#include "simd.h"

/* Number formats, as the number of bf16 terms that represent a float32. BF16: rounded to
 * bfloat16, and multiplied by AMX, by AVX512_BF16 or in float32, whatever the variant has.
 * BF16X3: split into three bfloat16 terms, which is exact; without AMX such matrices stay
 * float32. FLOAT32: not split. */
enum { FLOAT32 = 0, BF16 = 1, BF16X3 = 3 };

typedef struct {
    int64_t in, out;
    int64_t terms;      /* FLOAT32, BF16 or BF16X3 */
    const void *weight; /* packed by pack_matrix or pack_transposed */
    const float *bias;  /* [out] or NULL */
} matrix;

enum { NO_ACTIVATION, RELU, GELU, SWISH };

INLINE vec activate(vec x, int64_t activation) {
    if (activation == RELU) return vec_max(broadcast(0), x); /* NaN stays NaN */
    if (activation == GELU) return 0.5f * x * (1 + vec_erf(x * 0.70710678f));
    if (activation == SWISH) return x / (1 + vec_exp(vec_min(broadcast(88), -x)));
    return x;
}

#define VOCAB_BLOCK 1024 /* scores of a row that are computed and searched together */

typedef struct {
    int64_t activation;
    int64_t transposed; /* x is given as [in, ld], that is, its transpose is multiplied */
    int64_t accumulate; /* add to y instead of overwriting it; without an activation */
} matmul_opts;

#define OVERWRITE ((matmul_opts){0})

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
