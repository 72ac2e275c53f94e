/* Products of many rows with one matrix that was laid out for it beforehand. */
#include "matmul.h"

#include <math.h>

#define SLICE 32 /* rows of the right side that are laid out at a time */
#define NEAR 100000 /* numbers of the left side that all panels are multiplied with in turn */
#define DEEP 256 /* rows of both sides, when the left is turned, that are near at a time */
#define TURNED_ROWS (32 * MOST_ROWS) /* rows of a turned left side that stay near */

/* Rows that are computed at a time: their sums and two vectors of the matrix fill registers. */
#ifdef __AVX512F__
#define MOST_ROWS 12
#else
#define MOST_ROWS 3
#endif

static float rounded(float x) { /* to the nearest bfloat16, ties to even */
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        bits |= 0x400000; /* a NaN stays one */
    else
        bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000;
    memcpy(&x, &bits, 4);
    return x;
}

/* Bytes of a column of a matrix laid out. */
INLINE int64_t column_bytes(int64_t in, int64_t parts) {
    return parts && has_tiles() ? tiled(in) * 2 * parts : in * 4;
}

int64_t product_size(int64_t in, int64_t out, int64_t parts) {
    return panels(out) * PANEL * column_bytes(in, parts);
}

int64_t product_spare(int64_t in, int64_t rows) {
    return (rows + 31) / 32 * 32 * tiled(in) * 8 + 8192;
}

/* Lay out some rows of 16 columns. */
static void lay_out_rows(const float *from, int64_t ld, int64_t in, int64_t k, int64_t deep,
                         int64_t column, int64_t there, int64_t parts, void *to) {
    if (parts && has_tiles()) {
        char *panel = (char *)to + column / PANEL * PANEL * column_bytes(in, parts);
        tiles_lay_out(from, ld, k, deep, column % PANEL / LANES, there, parts, panel);
        return;
    }
    float *panel = (float *)to + column / PANEL * PANEL * in + column % PANEL;
    for (int64_t j = 0; j < deep; j++) {
        const float *row = from + j * ld;
        float *y = panel + (k + j) * PANEL;
        if (there == LANES && parts != ROUNDED)
            store(y, load(row));
        else
            for (int64_t i = 0; i < LANES; i++) {
                float x = i < there ? row[i] : 0;
                y[i] = parts == ROUNDED ? rounded(x) : x;
            }
    }
}

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Columns from `column` on that are there, of 16. */
INLINE int64_t columns_there(int64_t out, int64_t column) {
    return out - column < 0 ? 0 : least(out - column, LANES);
}

/* Lay out a matrix [in, out], as it stands in rows of `ld`, for the right side of products:
 * panels of 32 columns, or what tiles need. */
void product_lay_out(const float *from, int64_t ld, int64_t in, int64_t out, int64_t parts,
                     void *to) {
    for (int64_t k = 0; k < in; k += SLICE, from += SLICE * ld)
        for (int64_t column = 0; column < panels(out) * PANEL; column += LANES)
            lay_out_rows(from + column, ld, in, k, least(in - k, SLICE), column,
                         columns_there(out, column), parts, to);
}

/* The same for a matrix that is given turned, [out, in]. */
void product_pack(const float *from, int64_t in, int64_t out, int64_t parts, void *to) {
    float turned[SLICE * LANES];
    for (int64_t column = 0; column < panels(out) * PANEL; column += LANES)
        for (int64_t k = 0; k < in; k += SLICE) {
            int64_t there = columns_there(out, column), deep = least(in - k, SLICE);
            memset(turned, 0, sizeof turned);
            for (int64_t i = 0; i < there; i++)
                for (int64_t j = 0; j < deep; j++)
                    turned[j * LANES + i] = from[(column + i) * in + k + j];
            lay_out_rows(turned, LANES, in, k, deep, column, LANES, parts, to);
        }
}

product product_part(const product *p, int64_t first, int64_t columns) {
    product part = *p;
    part.out = least(p->out - first, columns);
    part.weight = (const char *)p->weight + first * column_bytes(p->in, p->parts);
    part.bias = p->bias ? p->bias + first : 0;
    return part;
}

static float bent(float x, int64_t bend) {
    if (bend == GELU) return 0.5f * x * (1 + erff(x * 0.70710678f));
    if (bend == SWISH) return x / (1 + expf(-x));
    return x;
}

__attribute__((noinline)) void finish_each(const float *sums, const product *p, int64_t column,
                                           manner how, float *y) {
    for (int64_t i = 0; i < PANEL && column + i < p->out; i++) {
        float x = sums[i];
        if (p->bias) x += p->bias[column + i];
        if (how.bend == RELU) x = x > 0 || x != x ? x : 0;
        y[i] = how.add ? y[i] + x : bent(x, how.bend);
    }
}

