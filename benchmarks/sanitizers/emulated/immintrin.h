/* The instructions of AVX-512, AVX512_BF16 and AMX that the native library names, in plain C: so that its code
 * for them runs on processors without them, and under sanitizers, which do not see what real
 * tiles read and write. Found before the compiler's own header. */
#ifndef SANITIZERS_EMULATED_IMMINTRIN_H
#define SANITIZERS_EMULATED_IMMINTRIN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EMULATED static inline __attribute__((unused))

typedef float __m512 __attribute__((vector_size(64), aligned(64), may_alias));
typedef int64_t __m512i __attribute__((vector_size(64), aligned(64), may_alias));
typedef uint16_t __m512bh __attribute__((vector_size(64), aligned(64), may_alias));
typedef uint32_t emulated_words __attribute__((vector_size(64)));
typedef uint16_t emulated_halves __attribute__((vector_size(64)));

/* What stands where from: words of four 16-byte lanes. */
EMULATED __m512i _mm512_unpacklo_epi32(__m512i first, __m512i second) {
    emulated_words a = (emulated_words)first, b = (emulated_words)second, y;
    for (int i = 0; i < 16; i += 4)
        y[i] = a[i], y[i + 1] = b[i], y[i + 2] = a[i + 1], y[i + 3] = b[i + 1];
    return (__m512i)y;
}

EMULATED __m512i _mm512_unpackhi_epi32(__m512i first, __m512i second) {
    emulated_words a = (emulated_words)first, b = (emulated_words)second, y;
    for (int i = 0; i < 16; i += 4)
        y[i] = a[i + 2], y[i + 1] = b[i + 2], y[i + 2] = a[i + 3], y[i + 3] = b[i + 3];
    return (__m512i)y;
}

EMULATED __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b) {
    return (__m512i){a[0], b[0], a[2], b[2], a[4], b[4], a[6], b[6]};
}

EMULATED __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b) {
    return (__m512i){a[1], b[1], a[3], b[3], a[5], b[5], a[7], b[7]};
}

EMULATED __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int order) {
    __m512i y;
    for (int i = 0; i < 4; i++) {
        int from = order >> 2 * i & 3;
        y[2 * i] = i < 2 ? a[2 * from] : b[2 * from];
        y[2 * i + 1] = i < 2 ? a[2 * from + 1] : b[2 * from + 1];
    }
    return y;
}

EMULATED __m512i _mm512_setzero_si512(void) { return (__m512i){0}; }

EMULATED __m512i _mm512_loadu_si512(const void *from) {
    __m512i y;
    memcpy(&y, from, 64);
    return y;
}

EMULATED void _mm512_storeu_si512(void *to, __m512i x) { memcpy(to, &x, 64); }

EMULATED __m512 _mm512_loadu_ps(const void *from) { return (__m512)_mm512_loadu_si512(from); }

EMULATED __m512 _mm512_maskz_loadu_ps(uint16_t mask, const void *from) {
    __m512 y = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy((float *)&y + i, (const float *)from + i, 4);
    return y;
}

EMULATED void _mm512_mask_storeu_epi32(void *to, uint16_t mask, __m512i x) {
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy((char *)to + 4 * i, (char *)&x + 4 * i, 4);
}

EMULATED __m512i _mm512_set1_epi32(int x) { return (__m512i)((emulated_words){0} + (uint32_t)x); }
EMULATED __m512i _mm512_and_si512(__m512i a, __m512i b) { return a & b; }
EMULATED __m512i _mm512_or_si512(__m512i a, __m512i b) { return a | b; }

EMULATED __m512i _mm512_add_epi32(__m512i a, __m512i b) {
    return (__m512i)((emulated_words)a + (emulated_words)b);
}

EMULATED __m512i _mm512_srli_epi32(__m512i a, int bits) {
    return (__m512i)((emulated_words)a >> bits);
}

/* The arguments are named from the last element to the first. */
#define _mm512_set_epi16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,   \
                         y, z, A, B, C, D, E, F)                                                   \
    ((__m512i)(emulated_halves){F, E, D, C, B, A, z, y, x, w, v, u, t, s, r, q,                    \
                                p, o, n, m, l, k, j, i, h, g, f, e, d, c, b, a})

EMULATED __m512i _mm512_permutexvar_epi16(__m512i order, __m512i x) {
    emulated_halves from = (emulated_halves)order, a = (emulated_halves)x, y;
    for (int i = 0; i < 32; i++) y[i] = a[from[i] & 31];
    return (__m512i)y;
}

