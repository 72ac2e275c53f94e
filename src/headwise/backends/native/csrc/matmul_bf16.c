/* Matmul by dot products of bfloat16 pairs (VDPBF16PS of AVX512_BF16), without AMX.
 *
 * The instruction adds two products to each float32 sum: first that of the upper numbers of a pair,
 * then that of the lower ones, each rounded once, ties to even; denormals count as zeros on input
 * and on output (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2). So a
 * pair holds two rows of the matrix, the even one in its lower half: [in / 2, columns, 2] in panels
 * of 32 columns. Those of the left operand are rounded, and packed where they are not side by side
 * already. An odd depth is padded with a row of zeros.
 *
 * Each sum goes through its pairs in order, in the same blocks of the depth whatever the number of
 * rows. Reference: matmul.c; tests/backends/native/test_matmul.py holds both equal to NumPy, and
 * benchmarks/native_sanitizers.py runs this file where no processor has the instruction. */
#include "matmul.h"

#if defined(__AVX512BF16__) && !defined(__AMX_BF16__)

#define BLOCK_ROWS 12      /* by one panel: 24 sums, 2 vectors of the matrix, a broadcast pair */
#define FEW_ROWS 6         /* by two panels: as many sums, 4 vectors of the matrix */
#define CACHED_DEPTH 512   /* numbers of which a panel and a block of rows stay in cache */
#define CACHED_ROWS 384    /* rows of the left operand that stay in cache */
#define PACKED_TOGETHER 96 /* rows that are read together where the left operand is transposed */

INLINE int64_t num_pairs(int64_t in) { return (in + 1) / 2; }

static int64_t column_bytes(int64_t in, int64_t terms) { return num_pairs(in) * 4; }

static void pack(const float *from, int64_t ld, int64_t k, int64_t depth, int64_t block,
                 int64_t columns, int64_t terms, void *panel) {
    uint32_t *pairs = (uint32_t *)panel + k / 2 * PANEL + block * LANES;
    for (int64_t j = 0; j < depth; j += 2, pairs += PANEL) {
        const float *row = from + j * ld;
        __m512 odd = load_masked(row + ld, j + 1 < depth ? columns : 0);
        _mm512_storeu_si512(pairs, interleave_bf16(load_masked(row, columns), odd));
    }
}

/* How many of the rows that are left are multiplied together. */
INLINE int64_t rows_of_block(int64_t left) {
    return left >= BLOCK_ROWS ? BLOCK_ROWS : min(left, FEW_ROWS);
}

INLINE void store_masked(uint32_t *to, __m512i pairs, int64_t count) {
    _mm512_mask_storeu_epi32(to, (1 << count) - 1, pairs);
}

/* Words from one row of the rounded left operand to the next: not at strides of powers of two. */
INLINE int64_t rounded_stride(int64_t in) { return pad_to_tiles(in) / 2 + LANES; }

/* Round the left operand [rows, ld] to bf16: [rows, rounded_stride], of which two numbers that stand
 * side by side are a pair. */
static void round_left(const float *x, int64_t ld, int64_t in, int64_t rows, uint32_t *to) {
    for (int64_t row = 0; row < rows; row++, x += ld, to += rounded_stride(in))
        for (int64_t k = 0; k < in; k += 2 * LANES) {
            __m512 first = load_masked(x + k, in - k);
            __m512 second = load_masked(x + k + LANES, in - k - LANES);
            _mm512_storeu_si512(to + k / 2, (__m512i)_mm512_cvtne2ps_pbh(second, first));
        }
}

/* Pack a transposed left operand [in, ld], rounded to bf16: a block of rows after another, each
 * [pairs, rows of the block]. */
static void pack_left_transposed(const float *x, int64_t ld, int64_t in, int64_t rows,
                                 uint32_t *to) {
    for (int64_t row = 0, last; row < rows; row = last) {
        last = min(row + PACKED_TOGETHER, rows);
        for (int64_t k = 0; k < in; k += 2)
            for (int64_t r = row, count; r < last; r += count) {
                const float *even = x + k * ld + r;
                count = rows_of_block(last - r);
                __m512 odd = load_masked(even + ld, k + 1 < in ? count : 0);
                store_masked(to + r * num_pairs(in) + k / 2 * count,
                             interleave_bf16(load_masked(even, count), odd), count);
            }
    }
}

/* The part of a matmul that stays in cache: rows `from` on of the matrix. */
typedef struct {
    const matrix *p;
    const uint32_t *left; /* rounded, as deep as the part */
    int64_t from, in;
    float *y;
    int64_t ldy;
    matmul_opts opts;
} cached_part;

