/* Matmul by AMX: tiles, and the terms of a float32, as in amx.h.
 *
 * Reference: matmul.c; tests/backends/native/test_matmul.py holds both equal to NumPy. */
#include "amx.h"
#include "matmul.h"

#ifdef HAS_AMX
#include <sys/syscall.h>
#include <unistd.h>

#define CACHED_DEPTH 512 /* depth that is multiplied before going on, to stay in cache */
#define CACHED_ROWS 768  /* rows times terms of the left operand that stay in cache */

static int64_t enabled;

/* Ask the kernel for permission to use AMX, before anything is packed; return its answer. */
EXPORT int64_t amx_enable(void) {
    return enabled = !syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18);
}

int64_t amx_enabled(void) { return enabled; }

/* A panel is a row of tiles: for each 32 rows the left 16 columns, term by term, then the right. */
INLINE void pack_tiles(const float *from, int64_t ld, int64_t k, int64_t depth, int64_t block,
                       int64_t count, uint16_t *panel, const int terms) {
    for (int64_t j = 0; j < pad_to_tiles(depth); j += DEPTH)
        for (int64_t i = j; i < j + 16; i++) {
            uint16_t *tile = panel + ((k + j) / DEPTH * 2 + block) * terms * TILE;
            const float *x = from + i * ld;
            __m512i pair[BF16X3];
            split_bf16(load_masked(x, i < depth ? count : 0),
                       load_masked(x + 16 * ld, i + 16 < depth ? count : 0), pair, terms);
            for (int term = 0; term < terms; term++)
                _mm512_storeu_si512(tile + term * TILE + (i - j) * DEPTH, pair[term]);
        }
}

static int64_t column_bytes(int64_t in, int64_t terms) { return pad_to_tiles(in) * 2 * terms; }

static void pack(const float *from, int64_t ld, int64_t k, int64_t depth, int64_t block,
                 int64_t count, int64_t terms, void *panel) {
    if (terms == BF16)
        pack_tiles(from, ld, k, depth, block, count, panel, BF16);
    else
        pack_tiles(from, ld, k, depth, block, count, panel, BF16X3);
}

/* Pack the left operand [rows, ld]: for each 16 rows one tile per 32 columns and term. */
INLINE void pack_left(const float *x, int64_t ld, int64_t in, int64_t rows, uint16_t *to,
                      const int terms) {
    int64_t width = pad_to_tiles(in) * terms;
    for (int64_t row = 0; row < (rows + 15) / 16 * 16; row++) {
        uint16_t *tile = to + row / 16 * 16 * width + row % 16 * DEPTH;
        for (int64_t k = 0; k < in; k += DEPTH, tile += terms * TILE) {
            const float *from = x + row * ld + k;
            int64_t count = row < rows ? in - k : 0;
            __m512i row_terms[BF16X3];
            split_bf16(load_masked(from, count), load_masked(from + 16, count - 16), row_terms,
                       terms);
            for (int i = 0; i < terms; i++) _mm512_storeu_si512(tile + i * TILE, row_terms[i]);
        }
    }
}

/* Pack a transposed left operand [in, ld]. */
INLINE void pack_left_transposed(const float *x, int64_t ld, int64_t in, int64_t rows, uint16_t *to,
                                 const int terms) {
    int64_t width = pad_to_tiles(in) * terms;
    for (int64_t k = 0; k < in; k += DEPTH, to += terms * TILE)
        for (int64_t row = 0; row < rows; row += 16) {
            __m512i tile[BF16X3][LANES];
            for (int j = 0; j < 16; j++) {
                const float *from = x + (k + j) * ld + row;
                __m512i pair[BF16X3];
                split_bf16(load_masked(from, k + j < in ? rows - row : 0),
                           load_masked(from + 16 * ld, k + j + 16 < in ? rows - row : 0), pair,
                           terms);
                for (int i = 0; i < terms; i++) tile[i][j] = pair[i];
            }
            for (int i = 0; i < terms; i++) {
                transpose_16x16(tile[i]);
                for (int r = 0; r < 16; r++)
                    _mm512_storeu_si512(to + row * width + i * TILE + r * DEPTH, tile[i][r]);
            }
        }
}

/* Work that overlaps with the tile products: the epilogue of the previous block, and prefetching
 * for the next. Nothing in it may use tiles. */
typedef struct {
    const float *sums; /* [rows, 32] */
    float *y;
    int64_t column, rows;
    const float *next; /* rows of y of the next block */
    int64_t next_rows;
    const char *panel; /* the next panel */
} overlapped;

INLINE void epilogue_rows(const matrix *p, matmul_opts opts, int64_t ldy, overlapped *a,
                          int64_t rows) {
    rows = a->rows < rows ? a->rows : rows;
    a->rows -= rows;
    if (p->out - a->column < PANEL || opts.activation > RELU) {
        for (; rows; rows--, a->sums += PANEL, a->y += ldy)
            epilogue_any(a->sums, PANEL, p, a->column, opts, a->y);
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
        if (opts.activation)
            left = vec_max(broadcast(0), left), right = vec_max(broadcast(0), right);
        if (opts.accumulate) left += load(y), right += load(y + LANES);
        store(y, left);
        store(y + LANES, right);
    }
    a->sums = sums;
    a->y = y;
}