/* Rounds to the nearest, ties to even; denormals become 0. */
EMULATED uint16_t emulated_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7f800000) == 0) return bits >> 16 & 0x8000;
    if ((bits & 0x7fffffff) > 0x7f800000) return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

EMULATED __m512bh _mm512_cvtne2ps_pbh(__m512 upper, __m512 lower) {
    __m512bh y;
    for (int i = 0; i < 16; i++) {
        y[i] = emulated_bf16(lower[i]);
        y[16 + i] = emulated_bf16(upper[i]);
    }
    return y;
}

EMULATED float emulated_float(uint32_t bits) { /* denormals are zeros of their sign */
    float x;
    if ((bits & 0x7f800000) == 0) bits &= 0x80000000;
    memcpy(&x, &bits, 4);
    return x;
}

EMULATED float emulated_flushed(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return emulated_float(bits);
}

/* Of each pair first the upper numbers, then the lower: "FP32 FMA with daz in, ftz out and RNE
 * rounding. MXCSR neither consulted nor updated" (VDPBF16PS in Intel 64 and IA-32 Architectures
 * Software Developer's Manual, volume 2; a copy: https://www.felixcloutier.com/x86/vdpbf16ps). */
EMULATED __m512 _mm512_dpbf16_ps(__m512 sums, __m512bh a, __m512bh b) {
    for (int i = 0; i < 16; i++) {
        float sum = emulated_flushed(sums[i]);
        for (int j = 2 * i + 1; j >= 2 * i; j--) {
            float left = emulated_float((uint32_t)a[j] << 16);
            float right = emulated_float((uint32_t)b[j] << 16);
            sum = emulated_flushed(__builtin_fmaf(left, right, sum));
        }
        sums[i] = sum;
    }
    return sums;
}

/* Eight tiles of 16 rows of 64 bytes: the only configuration that the library has. */
static _Thread_local uint32_t emulated_tiles[8][16][16];
static _Thread_local int emulated_configured;

EMULATED void emulated_require(int fine, const char *what) {
    if (fine) return;
    fprintf(stderr, "AMX: %s\n", what);
    abort();
}

EMULATED void _tile_loadconfig(const void *config) {
    const uint8_t *bytes = config;
    emulated_require(bytes[0] == 1 && bytes[1] == 0, "another palette");
    for (int i = 0; i < 8; i++) {
        emulated_require(bytes[16 + 2 * i] == 64 && bytes[17 + 2 * i] == 0, "another width");
        emulated_require(bytes[48 + i] == 16, "another height");
    }
    for (int i = 2; i < 64; i++)
        emulated_require((i >= 16 && i < 32) || (i >= 48 && i < 56) || !bytes[i], "reserved bytes");
    memset(emulated_tiles, 0, sizeof emulated_tiles);
    emulated_configured = 1;
}

EMULATED void _tile_release(void) { emulated_configured = 0; }

EMULATED void _tile_zero(int tile) {
    emulated_require(emulated_configured, "no configuration");
    memset(emulated_tiles[tile], 0, sizeof *emulated_tiles);
}

EMULATED void _tile_loadd(int tile, const void *from, int64_t stride) {
    emulated_require(emulated_configured, "no configuration");
    for (int i = 0; i < 16; i++)
        memcpy(emulated_tiles[tile][i], (const char *)from + i * stride, 64);
}

EMULATED void _tile_stored(int tile, void *to, int64_t stride) {
    emulated_require(emulated_configured, "no configuration");
    for (int i = 0; i < 16; i++) memcpy((char *)to + i * stride, emulated_tiles[tile][i], 64);
}

/* Intel's description: even and odd numbers of a pair are summed apart. */
EMULATED void _tile_dpbf16ps(int to, int left, int right) {
    emulated_require(emulated_configured, "no configuration");
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float even = 0, odd = 0, sum = emulated_float(emulated_tiles[to][m][n]);
            for (int k = 0; k < 16; k++) {
                uint32_t a = emulated_tiles[left][m][k], b = emulated_tiles[right][k][n];
                even += emulated_float(a << 16) * emulated_float(b << 16);
                odd += emulated_float(a & 0xffff0000) * emulated_float(b & 0xffff0000);
            }
            sum += even + odd;
            memcpy(&emulated_tiles[to][m][n], &sum, 4);
        }
}

/* The permission to use AMX is always given. */
#define syscall(...) 0L

#endif
