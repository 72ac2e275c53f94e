/* Declarations of the native training step: parameters with gradients, dropout, attention, loss.
 *
 * The structs mirror train_ctypes_structs.py. */
#ifndef HEADWISE_TRAIN_H
#define HEADWISE_TRAIN_H

#include "arena.h"
#include "kernels.h"

#define OVERWRITE ((matmul_opts){0})
#define ACCUMULATE ((matmul_opts){.accumulate = 1})
#define TRANSPOSED_ACCUMULATE ((matmul_opts){.transposed = 1, .accumulate = 1})

typedef struct {
    const float *weight, *bias;     /* [out, in]; [out] or NULL */
    float *grad_weight, *grad_bias; /* gradients, accumulated */
    int64_t in, out;
} linear;

typedef struct {
    const float *weight, *bias; /* [D] */
    float *grad_weight, *grad_bias;
    float eps;
} trainable_norm;

typedef uint64_t u64vec __attribute__((vector_size(64)));
typedef uint32_t u32vec __attribute__((vector_size(64)));

/* Dropout state: a random generator seeded by (seed, place), the drop threshold and the scale. */
typedef struct {
    u64vec a, b;
    uint32_t threshold;
    float scale;
} dropout_rng;

INLINE uint64_t splitmix64(uint64_t x) { /* Steele et al. 2014 */
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

INLINE dropout_rng seed_dropout(uint64_t seed, int64_t place, float rate) {
    dropout_rng rng;
    uint64_t start = splitmix64(seed ^ splitmix64(place));
    for (int i = 0; i < 8; i++) {
        rng.a[i] = splitmix64(start + 2 * i);
        rng.b[i] = splitmix64(start + 2 * i + 1);
    }
    rng.threshold = (uint32_t)(rate * 4294967296.0);
    rng.scale = 1 / (1 - rate);
    return rng;
}

/* Dropout of 16 numbers: drop each with the given rate, scale the others. Eight xorshift128+
 * generators (Vigna 2017) run side by side. */
INLINE vec dropout_vec(dropout_rng *rng, vec x) {
    u64vec a = rng->a, b = rng->b;
    u32vec drawn = (u32vec)(a + b);
    rng->a = b;
    a ^= a << 23;
    rng->b = a ^ b ^ (a >> 18) ^ (b >> 5);
    ivec kept = (ivec)(drawn >= (u32vec){0} + rng->threshold);
    return (vec)((ivec)(x * rng->scale) & kept);
}

/* Dropout of `size` numbers, in place. */
void dropout(dropout_rng *rng, float *x, int64_t size);

/* Post-norm: y = norm(x + dropout(out)), all [rows, size]; saved for the backward pass: the sum, and
 * the mean and 1 / standard deviation of each row. */
void add_and_norm(const trainable_norm *n, const float *x, const float *out, int64_t rows,
                  int64_t size, dropout_rng rng, float *sum, float *stats, float *y);

/* Backward pass: the gradients of x and of out (the same without dropout), given that of y. */
void add_and_norm_backward(const trainable_norm *n, const float *grad_y, int64_t rows, int64_t size,
                           dropout_rng rng, const float *sum, const float *stats, float *grad_x,
                           float *grad_out);

/* Pre-norm: y = x + dropout(out), and the gradient of out; that of x is that of y. */
void add_residual(const float *x, const float *out, int64_t rows, int64_t size, dropout_rng rng,
                  float *y);
void add_residual_backward(const float *grad_y, int64_t rows, int64_t size, dropout_rng rng,
                           float *grad_out);

/* y = norm(x), [rows, size]; the gradient of x is stored, or added to what is there. */
void norm(const trainable_norm *n, const float *x, int64_t rows, int64_t size, float *stats,
          float *y);
void norm_backward(const trainable_norm *n, const float *grad_y, const float *x, int64_t rows,
                   int64_t size, const float *stats, float *grad_x, int64_t accumulate);

/* y = activation(x); the gradient of x in place of that of y. With RELU x may be y. */
void activation_forward(const float *x, int64_t size, int64_t activation, float *y);
void activation_backward(const float *x, int64_t size, int64_t activation, float *grad);

/* One head of one sentence: Q queries, K keys. Its weights [Q, pad_to_lanes(K)] are saved. */
typedef struct {
    const float *queries, *keys, *values;
    int64_t ldq, ldk, ldv; /* strides from one position to the next */
    int64_t num_queries, num_keys, d_k, d_v, causal;
} head;

/* `rng` drops weights, which are saved as they were before. */
void attention_forward(const head *h, float *weights, float *out, int64_t ldo, dropout_rng *rng,
                       float *scratch);
int64_t attention_scratch_floats(int64_t longest, int64_t d_k, int64_t d_v);

/* Where the gradients of a head go: they have the layout and strides of their tensors, and are
 * overwritten. */
typedef struct {
    float *queries, *keys, *values;
} head_gradients;

void attention_backward(const head *h, const float *weights, const float *grad_out, int64_t ldo,
                        head_gradients to, dropout_rng *rng, float *scratch);

/* Label-smoothed cross-entropy of the scores of `hidden` [rows, in], summed, and its gradients:
 * grad_hidden is overwritten, the weights' are accumulated. packed_backward: the output matrix as
 * packed by loss_pack_backward (loss_backward_bytes bytes, aligned to 64). scratch:
 * loss_scratch_floats floats. */
double loss_and_gradients(const linear *l, const matrix *scores, const void *packed_backward,
                          const float *hidden, int64_t rows, const int64_t *targets,
                          float smoothing, float *grad_hidden, float *scratch);
int64_t loss_scratch_floats(int64_t in, int64_t out, int64_t rows, int64_t terms);
int64_t loss_backward_bytes(int64_t in, int64_t out, int64_t terms);
void loss_pack_backward(const float *weight, int64_t in, int64_t out, int64_t terms, void *to);

/* What Python passes in: a model with its gradients, and a batch of packed sentences. */
typedef struct {
    linear queries, keys, values, output;
    trainable_norm norm;
} attention_box;

typedef struct {
    attention_box self, cross;
    linear expand, project;
    trainable_norm norm;
} block;

typedef struct {
    const float *table; /* [V, width] */
    float *grad_table;
    const float *positions; /* [positions, D]; zeros beside which an embedding stands */
    float *grad_positions;  /* [positions, position_width] of the last channels; NULL: not learned */
    int64_t width, position_width;
    float scale;
    trainable_norm norm; /* without weights: none */
} embedding;

typedef struct {
    int64_t encoder_layers, decoder_layers, d_model, heads, d_k, d_v, d_ff, terms;
    int64_t pre_norm, activation;
    float dropout, attention_dropout, feed_forward_dropout, smoothing;
    embedding source_embedding, target_embedding;
    trainable_norm encoder_norm, decoder_norm; /* of pre-norm models */
    linear output;
    const block *encoder, *decoder;
} train_model;

typedef struct {
    int64_t sentences;
    const int64_t *source, *source_starts; /* [positions of all sources], [sentences + 1] */
    const int64_t *target_in, *target_out, *target_starts;
    uint64_t seed;
} train_batch;

/* A weight matrix packed for the forward and the backward pass. */
typedef struct {
    matrix forward, backward;
} packed_linear;

/* The packed matrices of a model, shared by all groups of a batch. */
typedef struct {
    packed_linear qkv, kv, output;
} packed_attention;

typedef struct {
    packed_attention self, cross;
    packed_linear expand, project;
} packed_block;

typedef struct {
    packed_block *encoder, *decoder;
    matrix output;               /* forward: the whole vocabulary */
    const void *output_backward; /* backward: vocabulary blocks, contiguous */
} packed_model;

packed_model pack_model(const train_model *m, arena *a);

int64_t train_scratch_bytes(const train_model *m, const train_batch *b);
double forward_backward(const train_model *m, const train_batch *b, void *memory);

#endif
