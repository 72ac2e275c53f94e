/* Products of matrices as small as those of one head in one sentence, which nothing packs ahead:
 * by vectors in train_attention.c, by AMX tiles in small_matmul_amx.c. */
#ifndef HEADWISE_SMALL_MATMUL_H
#define HEADWISE_SMALL_MATMUL_H

#include "kernels.h"

/* Its rows are `ld` apart; transposed: its transpose is multiplied. */
typedef struct {
    const float *x;
    int64_t ld, transposed;
} operand;

/* Which part of the left operand is not zero: all of it, or its lower or upper triangle (causal
 * attention). */
enum { ALL, LOWER, UPPER };

/* y [rows, ldy] = left [rows, depth] right [depth, columns] * scale. Where the right operand is
 * transposed, y is padded with zeros to whole vectors. With `lower_only` only the lower triangle of
 * y is needed; the rest is undefined. */
typedef struct {
    operand left, right;
    float *y;
    int64_t ldy, rows, columns, depth, triangle_of_left, lower_only;
    float scale;
} small_product;

/* By tiles of bfloat16 numbers, between begin_tiles and end_tiles; scratch: small_matmul_amx_bytes(
 * the largest of rows, columns and depth), aligned to 64. */
void small_matmul_amx(const small_product *p, void *scratch);
int64_t small_matmul_amx_bytes(int64_t size);

/* Return whether AMX multiplies small matrices of numbers of so many terms. It does of rounded
 * numbers only: to split both operands for a single product takes longer than the product. */
int64_t begin_tiles(int64_t terms);
void end_tiles(int64_t begun);

#endif
