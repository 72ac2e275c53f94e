/* Products of many rows with one matrix that was laid out for it beforehand. */
#include "kernels.h"

#include <math.h>

#define PANEL 32 /* columns that are computed at a time: two vectors */
#define MOST_ROWS 12 /* 24 sums, two vectors of the matrix: what registers hold */

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#define TILES 1
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#define TILES 0
#endif

static int64_t tiles; /* whether this process may use them */

INLINE int64_t panels(int64_t out) { return (out + PANEL - 1) / PANEL; }
INLINE int64_t pairs(int64_t in) { return (in + 31) / 32 * 32; }

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

/* Bytes of a matrix [out, in] laid out. */
int64_t product_size(int64_t in, int64_t out, int64_t half) {
    if (half && tiles) return panels(out) * PANEL * pairs(in) * 2;
    return panels(out) * PANEL * in * 4;
}

int64_t product_spare(int64_t in, int64_t rows) {
    return (rows + 31) / 32 * 32 * pairs(in) * 4 + 8192;
}

/* Lay out a matrix [out, in]: panels of 32 columns; for tiles, pairs of rows in them. */
void product_pack(const float *from, int64_t in, int64_t out, int64_t half, void *to) {
    memset(to, 0, product_size(in, out, half));
    for (int64_t column = 0; column < out; column++)
        for (int64_t k = 0; k < in; k++) {
            float x = from[column * in + k];
            if (half) x = rounded(x);
            if (half && tiles) {
                int64_t tile = (column / 16) * (pairs(in) / 32) + k / 32;
                int64_t place = tile * 512 + k % 32 / 2 * 32 + column % 16 * 2 + k % 2;
                uint32_t bits;
                memcpy(&bits, &x, 4);
                ((uint16_t *)to)[place] = bits >> 16;
            } else {
                int64_t panel = column / PANEL;
                ((float *)to)[(panel * in + k) * PANEL + column % PANEL] = x;
            }
        }
}

product product_part(const product *p, int64_t first, int64_t columns) {
    int64_t left = p->out - first;
    int64_t bytes = p->half && tiles ? pairs(p->in) * 2 : p->in * 4;
    product part = *p;
    part.out = left < columns ? left : columns;
    part.weight = (const char *)p->weight + first * bytes;
    part.bias = p->bias ? p->bias + first : 0;
    return part;
}

INLINE float bent(float x, int64_t bend) {
    if (bend == GELU) return 0.5f * x * (1 + erff(x * 0.70710678f));
    if (bend == SWISH) return x / (1 + expf(-x));
    return x;
}

/* Add the bias, bend, and write as many of 32 sums as there are columns. */
INLINE void finish(vec a, vec b, const product *p, int64_t column, int64_t bend, float *y) {
    float sums[PANEL];
    int64_t left = p->out - column;
    if (p->bias && left >= PANEL) {
        a += load(p->bias + column);
        b += load(p->bias + column + LANES);
    }
    if (bend == RELU && (left >= PANEL || !p->bias)) {
        a = larger(a, all(0));
        b = larger(b, all(0));
    }
    if (left >= PANEL && bend <= RELU) {
        store(y, a);
        store(y + LANES, b);
        return;
    }
    store(sums, a);
    store(sums + LANES, b);
    for (int64_t i = 0; i < PANEL && i < left; i++) {
        float x = sums[i];
        if (p->bias && left < PANEL) x += p->bias[column + i];
        if (bend == RELU) x = x > 0 || x != x ? x : 0;
        y[i] = bent(x, bend);
    }
}

