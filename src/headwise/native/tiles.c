#define HINT _MM_HINT_T0
/* Products by the tiles that some processors have: 16 rows of 32 bfloat16 numbers each.
 *
 * A bfloat16 number has 8 bits of the 24 that a float32 has. So one of them is a float32
 * rounded, and three of them, each what the ones before leave, are a float32 whole; what the
 * smaller parts give together is less than the last bit and left out (Henry, Tang and
 * Heinecke 2019: Leveraging the bfloat16 Artificial Intelligence Datatype For
 * Higher-Precision Computations). Six products in tiles take less time than one without.
 */
#include "products.h"

#include <math.h>

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TILE 512    /* numbers of a tile */
#define DEPTH 32    /* numbers of its row */
#define MOST_PARTS 3
#define MOST_DEEP 512
#define ROWS_NEAR(parts) (parts==1?512:256)
#define NEAR_HALVES 12288 /* numbers of a panel that stay near while all rows pass by */

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

static void shape_tiles(void) {
    tile_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) shapes.bytes[i] = 64, shapes.rows[i] = 16;
    _tile_loadconfig(&shapes);
}

/* The parts of two vectors of numbers, side by side: of a pair in a tile, one belongs to the
 * first 16 of its 32 rows, one to the others. */
INLINE void split(__m512 first, __m512 second, __m512i *to, const int parts) {
    if (parts == 1) { /* ties to even, which needs no second part to be right */
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
            __m512i pair[MOST_PARTS];
            split(some_of(x, i < deep ? there : 0),
                  some_of(x + 16 * ld, i + 16 < deep ? there : 0), pair, parts);
            for (int part = 0; part < parts; part++)
                _mm512_storeu_si512(tile + part * TILE + (i - j) * DEPTH, pair[part]);
        }
}

void tiles_lay_out(const float *from, int64_t ld, int64_t k, int64_t deep, int64_t block,
                   int64_t there, int64_t parts, void *panel) {
    if (parts == 1)
        lay_out_by(from, ld, k, deep, block, there, panel, 1);
    else
        lay_out_by(from, ld, k, deep, block, there, panel, MOST_PARTS);
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
            __m512i each[MOST_PARTS];
            split(some_of(from, there), some_of(from + 16, there - 16), each, parts);
            for (int i = 0; i < parts; i++) _mm512_storeu_si512(tile + i * TILE, each[i]);
        }
    }
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

/* The same for a left side [in, ld] whose columns are the rows that are asked for. */
INLINE void take_columns(const float *x, int64_t ld, int64_t in, int64_t rows, uint16_t *to,
                         const int parts) {
    int64_t wide = tiled(in) * parts;
    for (int64_t k = 0; k < in; k += DEPTH, to += parts * TILE)
        for (int64_t row = 0; row < rows; row += 16) {
            __m512i tile[MOST_PARTS][LANES];
            for (int j = 0; j < 16; j++) {
                const float *from = x + (k + j) * ld + row;
                __m512i pair[MOST_PARTS];
                split(some_of(from, k + j < in ? rows - row : 0),
                      some_of(from + 16 * ld, k + j + 16 < in ? rows - row : 0), pair, parts);
                for (int i = 0; i < parts; i++) tile[i][j] = pair[i];
            }
            for (int i = 0; i < parts; i++) {
                turn_block(tile[i]);
                for (int r = 0; r < 16; r++)
                    _mm512_storeu_si512(to + row * wide + i * TILE + r * DEPTH, tile[i][r]);
            }
        }
}

/* Sums of a panel that wait to be finished: what tiles multiply leaves time for it. */
typedef struct {
    const float *sums;
    float *y;
    int64_t rows;
} unfinished;

/* Where they go, and how. */
typedef struct {
    vec first, second, least; /* bias; what is less becomes this */
    int64_t plain, add, ldy, column;
    const product *p;
    manner how;
} ending;

INLINE ending ending_of(const product *p, int64_t column, manner how, int64_t ldy) {
    ending e = {.least = all(how.bend == RELU ? 0 : -INFINITY), .add = how.add, .ldy = ldy,
                .plain = p->out - column >= PANEL && how.bend <= RELU,
                .column = column, .p = p, .how = how};
    if (p->bias && e.plain) {
        e.first = load(p->bias + column);
        e.second = load(p->bias + column + LANES);
    }
    return e;
}

INLINE unfinished finish_some(unfinished u, const ending *e, int64_t rows) {
    rows = u.rows < rows ? u.rows : rows;
    u.rows -= rows;
    if (!e->plain) {
        for (; rows; rows--, u.sums += PANEL, u.y += e->ldy)
            finish_each(u.sums, e->p, e->column, e->how, u.y);
        return u;
    }
    vec first = e->first, second = e->second, least = e->least;
    int64_t ldy = e->ldy;
    if (e->add)
        for (; rows; rows--, u.sums += PANEL, u.y += ldy) {
            store(u.y, load(u.y) + load(u.sums) + first);
            store(u.y + LANES, load(u.y + LANES) + load(u.sums + LANES) + second);
        }
    else
        for (; rows; rows--, u.sums += PANEL, u.y += ldy) {
            store(u.y, larger(least, load(u.sums) + first)); /* a NaN stays one */
            store(u.y + LANES, larger(least, load(u.sums + LANES) + second));
        }
    return u;
}

