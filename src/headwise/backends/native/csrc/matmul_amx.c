/* Products by the tiles that some processors have: 16 rows of 32 bfloat16 numbers each.
 *
 * A bfloat16 number has 8 bits of the 24 that a float32 has. So one of them is a float32
 * rounded, and three of them, each what the ones before leave, are a float32 whole. Of the
 * nine products of two such numbers six are summed: the others are 2^-23 of all at worst, and
 * 2^-26 by and large (Henry, Tang and Heinecke 2019: Leveraging the bfloat16 Artificial
 * Intelligence Datatype For Higher-Precision Computations). Six products in tiles take less
 * time than one without.
 */
#include "matmul.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#define TILE 512       /* numbers of a tile */
#define DEPTH 32       /* numbers of its row */
#define NEAR_DEPTH 512 /* numbers of a row that are multiplied before those behind them */
#define NEAR_ROWS 768  /* parts of rows of the left side that stay near */

static int64_t granted;

/* Ask the kernel for the tiles, before anything is laid out; tell whether it grants them. */
int64_t product_prepare(void) {
    return granted = !syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18);
}

int64_t has_tiles(void) { return granted; }

typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shapes;

/* Have everything written: GCC does not know that tiles read memory. */
INLINE void settle(const void *written) { __asm__ volatile("" ::"r"(written) : "memory"); }

static void shape_tiles(void) {
    tile_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) shapes.bytes[i] = 64, shapes.rows[i] = 16;
    settle(&shapes);
    _tile_loadconfig(&shapes);
}

/* The parts of two vectors of numbers, side by side: of a pair in a tile, one belongs to the
 * first 16 of its 32 rows, one to the others. */
INLINE void split(__m512 first, __m512 second, __m512i *to, const int parts) {
    if (parts == ROUNDED) { /* ties to even, which needs no second part to be right */
        __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
                                         24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
                                         16, 0);
        to[0] = _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second, first));
        return;
    }
    __m512i high = _mm512_set1_epi32(0xffff0000), up = _mm512_set1_epi32(0x8000);
    for (int i = 0; i < parts; i++) {
        __m512i a = (__m512i)first, b = (__m512i)second;
        if (i + 1 < parts) { /* the last part is short enough as it is, and keeps a NaN one */
            a = _mm512_and_si512(_mm512_add_epi32(a, up), high);
            b = _mm512_and_si512(_mm512_add_epi32(b, up), high);
            first -= (__m512)a;
            second -= (__m512)b;
        }
        to[i] = _mm512_or_si512(_mm512_srli_epi32(a, 16), _mm512_and_si512(b, high));
    }
}

INLINE __m512 some_of(const float *x, int64_t there) {
    if (there >= LANES) return _mm512_loadu_ps(x);
    return _mm512_maskz_loadu_ps(there > 0 ? (1 << there) - 1 : 0, x);
}

/* A panel is a row of tiles: of each 32 rows the left 16 columns, part by part, and the right. */
INLINE void lay_out_by(const float *from, int64_t ld, int64_t k, int64_t deep, int64_t block,
                       int64_t there, uint16_t *panel, const int parts) {
    for (int64_t j = 0; j < tiled(deep); j += DEPTH)
        for (int64_t i = j; i < j + 16; i++) {
            uint16_t *tile = panel + ((k + j) / DEPTH * 2 + block) * parts * TILE;
            const float *x = from + i * ld;
            __m512i pair[WHOLE];
            split(some_of(x, i < deep ? there : 0),
                  some_of(x + 16 * ld, i + 16 < deep ? there : 0), pair, parts);
            for (int part = 0; part < parts; part++)
                _mm512_storeu_si512(tile + part * TILE + (i - j) * DEPTH, pair[part]);
        }
}

void tiles_lay_out(const float *from, int64_t ld, int64_t k, int64_t deep, int64_t block,
                   int64_t there, int64_t parts, void *panel) {
    if (parts == ROUNDED)
        lay_out_by(from, ld, k, deep, block, there, panel, ROUNDED);
    else
        lay_out_by(from, ld, k, deep, block, there, panel, WHOLE);
}

