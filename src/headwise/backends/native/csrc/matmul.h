/* Shared by the matmuls: vectors of float32 (matmul.c), AMX tiles (matmul_amx.c) and dot products
 * of bf16 pairs (matmul_bf16.c). */
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

INLINE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t num_panels(int64_t out) { return (out + PANEL - 1) / PANEL; }
INLINE int64_t pad_to_tiles(int64_t in) { return (in + 31) / 32 * 32; }

/* Epilogue of `size` sums, for the columns that exist: add the bias, apply the activation, store or
 * accumulate. */
void epilogue_any(const float *sums, int64_t size, const matrix *p, int64_t column,
                  matmul_opts opts, float *y);

INLINE void epilogue(vec sums, const matrix *p, int64_t column, matmul_opts opts, float *y) {
    if (p->out - column >= LANES && opts.activation <= RELU) { /* not the last panel */
        if (opts.accumulate) sums += load(y);
        if (p->bias) sums += load(p->bias + column);
        store(y, opts.activation == RELU ? activate(sums, RELU) : sums);
    } else {
        float lanes[LANES];
        store(lanes, sums);
        epilogue_any(lanes, LANES, p, column, opts, y);
    }
}

/* The epilogue of a register block of `rows` rows by `vecs` vectors, whose rows stand `stride` vectors
 * apart in `sums`. What is to be done is asked once, where all of its columns exist. */
INLINE void epilogue_block(const vec *sums, const int stride, const int rows, const int vecs,
                           const matrix *p, int64_t column, matmul_opts opts, float *y,
                           int64_t ldy) {
    int64_t all_exist = column + vecs * LANES <= p->out, plain = !p->bias && !opts.activation;
    if (all_exist && plain && opts.accumulate) {
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++, y += ldy)
#pragma GCC unroll 4
            for (int i = 0; i < vecs; i++)
                store(y + i * LANES, sums[r * stride + i] + load(y + i * LANES));
    } else if (all_exist && plain) {
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++, y += ldy)
#pragma GCC unroll 4
            for (int i = 0; i < vecs; i++) store(y + i * LANES, sums[r * stride + i]);
    } else {
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++, y += ldy)
#pragma GCC unroll 4
            for (int i = 0; i < vecs; i++)
                if (i == 0 || column + i * LANES < p->out)
                    epilogue(sums[r * stride + i], p, column + i * LANES, opts, y + i * LANES);
    }
}

/* A packed format, and the kernel that multiplies by a matrix in it. */
typedef struct {
    /* Bytes of a column of a packed matrix; those of a panel are a multiple of 64. */
    int64_t (*column_bytes)(int64_t in, int64_t terms);
    /* Pack rows k (a multiple of 32) to k + depth (at most 32) of one block of a panel: 16
     * columns, of which `columns` exist. */
    void (*pack)(const float *from, int64_t ld, int64_t k, int64_t depth, int64_t block,
                 int64_t columns, int64_t terms, void *panel);
    void (*multiply)(const matrix *p, const float *x, int64_t ld, int64_t rows, float *y,
                     int64_t ldy, matmul_opts opts, void *scratch);
} packed_format;

/* The format in which this variant packs matrices of a number format; NULL: it has none. */
const packed_format *amx_format(int64_t terms);
const packed_format *bf16_pair_format(int64_t terms);

#endif
