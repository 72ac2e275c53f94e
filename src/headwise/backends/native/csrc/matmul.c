/* Matmul with a packed weight matrix: the choice of its format, and SIMD vectors of float32, which
 * also emulate bf16 where the processor has no instructions for it.
 *
 * Reference: x @ W + b followed by the activation; tests/backends/native/test_matmul.py holds it
 * equal to NumPy. */
#include "matmul.h"

#define SLICE 32             /* rows of the right operand packed at a time */
#define LEFT_IN_CACHE 100000 /* numbers of the left operand; all panels pass by them */
#define DEPTH_BLOCK 256      /* depth of which a panel and a block of rows stay in cache */
#define PACKED_ROWS (32 * BLOCK_ROWS) /* of the left operand, where it is packed too */

/* A register block: rows times vectors of 16 columns. Its sums, a vector of the matrix for each
 * column of vectors, and one broadcast number fill the registers: 32 of AVX-512, 16 of AVX2, of
 * which a vector takes two, and 32 of NEON, of which it takes four. */
#ifdef __AVX512F__
#define BLOCK_ROWS 12
#else
#define BLOCK_ROWS 6
#endif

static float round_to_bf16(float x) { /* ties to even */
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        bits |= 0x400000; /* NaN stays NaN */
    else
        bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000;
    memcpy(&x, &bits, 4);
    return x;
}

static const packed_format *format_of(int64_t terms);

EXPORT int64_t packed_bytes(int64_t in, int64_t out, int64_t terms) {
    return num_panels(out) * PANEL * format_of(terms)->column_bytes(in, terms);
}

EXPORT int64_t matmul_scratch_bytes(int64_t in, int64_t rows) {
    return (rows + 31) / 32 * 32 * pad_to_tiles(in) * 8 + 8192;
}

/* Pack `depth` rows of 16 columns. */
INLINE void pack_slice(const packed_format *format, const float *from, int64_t ld, int64_t in,
                       int64_t k, int64_t depth, int64_t column, int64_t columns, int64_t terms,
                       void *to) {
    char *panel = (char *)to + column / PANEL * PANEL * format->column_bytes(in, terms);
    format->pack(from, ld, k, depth, column % PANEL / LANES, columns, terms, panel);
}

/* How many of 16 columns from `column` on exist. */
INLINE int64_t columns_left(int64_t out, int64_t column) {
    return out - column < 0 ? 0 : min(out - column, LANES);
}

EXPORT void pack_matrix(const float *from, int64_t ld, int64_t in, int64_t out, int64_t terms,
                        void *to) {
    const packed_format *format = format_of(terms);
    for (int64_t k = 0; k < in; k += SLICE, from += SLICE * ld)
        for (int64_t column = 0; column < num_panels(out) * PANEL; column += LANES)
            pack_slice(format, from + column, ld, in, k, min(in - k, SLICE), column,
                       columns_left(out, column), terms, to);
}

EXPORT void pack_transposed(const float *from, int64_t in, int64_t out, int64_t terms, void *to) {
    const packed_format *format = format_of(terms);
    float transposed[SLICE * LANES];
    for (int64_t column = 0; column < num_panels(out) * PANEL; column += LANES)
        for (int64_t k = 0; k < in; k += SLICE) {
            int64_t columns = columns_left(out, column), depth = min(in - k, SLICE);
            memset(transposed, 0, sizeof transposed);
            for (int64_t i = 0; i < columns; i++)
                for (int64_t j = 0; j < depth; j++)
                    transposed[j * LANES + i] = from[(column + i) * in + k + j];
            pack_slice(format, transposed, LANES, in, k, depth, column, LANES, terms, to);
        }
}

matrix matrix_columns(const matrix *p, int64_t first, int64_t columns) {
    matrix block = *p;
    block.out = min(p->out - first, columns);
    int64_t bytes = format_of(p->terms)->column_bytes(p->in, p->terms);
    block.weight = (const char *)p->weight + first * bytes;
    block.bias = p->bias ? p->bias + first : 0;
    return block;
}

/* Epilogue of the sums of 16 columns, of which `count` exist. */
INLINE void epilogue_columns(vec sums, const matrix *p, int64_t column, int64_t count,
                             matmul_opts opts, float *y) {
    if (opts.accumulate) sums += load_partial(y, count);
    if (p->bias) sums += load_partial(p->bias + column, count);
    store_partial(y, activate(sums, opts.activation), count);
}