/* Rows [rows, ld] of the left side: of each 16 rows, one tile and part after the other. */
INLINE void take_rows(const float *x, int64_t ld, int64_t in, int64_t rows, uint16_t *to,
                      const int parts) {
    int64_t wide = tiled(in) * parts;
    for (int64_t row = 0; row < (rows + 15) / 16 * 16; row++) {
        uint16_t *tile = to + row / 16 * 16 * wide + row % 16 * DEPTH;
        for (int64_t k = 0; k < in; k += DEPTH, tile += parts * TILE) {
            const float *from = x + row * ld + k;
            int64_t there = row < rows ? in - k : 0;
            __m512i each[WHOLE];
            split(some_of(from, there), some_of(from + 16, there - 16), each, parts);
            for (int i = 0; i < parts; i++) _mm512_storeu_si512(tile + i * TILE, each[i]);
        }
    }
}

/* The same for a left side [in, ld] whose columns are the rows that are asked for. */
INLINE void take_columns(const float *x, int64_t ld, int64_t in, int64_t rows, uint16_t *to,
                         const int parts) {
    int64_t wide = tiled(in) * parts;
    for (int64_t k = 0; k < in; k += DEPTH, to += parts * TILE)
        for (int64_t row = 0; row < rows; row += 16) {
            __m512i tile[WHOLE][LANES];
            for (int j = 0; j < 16; j++) {
                const float *from = x + (k + j) * ld + row;
                __m512i pair[WHOLE];
                split(some_of(from, k + j < in ? rows - row : 0),
                      some_of(from + 16 * ld, k + j + 16 < in ? rows - row : 0), pair, parts);
                for (int i = 0; i < parts; i++) tile[i][j] = pair[i];
            }
            for (int i = 0; i < parts; i++) {
                turn_square(tile[i]);
                for (int r = 0; r < 16; r++)
                    _mm512_storeu_si512(to + row * wide + i * TILE + r * DEPTH, tile[i][r]);
            }
        }
}

/* What is done while tiles multiply: sums of the block before are finished, and what comes
 * next is fetched. What is called for that must not use tiles. */
typedef struct {
    const float *sums; /* [rows, 32] */
    float *y;
    int64_t column, rows;
    const float *next; /* rows of y that come next */
    int64_t next_rows;
    const char *panel; /* the one that comes next */
} aside;

INLINE void finish_some(const product *p, manner how, int64_t ldy, aside *a, int64_t rows) {
    rows = a->rows < rows ? a->rows : rows;
    a->rows -= rows;
    if (p->out - a->column < PANEL || how.bend > RELU) {
        for (; rows; rows--, a->sums += PANEL, a->y += ldy)
            finish_each(a->sums, p, a->column, how, a->y);
        return;
    }
    vec first = {0}, second = {0};
    if (p->bias) {
        first = load(p->bias + a->column);
        second = load(p->bias + a->column + LANES);
    }
    const float *sums = a->sums;
    float *y = a->y;
    for (; rows; rows--, sums += PANEL, y += ldy) {
        vec left = load(sums) + first, right = load(sums + LANES) + second;
        if (how.bend) left = larger(all(0), left), right = larger(all(0), right);
        if (how.add) left += load(y), right += load(y + LANES);
        store(y, left);
        store(y + LANES, right);
    }
    a->sums = sums;
    a->y = y;
}

INLINE void fetch_some(int64_t ldy, aside *a, int64_t rows, int64_t lines) {
    rows = a->next_rows < rows ? a->next_rows : rows;
    a->next_rows -= rows;
    for (; rows; rows--, a->next += ldy) {
        __builtin_prefetch(a->next, 1);
        __builtin_prefetch(a->next + LANES, 1);
    }
    for (; lines; lines--, a->panel += 64) __builtin_prefetch(a->panel);
}

INLINE void take_left(const uint16_t *upper, const uint16_t *lower, int part, const int two) {
    _tile_loadd(4, upper + part * TILE, 64);
    if (two) _tile_loadd(5, lower + part * TILE, 64);
}

INLINE void take_right(const uint16_t *panel, int part, const int parts) {
    _tile_loadd(6, panel + part * TILE, 64);
    _tile_loadd(7, panel + (parts + part) * TILE, 64);
}

