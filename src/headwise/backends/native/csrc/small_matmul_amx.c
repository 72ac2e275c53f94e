/* Small matmul by AMX: both operands are packed for each product, as nothing uses them twice.
 *
 * Reference: small_matmul in train_attention.c; tests/backends/native/test_training.py holds the
 * gradients of attention equal to autograd's. */
#include "small_matmul.h"

#include "amx.h"

#ifdef HAS_AMX

INLINE int64_t num_blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

/* Store 16 vectors of bf16 pairs as a tile, or their transpose. */
INLINE void store_tile(__m512i *rows, uint16_t *to, const int transpose) {
    if (transpose) transpose_16x16(rows);
    for (int r = 0; r < 16; r++) _mm512_storeu_si512(to + r * DEPTH, rows[r]);
}

/* Pack 16 of `size` rows by 32 of the depth into each tile: those of a left operand as they are,
 * those of a transposed right one transposed. */
INLINE void pack_along_rows(const operand *p, int64_t size, int64_t depth, uint16_t *to,
                            const int transpose) {
    for (int64_t row = 0; row < size; row += 16)
        for (int64_t k = 0; k < depth; k += DEPTH, to += TILE) {
            __m512i tile[16];
            for (int64_t r = 0; r < 16; r++) {
                const float *from = p->x + (row + r) * p->ld + k;
                int64_t count = row + r < size ? depth - k : 0;
                tile[r] = interleave_bf16(load_masked(from, count),
                                          load_masked(from + LANES, count - LANES));
            }
            store_tile(tile, to, transpose);
        }
}

/* The same of an operand whose rows are the depth: a right one, or a transposed left one. */
INLINE void pack_along_columns(const operand *p, int64_t size, int64_t depth, uint16_t *to,
                               const int transpose) {
    for (int64_t column = 0; column < size; column += 16)
        for (int64_t k = 0; k < depth; k += DEPTH, to += TILE) {
            __m512i tile[16];
            for (int64_t r = 0; r < 16; r++) {
                const float *from = p->x + (k + r) * p->ld + column;
                int64_t count = size - column;
                tile[r] = interleave_bf16(
                    load_masked(from, k + r < depth ? count : 0),
                    load_masked(from + LANES * p->ld, k + r + LANES < depth ? count : 0));
            }
            store_tile(tile, to, transpose);
        }
}

/* The sums of 16 rows and one or two tiles of columns, [16, 32], over tiles `from` to `to` of the
 * depth. */
INLINE void multiply_block(const uint16_t *left, const uint16_t *right, int64_t steps, int64_t from,
                           int64_t to, float *sums, const int columns) {
    _tile_zero(0);
    if (columns == 2) _tile_zero(1);
    for (int64_t k = from; k < to; k++) {
        const uint16_t *first = right + k * TILE;
        tile_operands tiles = {{left + k * TILE}, {first, first + steps * TILE}};
        multiply_terms(tiles, BF16, 1, columns);
    }
    _tile_stored(0, sums, 32 * 4);
    if (columns == 2) _tile_stored(1, sums + 16, 32 * 4);
}

INLINE void store_block(const small_product *p, int64_t row, int64_t column, const float *sums) {
    int64_t padded = p->right.transposed ? pad_to_lanes(p->columns) : p->columns;
    int64_t rows = p->rows - row < 16 ? p->rows - row : 16;
    for (int64_t r = 0; r < rows; r++, sums += 2 * 16) {
        float *y = p->y + (row + r) * p->ldy + column;
        store_partial(y, load(sums) * p->scale, padded - column);
        if (padded - column > 16)
            store_partial(y + 16, load(sums + 16) * p->scale, padded - column - 16);
    }
}

void small_matmul_amx(const small_product *p, void *scratch) {
    int64_t steps = num_blocks(p->depth, DEPTH), tile_row = steps * TILE;
    float *sums = scratch; /* [16, 32] */
    uint16_t *left = (uint16_t *)(sums + 32 * 16);
    uint16_t *right = left + num_blocks(p->rows, 16) * tile_row;
    if (p->left.transposed)
        pack_along_columns(&p->left, p->rows, p->depth, left, 1);
    else
        pack_along_rows(&p->left, p->rows, p->depth, left, 0);
    if (p->right.transposed)
        pack_along_rows(&p->right, p->columns, p->depth, right, 1);
    else
        pack_along_columns(&p->right, p->columns, p->depth, right, 0);
    compiler_barrier(left);
    for (int64_t row = 0; row < p->rows; row += 16, left += tile_row) {
        int64_t from = p->triangle_of_left == UPPER ? row / DEPTH : 0;
        int64_t to = p->triangle_of_left == LOWER ? num_blocks(row + 16, DEPTH) : steps;
        if (to > steps) to = steps;
        for (int64_t column = 0; column < p->columns; column += 2 * 16) {
            const uint16_t *block = right + column / 16 * tile_row;
            if (p->lower_only && column >= row + 16) break;
            if (p->columns - column > 16)
                multiply_block(left, block, steps, from, to, sums, 2);
            else
                multiply_block(left, block, steps, from, to, sums, 1);
            compiler_barrier(sums);
            store_block(p, row, column, sums);
        }
    }
}

int64_t small_matmul_amx_bytes(int64_t size) {
    int64_t tiles = num_blocks(size, 16) * num_blocks(size, DEPTH);
    return 32 * 16 * 4 + 2 * tiles * TILE * 2;
}

int64_t begin_tiles(int64_t terms) {
    if (terms != BF16 || !amx_enabled()) return 0;
    configure_tiles();
    return 1;
}

void end_tiles(int64_t begun) {
    if (begun) _tile_release();
}

#else

int64_t small_matmul_amx_bytes(int64_t size) { return 0; }
void small_matmul_amx(const small_product *p, void *scratch) {}
int64_t begin_tiles(int64_t terms) { return 0; }
void end_tiles(int64_t begun) {}

#endif
