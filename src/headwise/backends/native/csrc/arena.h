/* Arena allocator: scratch memory is cut into pieces, each aligned to 64 bytes. Without a base it
 * only counts, so that the size of the memory and its layout come from the same lines.
 *
 * A build with sanitizers defines ARENA_GAP, bytes behind each piece that nothing may touch, and
 * the two macros that mark them (benchmarks/sanitizers/poison.h). */
#ifndef HEADWISE_ARENA_H
#define HEADWISE_ARENA_H

#include "simd.h"

#ifndef ARENA_GAP
#define ARENA_GAP 0
#define ARENA_PIECE(piece, bytes, reserved)
#define ARENA_END(base, used)
#endif

typedef struct {
    char *base;
    int64_t used;
} arena;

INLINE void *alloc(arena *a, int64_t bytes) {
    int64_t reserved = (bytes + 63) / 64 * 64 + ARENA_GAP;
    void *piece = a->base ? a->base + a->used : 0;
    a->used += reserved;
    ARENA_PIECE(piece, bytes, reserved);
    return piece;
}

INLINE float *alloc_floats(arena *a, int64_t count) { return alloc(a, count * 4); }

/* Give the memory back to whoever cuts it next. */
INLINE void end_arena(const arena *a) { ARENA_END(a->base, a->used); }

/* The first multiple of 64 in scratch memory; ARENA_SLACK: the floats that this may skip. */
#define ARENA_SLACK 16
INLINE void *align_to_64(void *memory) {
    return (void *)(((uintptr_t)memory + 63) / 64 * 64);
}

#endif
