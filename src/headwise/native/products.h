/* What the two ways of multiplying share: vectors and tiles. */
#ifndef HEADWISE_PRODUCTS_H
#define HEADWISE_PRODUCTS_H

#include "kernels.h"

#define PANEL 32 /* columns that are computed at a time: two vectors */

INLINE int64_t panels(int64_t out) { return (out + PANEL - 1) / PANEL; }
INLINE int64_t tiled(int64_t in) { return (in + 31) / 32 * 32; } /* numbers of a row in tiles */

/* Do with 32 sums one by one what `finish` does; not all of them may have columns. */
void finish_each(const float *sums, const product *p, int64_t column, manner how, float *y);

/* Add the bias, bend, and write the sums, or add them to what is there. */
INLINE void finish(vec a, vec b, const product *p, int64_t column, manner how, float *y) {
    if (p->out - column < PANEL || how.bend > RELU) {
        float sums[PANEL];
        store(sums, a);
        store(sums + LANES, b);
        finish_each(sums, p, column, how, y);
        return;
    }
    if (p->bias) {
        a += load(p->bias + column);
        b += load(p->bias + column + LANES);
    }
    if (how.bend == RELU) {
        a = larger(all(0), a); /* a NaN stays one: what is not larger is the second */
        b = larger(all(0), b);
    }
    if (how.add) {
        a += load(y);
        b += load(y + LANES);
    }
    store(y, a);
    store(y + LANES, b);
}

/* Whether this processor has tiles, and this process may use them. */
int64_t has_tiles(void);

/* Lay out rows `k` to k + deep (k is even) of a block of 16 columns, `there` of which are
 * there, for tiles. */
void tiles_lay_out(const float *from, int64_t ld, int64_t k, int64_t deep, int64_t block,
                   int64_t there, int64_t parts, void *panel);

void tiles_apply(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                 int64_t ldy, manner how, void *spare);

#endif
