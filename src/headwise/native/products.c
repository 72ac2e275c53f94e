/* Products of many rows with one matrix that was laid out for it beforehand. */
#include "kernels.h"

#include <math.h>

#define PANEL 32 /* columns that are computed at a time: two vectors */
#define SLICE 64 /* rows of the right side that are turned at a time */
#define NEAR 100000 /* numbers of the left side that all panels are multiplied with in turn */
#define DEEP 256 /* rows of both sides, when the left is turned, that are near at a time */
#define TURNED_ROWS (32 * MOST_ROWS) /* rows of a turned left side that stay near */

/* Rows that are computed at a time: their sums and two vectors of the matrix fill registers. */
#ifdef __AVX512F__
#define MOST_ROWS 12
#else
#define MOST_ROWS 3
#endif

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
    return (rows + 31) / 32 * 32 * pairs(in) * 8 + 8192;
}

INLINE uint16_t upper_half(float x) {
    uint32_t bits;
    x = rounded(x);
    memcpy(&bits, &x, 4);
    return bits >> 16;
}

/* Rows x and x + ld, side by side in pairs of bfloat16; what is not there is 0. */
INLINE void lay_out_pair(const float *x, int64_t ld, int64_t rows, int64_t columns,
                         uint16_t *to) {
#if TILES
    if (rows >= 2 && columns == LANES) {
        __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
                                         24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
                                         16, 0);
        __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + ld), _mm512_loadu_ps(x));
        _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, (__m512i)both));
        return;
    }
#endif
    for (int64_t i = 0; i < LANES; i++) {
        to[2 * i] = rows > 0 && i < columns ? upper_half(x[i]) : 0;
        to[2 * i + 1] = rows > 1 && i < columns ? upper_half(x[ld + i]) : 0;
    }
}

/* Lay out a matrix [in, out], as it stands in rows of `ld`, for the right side of products:
 * panels of 32 columns; for tiles, pairs of rows in blocks of 16 columns. */
void product_lay_out(const float *from, int64_t ld, int64_t in, int64_t out, int64_t half,
                     void *to) {
    for (int64_t column = 0; column < panels(out) * PANEL; column += LANES) {
        int64_t there = out - column < 0 ? 0 : out - column < LANES ? out - column : LANES;
        if (half && tiles) {
            uint16_t *block = (uint16_t *)to + column * pairs(in);
            for (int64_t k = 0; k < pairs(in); k += 2, block += 2 * LANES)
                lay_out_pair(from + k * ld + column, ld, in - k, there, block);
            continue;
        }
        float *panel = (float *)to + column / PANEL * PANEL * in + column % PANEL;
        for (int64_t k = 0; k < in; k++) {
            const float *row = from + k * ld + column;
            if (there == LANES && !half) {
                store(panel + k * PANEL, load(row));
                continue;
            }
            for (int64_t i = 0; i < LANES; i++) {
                float x = i < there ? row[i] : 0;
                panel[k * PANEL + i] = half ? rounded(x) : x;
            }
        }
    }
}

/* The same for a matrix that is given turned, [out, in]. */
void product_pack(const float *from, int64_t in, int64_t out, int64_t half, void *to) {
    float turned[SLICE * LANES];
    for (int64_t column = 0; column < panels(out) * PANEL; column += LANES) {
        int64_t there = out - column < 0 ? 0 : out - column < LANES ? out - column : LANES;
        for (int64_t k = 0; k < in; k += SLICE) {
            int64_t deep = in - k < SLICE ? in - k : SLICE;
            memset(turned, 0, sizeof turned);
            for (int64_t i = 0; i < there; i++)
                for (int64_t j = 0; j < deep; j++)
                    turned[j * LANES + i] = from[(column + i) * in + k + j];
            if (half && tiles) {
                uint16_t *block = (uint16_t *)to + column * pairs(in) + k * LANES;
                for (int64_t j = 0; j < pairs(deep); j += 2, block += 2 * LANES)
                    lay_out_pair(turned + j * LANES, LANES, deep - j, LANES, block);
                continue;
            }
            float *panel = (float *)to + column / PANEL * PANEL * in + column % PANEL;
            for (int64_t j = 0; j < deep; j++)
                for (int64_t i = 0; i < LANES; i++) {
                    float x = turned[j * LANES + i];
                    panel[(k + j) * PANEL + i] = half ? rounded(x) : x;
                }
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

/* Do with 32 sums one by one what `finish` does; not all of them may have columns. */
static __attribute__((noinline)) void finish_each(const float *sums, const product *p,
                                                  int64_t column, manner how, float *y) {
    for (int64_t i = 0; i < PANEL && column + i < p->out; i++) {
        float x = sums[i];
        if (p->bias) x += p->bias[column + i];
        if (how.bend == RELU) x = x > 0 || x != x ? x : 0;
        y[i] = how.add ? y[i] + x : bent(x, how.bend);
    }
}

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
    for (; k < pairs(in); k++) to[k] = k < in ? upper_half(x[k]) : 0;
}

/* Turn 16 vectors of 16 words. */
INLINE void turn_block(__m512i r[LANES]) {
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

/* x [in, ld] to [rows, pairs(in)]: pairs of rows, turned in blocks of 16 times 16. */
static void to_half_turned(const float *x, int64_t ld, int64_t in, int64_t rows, uint16_t *to) {
    int64_t wide = pairs(in);
    for (int64_t k = 0; k < wide; k += 2 * LANES)
        for (int64_t row = 0; row < rows; row += LANES) {
            __m512i block[LANES];
            int64_t there = rows - row < LANES ? rows - row : LANES;
            for (int64_t j = 0; j < LANES; j++)
                lay_out_pair(x + (k + 2 * j) * ld + row, ld, in - k - 2 * j, there,
                             (uint16_t *)(block + j));
            turn_block(block);
            for (int64_t r = 0; r < there; r++)
                _mm512_storeu_si512(to + (row + r) * wide + k, block[r]);
        }
}

static void in_tiles(const product *p, const float *x, int64_t ldx, int64_t rows, float *y,
                     int64_t ldy, manner how, void *spare) {
    int64_t wide = pairs(p->in), steps = wide / 32, full = (rows + 15) / 16 * 16;
    float *sums = spare; /* [32, 32] */
    uint16_t *half = (uint16_t *)((char *)spare + 4096);
    if (how.turned)
        to_half_turned(x, ldx, p->in, rows, half);
    else
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
                finish(load(sums + r * PANEL), load(sums + r * PANEL + LANES), p, column, how,
                       y + (row + r) * ldy + column);
        }
    }
    _tile_release();
}
#else
int64_t product_prepare(void) { return tiles; }
#endif

/* The same numbers where there are no tiles, but for the order of the sums. */
static void in_float(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                     int64_t ldy, manner how, float *half) {
    int64_t high = how.turned ? p->in : rows, wide = how.turned ? rows : p->in;
    for (int64_t row = 0; row < high; row++)
        for (int64_t k = 0; k < wide; k++) half[row * wide + k] = rounded(x[row * ld + k]);
    whole(p, half, wide, rows, y, ldy, how, half + high * wide);
}

void product_apply(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                   int64_t ldy, manner how, void *spare) {
#if TILES
    if (p->half && tiles) {
        in_tiles(p, x, ld, rows, y, ldy, how, spare);
        return;
    }
#endif
    if (p->half)
        in_float(p, x, ld, rows, y, ldy, how, spare);
    else
        whole(p, x, ld, rows, y, ldy, how, spare);
}