INLINE void prefetch_rows(int64_t ldy, overlapped *a, int64_t rows, int64_t lines) {
    rows = a->next_rows < rows ? a->next_rows : rows;
    a->next_rows -= rows;
    for (; rows; rows--, a->next += ldy) {
        __builtin_prefetch(a->next, 1);
        __builtin_prefetch(a->next + LANES, 1);
    }
    for (; lines; lines--, a->panel += 64) __builtin_prefetch(a->panel);
}

/* Multiply one or two blocks of 16 rows by a panel, into tiles 0 to 3. */
INLINE void multiply_panel(const matrix *p, const uint16_t *upper, const uint16_t *lower,
                           const uint16_t *panel, int64_t steps, matmul_opts opts, int64_t ldy,
                           overlapped *a, int64_t lines, const int terms, const int two) {
    int64_t rows = (32 + steps - 1) / steps;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < steps; k++) {
        tile_operands tiles = {{upper, lower}, {panel, panel + terms * TILE}};
        multiply_terms(tiles, terms, two ? 2 : 1, 2);
        epilogue_rows(p, opts, ldy, a, rows);
        prefetch_rows(ldy, a, rows, lines);
        upper += terms * TILE;
        lower += terms * TILE;
        panel += 2 * terms * TILE;
    }
}

/* Multiply rows of the packed left operand by all panels; `from`: the depth at which both begin. */
INLINE void matmul_in_cache(const matrix *p, const uint16_t *left, int64_t from, int64_t steps,
                            int64_t rows, float *y, int64_t ldy, matmul_opts opts, float *sums,
                            const int terms) {
    int64_t row_block = steps * terms * TILE, blocks = (rows + 31) / 32;
    int64_t lines = (2 * row_block / 32 + blocks * steps - 1) / (blocks * steps);
    overlapped a = {0};
    compiler_barrier(left);
    for (int64_t column = 0; column < p->out; column += PANEL) {
        int64_t start = column * pad_to_tiles(p->in) + 2 * from * LANES;
        const uint16_t *panel = (const uint16_t *)p->weight + start * terms;
        a.panel = (const char *)(panel + PANEL * pad_to_tiles(p->in) * terms);
        for (int64_t row = 0; row < rows; row += 32) {
            const uint16_t *upper = left + row / 16 * row_block;
            int64_t count = rows - row < 32 ? rows - row : 32;
            a.next = y + row * ldy + column;
            a.next_rows = count;
            if (count > 16)
                multiply_panel(p, upper, upper + row_block, panel, steps, opts, ldy, &a, lines,
                               terms, 1);
            else
                multiply_panel(p, upper, upper, panel, steps, opts, ldy, &a, lines, terms, 0);
            _tile_stored(0, sums, PANEL * 4);
            _tile_stored(1, sums + 16, PANEL * 4);
            if (count > 16) {
                _tile_stored(2, sums + 16 * PANEL, PANEL * 4);
                _tile_stored(3, sums + 16 * PANEL + 16, PANEL * 4);
            }
            a.sums = sums;
            a.y = y + row * ldy + column;
            a.column = column;
            a.rows = count;
        }
    }
    epilogue_rows(p, opts, ldy, &a, 32);
}

INLINE void matmul_by_terms(const matrix *p, const float *x, int64_t ldx, int64_t rows, float *y,
                            int64_t ldy, matmul_opts opts, float *sums, const int terms) {
    int64_t depth = opts.activation ? p->in : CACHED_DEPTH; /* no activation on a partial sum */
    uint16_t *left = (uint16_t *)(sums + 32 * PANEL);
    configure_tiles();
    for (int64_t from = 0; from < p->in; from += depth) {
        matrix block = *p;
        matmul_opts block_opts = opts;
        int64_t in = p->in - from < depth ? p->in - from : depth, num_rows = CACHED_ROWS / terms;
        if (from) block.bias = 0, block_opts.accumulate = 1;
        for (int64_t row = 0; row < rows; row += num_rows) {
            int64_t count = rows - row < num_rows ? rows - row : num_rows;
            if (opts.transposed)
                pack_left_transposed(x + from * ldx + row, ldx, in, count, left, terms);
            else
                pack_left(x + row * ldx + from, ldx, in, count, left, terms);
            matmul_in_cache(&block, left, from, pad_to_tiles(in) / DEPTH, count, y + row * ldy, ldy,
                            block_opts, sums, terms);
        }
    }
    _tile_release();
}

static void multiply(const matrix *p, const float *x, int64_t ld, int64_t rows, float *y,
                     int64_t ldy, matmul_opts opts, void *scratch) {
    if (p->terms == BF16)
        matmul_by_terms(p, x, ld, rows, y, ldy, opts, scratch, BF16);
    else
        matmul_by_terms(p, x, ld, rows, y, ldy, opts, scratch, BF16X3);
}

const packed_format *amx_format(int64_t terms) {
    static const packed_format tiles = {column_bytes, pack, multiply};
    return terms && enabled ? &tiles : 0;
}

#else

EXPORT int64_t amx_enable(void) { return 0; }

const packed_format *amx_format(int64_t terms) { return 0; }

#endif