/* Register block of `rows` rows, which begin at `row`, by one or two panels. */
INLINE void multiply_block(const cached_part *a, int64_t row, int64_t column, const int rows,
                           const int panels, const int packed) {
    const matrix *p = a->p;
    int64_t pairs = num_pairs(a->in), ld = packed ? 1 : rounded_stride(a->in);
    const uint32_t *left = a->left + row * (packed ? pairs : ld);
    const uint32_t *right =
        (const uint32_t *)p->weight + column * num_pairs(p->in) + a->from / 2 * PANEL;
    const int vecs = 2 * panels;
    __m512 sums[BLOCK_ROWS][4];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < vecs; i++) sums[r][i] = (__m512){0};
    for (int64_t k = 0; k < pairs; k++, left += packed ? rows : 1, right += PANEL) {
        __m512bh columns[4];
#pragma GCC unroll 4
        for (int i = 0; i < vecs; i++) {
            const uint32_t *panel = right + i / 2 * PANEL * num_pairs(p->in);
            columns[i] = (__m512bh)_mm512_loadu_si512(panel + i % 2 * LANES);
        }
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            __m512bh pair = (__m512bh)_mm512_set1_epi32(left[r * ld]);
#pragma GCC unroll 4
            for (int i = 0; i < vecs; i++)
                sums[r][i] = _mm512_dpbf16_ps(sums[r][i], pair, columns[i]);
        }
    }
    epilogue_block((const vec *)sums, 4, rows, vecs, p, column, a->opts,
                   a->y + row * a->ldy + column, a->ldy);
}

/* At most 6 rows by all panels, two at a time. */
INLINE void multiply_few_rows(const cached_part *a, int64_t row, const int rows, const int packed) {
    int64_t column = 0;
    for (; a->p->out - column > PANEL; column += 2 * PANEL)
        multiply_block(a, row, column, rows, 2, packed);
    if (column < a->p->out) multiply_block(a, row, column, rows, 1, packed);
}

/* packed: the left operand, by pack_left_transposed. */
INLINE void multiply_part(const cached_part *a, int64_t rows, const int packed) {
    int64_t row = rows / BLOCK_ROWS * BLOCK_ROWS;
    for (int64_t column = 0; column < a->p->out; column += PANEL)
        for (int64_t r = 0; r < row; r += BLOCK_ROWS)
            multiply_block(a, r, column, BLOCK_ROWS, 1, packed);
    for (; rows - row >= FEW_ROWS; row += FEW_ROWS) multiply_few_rows(a, row, FEW_ROWS, packed);
    if (rows - row == 5) multiply_few_rows(a, row, 5, packed);
    if (rows - row == 4) multiply_few_rows(a, row, 4, packed);
    if (rows - row == 3) multiply_few_rows(a, row, 3, packed);
    if (rows - row == 2) multiply_few_rows(a, row, 2, packed);
    if (rows - row == 1) multiply_few_rows(a, row, 1, packed);
}

static void multiply_rounded(const cached_part *a, int64_t rows) { multiply_part(a, rows, 0); }
static void multiply_packed(const cached_part *a, int64_t rows) { multiply_part(a, rows, 1); }

static void multiply(const matrix *p, const float *x, int64_t ld, int64_t rows, float *y,
                     int64_t ldy, matmul_opts opts, void *scratch) {
    for (int64_t row = 0; row < rows; row += CACHED_ROWS)
        for (int64_t from = 0; from < p->in; from += CACHED_DEPTH) {
            int64_t count = min(rows - row, CACHED_ROWS), in = min(p->in - from, CACHED_DEPTH);
            matrix part = *p;
            cached_part a = {&part, scratch, from, in, y + row * ldy, ldy, opts};
            if (from + in < p->in) part.bias = 0, a.opts.activation = NO_ACTIVATION;
            if (from) a.opts.accumulate = 1;
            if (opts.transposed) {
                pack_left_transposed(x + from * ld + row, ld, in, count, scratch);
                multiply_packed(&a, count);
            } else {
                round_left(x + row * ld + from, ld, in, count, scratch);
                multiply_rounded(&a, count);
            }
        }
}

const packed_format *bf16_pair_format(int64_t terms) {
    static const packed_format pairs = {column_bytes, pack, multiply};
    return terms == BF16 ? &pairs : 0; /* BF16X3 stays float32: six products would be slower */
}

#else

const packed_format *bf16_pair_format(int64_t terms) { return 0; }

#endif
