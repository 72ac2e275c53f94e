/* Runs random shapes through the exported functions of the native library.
 *
 *     driver KIND FIRST COUNT     shapes of a kind: matmul, pack, topk, beam, decoder, training
 *     driver threads ROUNDS       decoding in two threads that share a model
 *
 * Prints a line for each shape: kind, number, checksum and measure of its results, and what it is.
 * benchmarks/native_sanitizers.py compiles and runs it. */
#include "driver.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAS_ADDRESS_SANITIZER
#endif
#ifdef HAS_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes) ((void)(from), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes) ((void)(from), (void)(bytes))
#endif

#define GAP 1024
#define GAP_BYTE 0xa5
#define MAX_GUARDED 4096

typedef struct {
    unsigned char *begin, *piece, *end;
    int64_t bytes;
} guarded_piece;

static _Thread_local uint64_t state;
static _Thread_local int fill; /* byte of the garbage */
static _Thread_local guarded_piece pieces[MAX_GUARDED];
static _Thread_local int64_t num_pieces;
static _Thread_local uint64_t checksum;
static _Thread_local double measure;
static _Thread_local char description[400];

int64_t amx_enable(void);

void fail(const char *format, ...) {
    va_list given;
    va_start(given, format);
    printf("FAILED %s: ", description);
    vprintf(format, given);
    printf("\n");
    va_end(given);
    exit(1);
}

void describe(const char *format, ...) {
    va_list given;
    va_start(given, format);
    vsnprintf(description, sizeof description, format, given);
    va_end(given);
}

static uint64_t mix(uint64_t x) { /* Steele et al. 2014 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static uint64_t next(void) { return mix(state += 0x9e3779b97f4a7c15); }

void seed_draws(uint64_t seed) { state = mix(seed + 1); }

int64_t draw(int64_t low, int64_t high) {
    return low + (int64_t)(next() % (uint64_t)(high - low + 1));
}
int64_t one_of(const int64_t *table, int64_t count) { return table[draw(0, count - 1)]; }
int64_t happens(int64_t percent) { return draw(0, 99) < percent; }

void *guarded(int64_t bytes, int64_t alignment) {
    if (num_pieces == MAX_GUARDED) fail("too many pieces of memory");
    int64_t all = bytes + 2 * GAP + 64;
    guarded_piece *p = pieces + num_pieces++;
    p->begin = malloc(all);
    p->end = p->begin + all;
    p->bytes = bytes;
    if (!p->begin) fail("no memory");
    memset(p->begin, GAP_BYTE, all);
    p->piece = (unsigned char *)(((uintptr_t)p->begin + GAP + 63) / 64 * 64);
    if (alignment < 64) p->piece -= alignment * draw(0, 64 / alignment - 1);
    memset(p->piece, fill, bytes);
    ASAN_POISON_MEMORY_REGION(p->begin, p->piece - p->begin);
    ASAN_POISON_MEMORY_REGION(p->piece + bytes, p->end - p->piece - bytes);
    return p->piece;
}

void free_guarded(void) {
    while (num_pieces) {
        guarded_piece *p = pieces + --num_pieces;
        ASAN_UNPOISON_MEMORY_REGION(p->begin, p->end - p->begin);
        for (unsigned char *at = p->begin; at < p->end; at++)
            if ((at < p->piece || at >= p->piece + p->bytes) && *at != GAP_BYTE)
                fail("memory was written %ld bytes from a piece of %ld", (long)(at - p->piece),
                     (long)p->bytes);
        free(p->begin);
    }
}

#ifdef ARENA_GAP
void mark_piece(void *piece, int64_t bytes, int64_t reserved) {
    if (!piece) return;
    memset(piece, fill, bytes); /* reports memory that is not there */
    memset((char *)piece + bytes, fill, reserved - bytes);
    ASAN_POISON_MEMORY_REGION((char *)piece + bytes, reserved - bytes);
}

void mark_end(void *base, int64_t used) {
    if (base) ASAN_UNPOISON_MEMORY_REGION(base, used);
}
#endif

float *floats(int64_t count) { return guarded(count * 4, 4); }

float *zeros(int64_t count) { return memset(floats(count), 0, count * 4); }

float *random_floats(int64_t count, float scale) {
    float *x = floats(count);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(int32_t)(next() >> 32) * (1 / 2147483648.0f) * scale;
    return x;
}

int64_t *integers(int64_t count) { return guarded(count * 8, 8); }

int64_t *random_integers(int64_t count, int64_t low, int64_t high) {
    int64_t *x = integers(count);
    for (int64_t i = 0; i < count; i++) x[i] = draw(low, high);
    return x;
}

float *random_rotations(int64_t positions, int64_t d_k) {
    return d_k % 2 == 0 && happens(50) ? random_floats(positions * d_k, 1) : 0;
}

void add_bytes(const void *x, int64_t bytes) { /* Fowler, Noll, Vo */
    const unsigned char *at = x;
    for (int64_t i = 0; i < bytes; i++) checksum = (checksum ^ at[i]) * 0x100000001b3;
}

void add_floats(const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = 0x7fc00000; /* one NaN is as good as another */
        if (x[i] == x[i]) memcpy(&bits, x + i, 4);
        add_bytes(&bits, 4);
    }
    add_to_measure(x, count);
}

void add_to_measure(const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i])) measure += fabs((double)x[i]);
}

void add_double(double x) {
    add_bytes(&x, 8);
    measure += fabs(x);
}

typedef struct {
    const char *name;
    void (*run)(void);
} kind;

static const kind kinds[] = {
    {"matmul", matmul_shape},   {"pack", pack_shape},         {"topk", topk_shape},
    {"decoder", decoder_shape}, {"training", training_shape}, {"beam", beam_shape},
    {"prefill", prefill_shape},
};

static void run_shape(const kind *k, int64_t number) {
    uint64_t first = 0;
    for (int again = 0; again < 2; again++) {
        fill = again ? 0xff : 0;
        checksum = 0xcbf29ce484222325;
        measure = 0;
        seed_draws(number * COUNT(kinds) + (k - kinds));
        describe("%s %ld", k->name, (long)number);
        k->run();
        free_guarded();
        if (!again)
            first = checksum;
        else if (checksum != first)
            fail("the result depends on memory that was not written");
    }
    printf("%s %ld %016llx %.9g %s\n", k->name, (long)number, (unsigned long long)checksum,
           measure, description);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (!amx_enable()) {
#ifdef __AMX_BF16__
        fail("the operating system does not permit AMX");
#endif
    }
    if (argc == 3 && !strcmp(argv[1], "threads")) {
        decode_in_threads(atol(argv[2]));
        return 0;
    }
    for (int64_t i = 0; argc == 4 && i < COUNT(kinds); i++)
        if (!strcmp(argv[1], kinds[i].name)) {
            for (int64_t n = 0; n < atol(argv[3]); n++) run_shape(kinds + i, atol(argv[2]) + n);
            return 0;
        }
    fprintf(stderr, "driver KIND FIRST COUNT, or driver threads ROUNDS\n");
    return 2;
}