__attribute__((noinline)) void epilogue_any(const float *sums, int64_t size, const matrix *p,
                                            int64_t column, matmul_opts opts, float *y) {
    for (int64_t i = 0; i < size && column + i < p->out; i += LANES)
        epilogue_columns(load(sums + i), p, column + i, p->out - column - i, opts, y + i);
}

/* Rows of the left operand, `ld` apart, whose numbers are `step` apart, times rows `from` to `to` of
 * the matrix. Passed by value, so that it stays in registers. */
typedef struct {
    const matrix *p;
    const float *x;
    int64_t ld, step, from, to;
    float *y;
    int64_t ldy;
    matmul_opts opts;
} product;

INLINE product rows_from(product a, int64_t row) {
    a.x += row * a.ld;
    a.y += row * a.ldy;
    return a;
}

/* Register block of `rows` rows and `vecs` vectors of columns. */
INLINE void matmul_block(product a, int64_t column, const int rows, const int vecs) {
    const float *w = (const float *)a.p->weight + column / PANEL * PANEL * a.p->in;
    const float *w2 = w + (PANEL > LANES ? LANES : LANES * a.p->in);
    vec sums[BLOCK_ROWS][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = (vec){0};
    for (int64_t k = a.from; k < a.to; k++) {
        vec first = load(w + k * PANEL), second = {0};
        if (vecs == 2) second = load(w2 + k * PANEL);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            vec each = broadcast(a.x[r * a.ld + k * a.step]);
            sums[r][0] += each * first;
            if (vecs == 2) sums[r][1] += each * second;
        }
    }
    epilogue_block(sums[0], 2, rows, vecs, a.p, column, a.opts, a.y + column, a.ldy);
}

/* Fewer rows than a register block: as many vectors of columns as make up for that. */
INLINE void matmul_few_rows(product a, const int rows, const int vecs) {
    int64_t column = 0;
    for (; a.p->out - column > (vecs - 1) * LANES; column += vecs * LANES)
        matmul_block(a, column, rows, vecs);
    if (column < a.p->out) matmul_block(a, column, rows, 1); /* the last panel of one vector */
}

INLINE void matmul_rows(product a, int64_t rows) {
    int64_t full = rows / BLOCK_ROWS * BLOCK_ROWS;
    for (int64_t column = 0; column < a.p->out; column += BLOCK_VECS * LANES)
        for (int64_t row = 0; row < full; row += BLOCK_ROWS)
            matmul_block(rows_from(a, row), column, BLOCK_ROWS, BLOCK_VECS);
    a = rows_from(a, full);
    int64_t left = rows - full;
    for (; left >= 6; left -= 6, a = rows_from(a, 6)) matmul_few_rows(a, 6, BLOCK_VECS);
    if (left == 5) matmul_few_rows(a, 5, BLOCK_VECS);
    if (left == 4) matmul_few_rows(a, 4, BLOCK_VECS);
    if (left == 3) matmul_few_rows(a, 3, 2);
    if (left == 2) matmul_few_rows(a, 2, 2);
    if (left == 1) matmul_few_rows(a, 1, 2);
}

/* Copy the numbers of each block of rows that are multiplied together side by side. */
static void pack_left(const float *x, int64_t ld, int64_t transposed, int64_t depth, int64_t rows,
                      float *packed) {
    for (int64_t row = 0, last; row < rows; row = last) {
        last = row + 8 * BLOCK_ROWS < rows ? row + 8 * BLOCK_ROWS : rows;
        if (transposed) /* a few cache lines at a time */
            for (int64_t k = 0; k < depth; k++)
                for (int64_t r = row; r < last; r += BLOCK_ROWS)
                    memcpy(packed + r * depth + k * BLOCK_ROWS, x + k * ld + r, BLOCK_ROWS * 4);
        else
            for (int64_t r = row; r < last; r += BLOCK_ROWS)
                for (int64_t k = 0; k < depth; k++)
                    for (int64_t i = 0; i < BLOCK_ROWS; i++)
                        packed[r * depth + k * BLOCK_ROWS + i] = x[(r + i) * ld + k];
    }
}