/* Finish two vectors of sums, which all have columns but in a last panel. */
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

/* `rows` rows of the left side, `ld` apart, the numbers of each `by` apart. */
INLINE void block(const product *p, const float *x, int64_t ld, int64_t by, int64_t from,
                  int64_t to, int64_t column, float *y, int64_t ldy, manner how,
                  const int rows) {
    const float *w = (const float *)p->weight + column * p->in;
    vec sums[MOST_ROWS][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = (vec){0};
    for (int64_t k = from; k < to; k++) {
        vec first = load(w + k * PANEL), second = load(w + k * PANEL + LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            vec each = all(x[r * ld + k * by]);
            sums[r][0] += each * first;
            sums[r][1] += each * second;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        finish(sums[r][0], sums[r][1], p, column, how, y + r * ldy + column);
}

INLINE void whole_by(const product *p, const float *x, int64_t ld, int64_t by, int64_t from,
                     int64_t to, int64_t rows, float *y, int64_t ldy, manner how) {
    for (int64_t column = 0; column < p->out; column += PANEL) {
        int64_t row = 0;
        for (; row + MOST_ROWS <= rows; row += MOST_ROWS)
            block(p, x + row * ld, ld, by, from, to, column, y + row * ldy, ldy, how, MOST_ROWS);
        if (MOST_ROWS > 4)
            for (; row + 4 <= rows; row += 4)
                block(p, x + row * ld, ld, by, from, to, column, y + row * ldy, ldy, how, 4);
        for (; row < rows; row++)
            block(p, x + row * ld, ld, by, from, to, column, y + row * ldy, ldy, how, 1);
    }
}

/* The same for a left side that is turned: of 12 rows, which are columns there, the numbers
 * that are multiplied together are brought side by side. Where they stood, at distances of
 * powers of two, they would drive one another out of the cache. */
static void whole_turned(const product *p, const float *x, int64_t ld, int64_t from, int64_t to,
                         int64_t rows, float *y, int64_t ldy, manner how, float *packed) {
    int64_t full = rows / MOST_ROWS * MOST_ROWS, deep = to - from;
    for (int64_t row = 0, last; row < full; row = last) { /* some lines of memory at a time */
        last = row + 8 * MOST_ROWS < full ? row + 8 * MOST_ROWS : full;
        for (int64_t k = 0; k < deep; k++)
            for (int64_t r = row; r < last; r += MOST_ROWS)
                memcpy(packed + r * deep + k * MOST_ROWS, x + (from + k) * ld + r, MOST_ROWS * 4);
    }
    for (int64_t column = 0; column < p->out; column += PANEL)
        for (int64_t row = 0; row < full; row += MOST_ROWS)
            block(p, packed + row * deep - from * MOST_ROWS, 1, MOST_ROWS, from, to, column,
                  y + row * ldy, ldy, how, MOST_ROWS);
    whole_by(p, x + full, 1, ld, from, to, rows - full, y + full * ldy, ldy, how);
}

static void whole(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                  int64_t ldy, manner how, void *spare) {
    if (!how.turned) {
        int64_t most = NEAR / p->in / MOST_ROWS, high = (most > 2 ? most : 2) * MOST_ROWS;
        for (int64_t row = 0; row < rows; row += high)
            whole_by(p, x + row * ld, ld, 1, 0, p->in, rows - row < high ? rows - row : high,
                     y + row * ldy, ldy, how);
        return;
    }
    int64_t deep = how.bend ? p->in : DEEP; /* a part of a sum cannot be bent */
    for (int64_t row = 0; row < rows; row += TURNED_ROWS)
        for (int64_t from = 0; from < p->in; from += deep) {
            product part = *p;
            manner way = how;
            if (from) part.bias = 0, way.add = 1;
            whole_turned(&part, x + row, ld, from, from + deep < p->in ? from + deep : p->in,
                         rows - row < TURNED_ROWS ? rows - row : TURNED_ROWS, y + row * ldy,
                         ldy, way, spare);
        }
}

/* Rounded numbers where there are no tiles: the same but for the order of the sums. */
static void in_float(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                     int64_t ldy, manner how, float *half) {
    int64_t high = how.turned ? p->in : rows, wide = how.turned ? rows : p->in;
    for (int64_t row = 0; row < high; row++)
        for (int64_t k = 0; k < wide; k++) half[row * wide + k] = rounded(x[row * ld + k]);
    whole(p, half, wide, rows, y, ldy, how, half + high * wide);
}

void product_apply(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                   int64_t ldy, manner how, void *spare) {
    if (p->parts && has_tiles())
        tiles_apply(p, x, ld, rows, y, ldy, how, spare);
    else if (p->parts == ROUNDED)
        in_float(p, x, ld, rows, y, ldy, how, spare);
    else
        whole(p, x, ld, rows, y, ldy, how, spare);
}