/* Add to the sums, tiles 0 to 3, the product of one or two blocks of 16 rows with a panel. */
INLINE void multiply(const uint16_t *upper, const uint16_t *lower, const uint16_t *panel,
                     int64_t steps, unfinished before, const ending *e, const float *soon, int64_t ldy, const char *ahead, int64_t lines, const int parts, const int two) {
    int64_t each = (32 + steps - 1) / steps;
#define LEFT(part)                                                       \
    do {                                                                 \
        _tile_loadd(4, upper + (part) * TILE, 64);                       \
        if (two) _tile_loadd(5, lower + (part) * TILE, 64);              \
    } while (0)
#define RIGHT(part)                                                      \
    do {                                                                 \
        _tile_loadd(6, panel + (part) * TILE, 64);                       \
        _tile_loadd(7, panel + (parts + (part)) * TILE, 64);             \
    } while (0)
#define TIMES                                                            \
    do {                                                                 \
        _tile_dpbf16ps(0, 4, 6);                                         \
        _tile_dpbf16ps(1, 4, 7);                                         \
        if (two) {                                                       \
            _tile_dpbf16ps(2, 5, 6);                                     \
            _tile_dpbf16ps(3, 5, 7);                                     \
        }                                                                \
    } while (0)
    for (int64_t k = 0; k < steps; k++) {
        LEFT(0);
        RIGHT(0);
        TIMES;
        if (parts == MOST_PARTS) { /* what is left out is worth less than 2^-25 of the rest */
            RIGHT(1);
            TIMES;
            LEFT(1);
            TIMES;
            RIGHT(0);
            TIMES;
            LEFT(2);
            TIMES;
            LEFT(0);
            RIGHT(2);
            TIMES;
        }
        for (int64_t i = 0; i < each; i++, soon += ldy) { __builtin_prefetch(soon, 1); __builtin_prefetch(soon + 16, 1); }
        before = finish_some(before, e, each);
        for (int64_t i = 0; i < lines; i++, ahead += 64) _mm_prefetch(ahead, HINT);
        upper += parts * TILE;
        lower += parts * TILE;
        panel += 2 * parts * TILE;
    }
#undef LEFT
#undef RIGHT
#undef TIMES
}

/* Some rows, whose left side stays near, by all panels. */
INLINE void apply_some(const product *p, const uint16_t *left, int64_t from, int64_t rows, int64_t steps,
                       float *y, int64_t ldy, manner how, float *sums, const int parts) {
    int64_t each = steps * parts * TILE, whole = tiled(p->in) / DEPTH * 2 * parts * TILE;
    const uint16_t *panel = (const uint16_t *)p->weight + from / DEPTH * 2 * parts * TILE;
    unfinished before = {0};
    ending e = {0}, next;
    for (int64_t column = 0; column < p->out; column += PANEL, panel += whole) {
        next = ending_of(p, column, how, ldy);
        const char *ahead = (const char *)(panel + whole);
        int64_t lines = (2 * each / 32 + (rows + 31) / 32 * steps - 1) / ((rows + 31) / 32 * steps);
        for (int64_t row = 0; row < rows; row += 32) {
            const uint16_t *upper = left + row / 16 * each;
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            if (row + 16 < rows)
                multiply(upper, upper + each, panel, steps, before, &e, y + row * ldy + column, ldy, ahead, lines, parts, 1);
            else
                multiply(upper, upper, panel, steps, before, &e, y + row * ldy + column, ldy, ahead, lines, parts, 0);
            ahead += lines * steps * 64;
            _tile_stored(0, sums, 128);
            _tile_stored(1, sums + 16, 128);
            _tile_stored(2, sums + 512, 128);
            _tile_stored(3, sums + 528, 128);
            before = (unfinished){sums, y + row * ldy + column, rows - row < 32 ? rows - row : 32};
            e = next;
        }
    }
    finish_some(before, &e, 32);
}

INLINE void apply_by(const product *p, const float *x, int64_t ldx, int64_t rows, float *y,
                     int64_t ldy, manner how, float *sums, const int parts) {
    int64_t deep = how.bend ? p->in : MOST_DEEP; /* a part of a sum cannot be bent */
    int64_t high = ROWS_NEAR(parts);
    uint16_t *left = (uint16_t *)(sums + (high + 31) / 32 * 1024);
    shape_tiles();
    for (int64_t from = 0; from < p->in; from += deep) {
        product part = *p;
        manner way = how;
        int64_t in = p->in - from < deep ? p->in - from : deep;
        if (from) part.bias = 0, way.add = 1;
        for (int64_t row = 0; row < rows; row += high) {
            int64_t some = rows - row < high ? rows - row : high;
            if (how.turned)
                take_columns(x + from * ldx + row, ldx, in, some, left, parts);
            else
                take_rows(x + row * ldx + from, ldx, in, some, left, parts);
            apply_some(&part, left, from, some, tiled(in) / DEPTH, y + row * ldy, ldy, way, sums, parts);
        }
    }
    _tile_release();
}

void tiles_apply(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                 int64_t ldy, manner how, void *spare) {
    if (p->parts == 1)
        apply_by(p, x, ld, rows, y, ldy, how, spare, 1);
    else
        apply_by(p, x, ld, rows, y, ldy, how, spare, MOST_PARTS);
}

#else

int64_t product_prepare(void) { return 0; }

int64_t has_tiles(void) { return 0; }

void tiles_lay_out(const float *from, int64_t ld, int64_t k, int64_t deep, int64_t block,
                   int64_t there, int64_t parts, void *panel) {}

void tiles_apply(const product *p, const float *x, int64_t ld, int64_t rows, float *y,
                 int64_t ldy, manner how, void *spare) {}

#endif