INLINE void block(const product *p, const float *x, int64_t ldx, int64_t column, float *y,
                  int64_t ldy, int64_t bend, const int rows) {
    const float *w = (const float *)p->weight + column * p->in;
    vec sums[MOST_ROWS][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = (vec){0};
    for (int64_t k = 0; k < p->in; k++) {
        vec first = load(w + k * PANEL), second = load(w + k * PANEL + LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            vec each = all(x[r * ldx + k]);
            sums[r][0] += each * first;
            sums[r][1] += each * second;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        finish(sums[r][0], sums[r][1], p, column, bend, y + r * ldy + column);
}

static void whole(const product *p, const float *x, int64_t ldx, int64_t rows, float *y,
                  int64_t ldy, int64_t bend) {
    for (int64_t column = 0; column < p->out; column += PANEL) {
        int64_t row = 0;
        for (; row + 12 <= rows; row += 12)
            block(p, x + row * ldx, ldx, column, y + row * ldy, ldy, bend, 12);
        for (; row + 4 <= rows; row += 4)
            block(p, x + row * ldx, ldx, column, y + row * ldy, ldy, bend, 4);
        for (; row < rows; row++)
            block(p, x + row * ldx, ldx, column, y + row * ldy, ldy, bend, 1);
    }
}

#if TILES
typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shapes;

static void shape_tiles(void) {
    tile_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) shapes.bytes[i] = 64, shapes.rows[i] = 16;
    _tile_loadconfig(&shapes);
}

/* Ask the kernel for the tiles, before anything is laid out; tell whether it grants them. */
int64_t product_prepare(void) {
    return tiles = !syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18);
}

static void to_half(const float *x, int64_t in, uint16_t *to) {
    int64_t k = 0;
    for (; k + 32 <= in; k += 32) {
        __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + k + 16), _mm512_loadu_ps(x + k));
        memcpy(to + k, &both, 64);
    }
    for (; k < pairs(in); k++) {
        float each = k < in ? rounded(x[k]) : 0;
        uint32_t bits;
        memcpy(&bits, &each, 4);
        to[k] = bits >> 16;
    }
}

static void in_tiles(const product *p, const float *x, int64_t ldx, int64_t rows, float *y,
                     int64_t ldy, int64_t bend, void *spare) {
    int64_t wide = pairs(p->in), steps = wide / 32, full = (rows + 15) / 16 * 16;
    float *sums = spare; /* [32, 32] */
    uint16_t *half = (uint16_t *)((char *)spare + 4096);
    for (int64_t row = 0; row < rows; row++) to_half(x + row * ldx, p->in, half + row * wide);
    memset(half + rows * wide, 0, (full - rows) * wide * 2);
    shape_tiles();
    for (int64_t column = 0; column < p->out; column += PANEL) {
        const uint16_t *left = (const uint16_t *)p->weight + column * wide;
        const uint16_t *right = left + 16 * wide;
        for (int64_t row = 0; row < rows; row += 32) {
            const uint16_t *upper = half + row * wide, *lower = upper + 16 * wide;
            int two = row + 16 < rows;
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            for (int64_t k = 0; k < steps; k++) {
                _tile_loadd(4, upper + k * 32, wide * 2);
                _tile_loadd(6, left + k * 512, 64);
                _tile_loadd(7, right + k * 512, 64);
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                if (two) {
                    _tile_loadd(5, lower + k * 32, wide * 2);
                    _tile_dpbf16ps(2, 5, 6);
                    _tile_dpbf16ps(3, 5, 7);
                }
            }
            _tile_stored(0, sums, PANEL * 4);
            _tile_stored(1, sums + 16, PANEL * 4);
            if (two) {
                _tile_stored(2, sums + 16 * PANEL, PANEL * 4);
                _tile_stored(3, sums + 16 * PANEL + 16, PANEL * 4);
            }
            int64_t there = rows - row < 32 ? rows - row : 32;
            for (int64_t r = 0; r < there; r++)
                finish(load(sums + r * PANEL), load(sums + r * PANEL + LANES), p, column, bend,
                       y + (row + r) * ldy + column);
        }
    }
    _tile_release();
}
#else
int64_t product_prepare(void) { return tiles; }
#endif

/* The same numbers where there are no tiles, but for the order of the sums. */
static void in_float(const product *p, const float *x, int64_t ldx, int64_t rows, float *y,
                     int64_t ldy, int64_t bend, float *half) {
    for (int64_t row = 0; row < rows; row++)
        for (int64_t k = 0; k < p->in; k++) half[row * p->in + k] = rounded(x[row * ldx + k]);
    whole(p, half, p->in, rows, y, ldy, bend);
}

void product_apply(const product *p, const float *x, int64_t ldx, int64_t rows, float *y,
                   int64_t ldy, int64_t bend, void *spare) {
#if TILES
    if (p->half && tiles) {
        in_tiles(p, x, ldx, rows, y, ldy, bend, spare);
        return;
    }
#endif
    if (p->half)
        in_float(p, x, ldx, rows, y, ldy, bend, spare);
    else
        whole(p, x, ldx, rows, y, ldy, bend);
}
