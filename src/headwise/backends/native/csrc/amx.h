/* AMX tiles of 16 rows of 32 bfloat16 numbers: what matmul_amx.c and small_matmul_amx.c share.
 *
 * A bfloat16 has 8 of the 24 bits of a float32's significand. One term is a rounded float32; three
 * terms, each of what the previous ones leave, are the exact float32 (BF16X3). Of the nine
 * products of two such numbers six are summed: the rest are at worst 2^-23 of the result and
 * typically 2^-26 (Henry, Tang and Heinecke 2019: Leveraging the bfloat16 Artificial Intelligence
 * Datatype For Higher-Precision Computations). Six AMX products take less time than one float32
 * product by vectors.
 *
 * Tiles 0 to 3 hold sums, 4 and 5 tiles of the left operand, 6 and 7 those of the right one. */
#ifndef HEADWISE_AMX_H
#define HEADWISE_AMX_H

#include "kernels.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#define HAS_AMX

#define TILE 512 /* numbers of a tile */
#define DEPTH 32 /* numbers of its row */

/* Whether amx_enable was called, and the operating system agreed. */
int64_t amx_enabled(void);

typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_config;

/* Compiler barrier: GCC does not model that AMX loads read memory. */
INLINE void compiler_barrier(const void *written) {
    __asm__ volatile("" ::"r"(written) : "memory");
}

INLINE void configure_tiles(void) {
    tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = 16;
    compiler_barrier(&config);
    _tile_loadconfig(&config);
}

/* Split two vectors into bf16 terms and interleave them: a pair in a tile holds one number of the
 * first 16 of its 32 rows and one of the others. */
INLINE void split_bf16(__m512 first, __m512 second, __m512i *to, const int terms) {
    if (terms == BF16) { /* a single term needs no correction */
        to[0] = interleave_bf16(first, second);
        return;
    }
    __m512i upper_half = _mm512_set1_epi32(0xffff0000), half_ulp = _mm512_set1_epi32(0x8000);
    for (int i = 0; i < terms; i++) {
        __m512i a = (__m512i)first, b = (__m512i)second;
        if (i + 1 < terms) { /* the last term is exact as it is, and keeps a NaN one */
            a = _mm512_and_si512(_mm512_add_epi32(a, half_ulp), upper_half);
            b = _mm512_and_si512(_mm512_add_epi32(b, half_ulp), upper_half);
            first -= (__m512)a;
            second -= (__m512)b;
        }
        to[i] = _mm512_or_si512(_mm512_srli_epi32(a, 16), _mm512_and_si512(b, upper_half));
    }
}

/* Packed tiles, term after term: of one or two row tiles of the left operand, and of one or two
 * column tiles of the right one. */
typedef struct {
    const uint16_t *left[2], *right[2];
} tile_operands;

INLINE void load_left(tile_operands p, int term, const int rows) {
    _tile_loadd(4, p.left[0] + term * TILE, 64);
    if (rows == 2) _tile_loadd(5, p.left[1] + term * TILE, 64);
}

INLINE void load_right(tile_operands p, int term, const int columns) {
    _tile_loadd(6, p.right[0] + term * TILE, 64);
    if (columns == 2) _tile_loadd(7, p.right[1] + term * TILE, 64);
}

INLINE void multiply_tiles(const int rows, const int columns) {
    _tile_dpbf16ps(0, 4, 6);
    if (columns == 2) _tile_dpbf16ps(1, 4, 7);
    if (rows == 1) return;
    _tile_dpbf16ps(2, 5, 6);
    if (columns == 2) _tile_dpbf16ps(3, 5, 7);
}

/* Add the product over a depth of 32 to tiles 0 to 3. */
INLINE void multiply_terms(tile_operands p, const int terms, const int rows, const int columns) {
    if (terms == BF16X3) { /* this order reloads the fewest tiles */
        load_left(p, 2, rows);
        load_right(p, 0, columns);
        multiply_tiles(rows, columns);
        load_left(p, 1, rows);
        multiply_tiles(rows, columns);
        load_right(p, 1, columns);
        multiply_tiles(rows, columns);
        load_left(p, 0, rows);
        multiply_tiles(rows, columns);
        load_right(p, 2, columns);
        multiply_tiles(rows, columns);
    } else {
        load_left(p, 0, rows);
    }
    load_right(p, 0, columns);
    multiply_tiles(rows, columns);
}

#endif
#endif
