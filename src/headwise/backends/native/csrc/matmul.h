/* What the two ways of multiplying share: vectors and tiles. */
#ifndef HEADWISE_PRODUCTS_H
#define HEADWISE_PRODUCTS_H

#include "kernels.h"

#define PANEL 32 /* columns that are computed at a time: two vectors */

INLINE int64_t panels(int64_t out) { return (out + PANEL - 1) / PANEL; }
INLINE int64_t tiled(int64_t in) { return (in + 31) / 32 * 32; } /* numbers of a row in tiles */

/* Add the bias to 32 sums, bend, and write them, or add them to what is there, one by one: not
 * all of them may have columns. */
void finish_each(const float *sums, const product *p, int64_t column, manner how, float *y);

/* Whether this processor has tiles, and this process may use them. */
int64_t has_tiles(void);

/* Lay out rows k, a multiple of 32, to k + deep of one of the two blocks of 16 columns of a
 * panel, `there` of which are there. */
void tiles_lay_out(const float *from, int64_t ld, int64_t k, int64_t deep, int64_t block,
                   int64_t there, int64_t parts, void *panel);

void tiles_apply(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                 int64_t ldy, manner how, void *spare);

#endif
