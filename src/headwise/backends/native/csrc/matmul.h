/* Shared by the two matmuls: vectors (matmul.c) and AMX tiles (matmul_amx.c). */
#ifndef HEADWISE_MATMUL_H
#define HEADWISE_MATMUL_H

#include "kernels.h"

/* A panel: the columns of a packed matrix that stand side by side, as many as a register block has.
 * With AVX2 a panel of two vectors would use every other cache line, and half of the cache. */
#ifdef __AVX512F__
#define BLOCK_VECS 2
#else
#define BLOCK_VECS 1
#endif
#define PANEL (16 * BLOCK_VECS)

INLINE int64_t num_panels(int64_t out) { return (out + PANEL - 1) / PANEL; }
INLINE int64_t pad_to_tiles(int64_t in) { return (in + 31) / 32 * 32; }

/* Epilogue of `size` sums, for the columns that exist: add the bias, apply the activation, store or
 * accumulate. */
void epilogue_any(const float *sums, int64_t size, const matrix *p, int64_t column,
                  matmul_opts opts, float *y);

/* Whether this processor has AMX and this process may use it. */
int64_t amx_enabled(void);

/* Pack rows k (a multiple of 32) to k + depth of one of a panel's two blocks of 16 columns, of
 * which `columns` exist. */
void amx_pack(const float *from, int64_t ld, int64_t k, int64_t depth, int64_t block,
              int64_t columns, int64_t terms, void *panel);

void amx_matmul(const matrix *p, const float *x, int64_t ld, int64_t rows, float *y, int64_t ldy,
                matmul_opts opts, void *scratch);

#endif