INLINE void add_products(const int two) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!two) return;
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Leave in tiles 0 to 3 the products of one or two blocks of 16 rows with a panel. */
INLINE void multiply(const product *p, const uint16_t *upper, const uint16_t *lower,
                     const uint16_t *panel, int64_t steps, manner how, int64_t ldy, aside *a,
                     int64_t lines, const int parts, const int two) {
    int64_t rows = (32 + steps - 1) / steps;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < steps; k++) {
        if (parts == WHOLE) { /* in an order that reads as few tiles as can be anew */
            take_left(upper, lower, 2, two);
            take_right(panel, 0, parts);
            add_products(two);
            take_left(upper, lower, 1, two);
            add_products(two);
            take_right(panel, 1, parts);
            add_products(two);
            take_left(upper, lower, 0, two);
            add_products(two);
            take_right(panel, 2, parts);
            add_products(two);
        } else {
            take_left(upper, lower, 0, two);
        }
        take_right(panel, 0, parts);
        add_products(two);
        finish_some(p, how, ldy, a, rows);
        fetch_some(ldy, a, rows, lines);
        upper += parts * TILE;
        lower += parts * TILE;
        panel += 2 * parts * TILE;
    }
}

/* Some rows of the left side by all panels; of both, the numbers from `from` on. */
INLINE void apply_near(const product *p, const uint16_t *left, int64_t from, int64_t steps,
                       int64_t rows, float *y, int64_t ldy, manner how, float *sums,
                       const int parts) {
    int64_t each = steps * parts * TILE, blocks = (rows + 31) / 32;
    int64_t lines = (2 * each / 32 + blocks * steps - 1) / (blocks * steps);
    aside a = {0};
    settle(left);
    for (int64_t column = 0; column < p->out; column += PANEL) {
        int64_t start = column * tiled(p->in) + 2 * from * LANES;
        const uint16_t *panel = (const uint16_t *)p->weight + start * parts;
        a.panel = (const char *)(panel + PANEL * tiled(p->in) * parts);
        for (int64_t row = 0; row < rows; row += 32) {
            const uint16_t *upper = left + row / 16 * each;
            int64_t there = rows - row < 32 ? rows - row : 32;
            a.next = y + row * ldy + column;
            a.next_rows = there;
            if (there > 16)
                multiply(p, upper, upper + each, panel, steps, how, ldy, &a, lines, parts, 1);
            else
                multiply(p, upper, upper, panel, steps, how, ldy, &a, lines, parts, 0);
            _tile_stored(0, sums, PANEL * 4);
            _tile_stored(1, sums + 16, PANEL * 4);
            if (there > 16) {
                _tile_stored(2, sums + 16 * PANEL, PANEL * 4);
                _tile_stored(3, sums + 16 * PANEL + 16, PANEL * 4);
            }
            a.sums = sums;
            a.y = y + row * ldy + column;
            a.column = column;
            a.rows = there;
        }
    }
    finish_some(p, how, ldy, &a, 32);
}

INLINE void apply_by(const product *p, const float *x, int64_t ldx, int64_t rows, float *y,
                     int64_t ldy, manner how, float *sums, const int parts) {
    int64_t deep = how.bend ? p->in : NEAR_DEPTH; /* a part of a sum cannot be bent */
    uint16_t *left = (uint16_t *)(sums + 32 * PANEL);
    shape_tiles();
    for (int64_t from = 0; from < p->in; from += deep) {
        product part = *p;
        manner way = how;
        int64_t in = p->in - from < deep ? p->in - from : deep, high = NEAR_ROWS / parts;
        if (from) part.bias = 0, way.add = 1;
        for (int64_t row = 0; row < rows; row += high) {
            int64_t some = rows - row < high ? rows - row : high;
            if (how.turned)
                take_columns(x + from * ldx + row, ldx, in, some, left, parts);
            else
                take_rows(x + row * ldx + from, ldx, in, some, left, parts);
            apply_near(&part, left, from, tiled(in) / DEPTH, some, y + row * ldy, ldy, way, sums,
                       parts);
        }
    }
    _tile_release();
}

void tiles_apply(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                 int64_t ldy, manner how, void *spare) {
    if (p->parts == ROUNDED)
        apply_by(p, x, ld, rows, y, ldy, how, spare, ROUNDED);
    else
        apply_by(p, x, ld, rows, y, ldy, how, spare, WHOLE);
}

#else

int64_t product_prepare(void) { return 0; }

int64_t has_tiles(void) { return 0; }

void tiles_lay_out(const float *from, int64_t ld, int64_t k, int64_t deep, int64_t block,
                   int64_t there, int64_t parts, void *panel) {}

void tiles_apply(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                 int64_t ldy, manner how, void *spare) {}

#endif
