/* Gaps in the scratch memory of the native library, for AddressSanitizer; given to the compiler by
 * -include. Each piece of an arena is filled with garbage and followed by a gap that may not be
 * touched (csrc/arena.h). */
#ifndef SANITIZERS_POISON_H
#define SANITIZERS_POISON_H

#include <stdint.h>

#define ARENA_GAP 512
#define ARENA_PIECE(piece, bytes, reserved) mark_piece(piece, bytes, reserved)
#define ARENA_END(base, used) mark_end(base, used)

void mark_piece(void *piece, int64_t bytes, int64_t reserved);
void mark_end(void *base, int64_t used);

#endif