/* The same with the left operand packed. */
static void matmul_packed(product a, int64_t rows, float *packed) {
    int64_t full = rows / BLOCK_ROWS * BLOCK_ROWS, depth = a.to - a.from;
    int64_t transposed = a.opts.transposed;
    pack_left(a.x + a.from * a.step, transposed ? a.step : a.ld, transposed, depth, full, packed);
    product block = a;
    block.ld = 1;
    block.step = BLOCK_ROWS;
    for (int64_t column = 0; column < a.p->out; column += BLOCK_VECS * LANES)
        for (int64_t row = 0; row < full; row += BLOCK_ROWS) {
            block.x = packed + row * depth - a.from * BLOCK_ROWS;
            block.y = a.y + row * a.ldy;
            matmul_block(block, column, BLOCK_ROWS, BLOCK_VECS);
        }
    matmul_rows(rows_from(a, full), rows - full);
}

/* Whether rows this far apart fall on the same cache lines and evict one another: they are packed. */
INLINE int64_t rows_collide(int64_t ld) { return ld % 1024 == 0; }

/* Sums are taken over blocks of the depth, the same whatever the number of rows. */
static void matmul_float32(const matrix *p, const float *x, int64_t ld, int64_t rows, float *y,
                           int64_t ldy, matmul_opts opts, void *scratch) {
    product whole = {p, x, ld, 1, 0, p->in, y, ldy, opts};
    int64_t packs = opts.transposed || rows_collide(ld);
    int64_t blocks = LEFT_IN_CACHE / min(p->in, DEPTH_BLOCK) / BLOCK_ROWS;
    int64_t num_rows = packs ? PACKED_ROWS : blocks * BLOCK_ROWS;
    if (opts.transposed) whole.ld = 1, whole.step = ld;
    for (int64_t row = 0; row < rows; row += num_rows)
        for (int64_t from = 0; from < p->in; from += DEPTH_BLOCK) {
            matrix part = *p;
            product a = rows_from(whole, row);
            a.p = &part;
            a.from = from;
            a.to = min(from + DEPTH_BLOCK, p->in);
            if (a.to < p->in) part.bias = 0, a.opts.activation = NO_ACTIVATION;
            if (from) a.opts.accumulate = 1;
            if (packs)
                matmul_packed(a, min(rows - row, num_rows), scratch);
            else
                matmul_rows(a, min(rows - row, num_rows));
        }
}

/* bfloat16 inputs by float32: the same products; only the order of summation differs. */
static void matmul_bf16_emulated(const matrix *p, const float *x, int64_t ld, int64_t rows,
                                 float *y, int64_t ldy, matmul_opts opts, float *rounded) {
    int64_t num_rows = opts.transposed ? p->in : rows, width = opts.transposed ? rows : p->in;
    for (int64_t row = 0; row < num_rows; row++)
        for (int64_t k = 0; k < width; k++)
            rounded[row * width + k] = round_to_bf16(x[row * ld + k]);
    matmul_float32(p, rounded, width, rows, y, ldy, opts, rounded + num_rows * width);
}

static int64_t float32_column_bytes(int64_t in, int64_t terms) { return in * 4; }

static void pack_float32(const float *from, int64_t ld, int64_t k, int64_t depth, int64_t block,
                         int64_t columns, int64_t terms, void *panel) {
    float *y = (float *)panel + k * PANEL + block * LANES;
    for (int64_t j = 0; j < depth; j++, from += ld, y += PANEL)
        if (columns == LANES && terms != BF16)
            store(y, load(from));
        else
            for (int64_t i = 0; i < LANES; i++) {
                float x = i < columns ? from[i] : 0;
                y[i] = terms == BF16 ? round_to_bf16(x) : x;
            }
}

static void matmul_vectors(const matrix *p, const float *x, int64_t ld, int64_t rows, float *y,
                           int64_t ldy, matmul_opts opts, void *scratch) {
    if (p->terms == BF16)
        matmul_bf16_emulated(p, x, ld, rows, y, ldy, opts, scratch);
    else
        matmul_float32(p, x, ld, rows, y, ldy, opts, scratch);
}

/* The only place that knows which formats there are. */
static const packed_format *format_of(int64_t terms) {
    static const packed_format float32 = {float32_column_bytes, pack_float32, matmul_vectors};
    const packed_format *tiles = amx_format(terms), *pairs = bf16_pair_format(terms);
    return tiles ? tiles : pairs ? pairs : &float32;
}

EXPORT void matmul(const matrix *p, const float *x, int64_t ld, int64_t rows, float *y, int64_t ldy,
                   matmul_opts opts, void *scratch) {
    format_of(p->terms)->multiply(p, x, ld, rows, y, ldy, opts, scratch);
}
