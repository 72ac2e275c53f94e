/* What learning needs beside kernels.h: boxes with gradients, and chance. */
#ifndef HEADWISE_TRAIN_H
#define HEADWISE_TRAIN_H

#include "kernels.h"

#define PLAIN ((manner){0})
#define ADDED ((manner){.add = 1})
#define TURNED_AND_ADDED ((manner){.turned = 1, .add = 1})

typedef struct {
    const float *weight, *bias; /* [out, in]; [out] or NULL */
    float *to_weight, *to_bias; /* gradients, which are added to */
    int64_t in, out;
} linear;

typedef struct {
    const float *weight, *bias; /* [D] */
    float *to_weight, *to_bias;
    float eps;
} learned_norm;

typedef uint64_t words __attribute__((vector_size(64)));
typedef uint32_t uvec __attribute__((vector_size(64)));

/* Random words, the same for the same seed and place. */
typedef struct {
    words a, b;
    uint32_t silent;
    float scale;
} chance;

INLINE uint64_t mixed(uint64_t x) { /* splitmix64 (Steele et al. 2014) */
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

INLINE chance chance_of(uint64_t seed, int64_t place, float share) {
    chance c;
    uint64_t start = mixed(seed ^ mixed(place));
    for (int i = 0; i < 8; i++) {
        c.a[i] = mixed(start + 2 * i);
        c.b[i] = mixed(start + 2 * i + 1);
    }
    c.silent = (uint32_t)(share * 4294967296.0);
    c.scale = 1 / (1 - share);
    return c;
}

/* Silence a share of 16 numbers and enlarge the others: xorshift128+ (Vigna 2017), eight of
 * them side by side. */
INLINE vec silenced(chance *c, vec x) {
    words a = c->a, b = c->b;
    uvec drawn = (uvec)(a + b);
    c->a = b;
    a ^= a << 23;
    c->b = a ^ b ^ (a >> 18) ^ (b >> 5);
    ivec kept = (ivec)(drawn >= (uvec){0} + c->silent);
    return (vec)((ivec)(x * c->scale) & kept);
}

/* Silence a share of a row in its place. */
void silence(chance *c, float *x, int64_t size);

/* y = norm(x + silenced(out)), all [rows, size]; kept for the way back: the sum, and the mean
 * and 1 / deviation of each row. */
void add_and_norm(const learned_norm *n, const float *x, const float *out, int64_t rows,
                  int64_t size, chance c, float *total, float *stats, float *y);

/* From the gradient of y to those of x and, where there is chance, of out (else the same). */
void add_and_norm_back(const learned_norm *n, const float *to_y, int64_t rows, int64_t size,
                       chance c, const float *total, const float *stats, float *to_x,
                       float *to_out);

/* One head of one sentence: Q positions ask K. Weights [Q, filled(K)] are kept. */
typedef struct {
    const float *queries, *keys, *values;
    int64_t ldq, ldk, ldv; /* from one position to the next */
    int64_t asking, asked, key, value, causal;
} head;

void attend(const head *h, float *weights, float *out, int64_t ldo, float *spare);
int64_t attend_spare(int64_t longest, int64_t key, int64_t value);

/* The gradients have the places and distances of what they are gradients of, and are
 * replaced. */
void attend_back(const head *h, const float *weights, const float *to_out, int64_t ldo,
                 float *to_queries, float *to_keys, float *to_values, float *spare);

/* Cross-entropy with label smoothing of what `hidden` [rows, in] scores, summed, and its
 * gradients: to_hidden is replaced, the weights' are added to. `back` is as laid out by
 * loss_lay_out: loss_back_size bytes, aligned to 64. spare: loss_spare numbers. */
double loss_and_back(const linear *l, const product *scores, const void *back,
                     const float *hidden, int64_t rows, const int64_t *targets, float smoothing,
                     float *to_hidden, float *spare);
int64_t loss_spare(int64_t in, int64_t out, int64_t rows, int64_t parts);
int64_t loss_back_size(int64_t in, int64_t out, int64_t parts);
void loss_lay_out(const float *weight, int64_t in, int64_t out, int64_t parts, void *to);

/* What Python hands over: a model, with its gradients ... */
typedef struct {
    linear queries, keys, values, join;
    learned_norm around;
} attention_box;

typedef struct {
    attention_box own, source;
    linear widen, narrow;
    learned_norm around;
} block;

typedef struct {
    const float *table; /* [V, D] */
    float *to_table;
    const float *places; /* [positions, D] */
    float scale;
} foot;

typedef struct {
    int64_t encoder_layers, decoder_layers, model, heads, key, value, inner, parts;
    float dropout, smoothing;
    foot reading, writing;
    linear scores;
    const block *encoder, *decoder;
} pupil;

/* ... and sentences, one behind the other. */
typedef struct {
    int64_t sentences;
    const int64_t *source, *source_starts; /* [R of sources], [sentences + 1] */
    const int64_t *target_in, *target_out, *target_starts;
    uint64_t seed;
} lesson;

/* Memory that is handed out piece by piece, each aligned to 64 bytes; without a base, only
 * counted. */
typedef struct {
    char *base;
    int64_t used;
} arena;

INLINE void *take(arena *a, int64_t bytes) {
    void *piece = a->base ? a->base + a->used : 0;
    a->used += (bytes + 63) / 64 * 64;
    return piece;
}

INLINE float *floats(arena *a, int64_t count) { return take(a, count * 4); }

/* A matrix for both ways. */
typedef struct {
    product forth, back;
} both;

/* The matrices of a box and of a block, laid out once for all groups of a lesson. */
typedef struct {
    both asked, remember, join;
} laid_box;

typedef struct {
    laid_box own, source;
    both widen, narrow;
} laid_block;

typedef struct {
    laid_block *encoder, *decoder;
    product scores;   /* forth: all words */
    const void *back; /* back: blocks of words, one behind the other */
} laid_model;

laid_model lay_out(const pupil *p, arena *a);

int64_t lesson_bytes(const pupil *p, const lesson *l);
double learn(const pupil *p, const lesson *l, void *memory);

#endif
