/* Declarations of the native training step: batches, dropout, norms, attention, loss.
 *
 * The structs of a batch mirror ctypes_structs.py. */
#ifndef HEADWISE_TRAIN_H
#define HEADWISE_TRAIN_H

#include "arena.h"
#include "model.h"

#define ACCUMULATE ((matmul_opts){.accumulate = 1})
#define TRANSPOSED_ACCUMULATE ((matmul_opts){.transposed = 1, .accumulate = 1})

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

/* Of vectors that stand one behind the other, [rows, size]. */
typedef struct {
    int64_t rows, size;
} shape;

/* What the backward pass of a norm needs: what was normalized, and the mean and 1 / standard
 * deviation of each row. */
typedef struct {
    float *x, *stats; /* [rows, size], [rows, 2] */
} saved_norm;

/* Post-norm: y = norm(x + dropout(out)), all of shape s. */
void add_and_norm(const layer_norm *n, shape s, dropout_rng rng, const float *x, const float *out,
                  saved_norm saved, float *y);

/* Backward pass: the gradients of x and of out (the same without dropout), given that of y. */
void add_and_norm_backward(const layer_norm *n, shape s, dropout_rng rng, saved_norm saved,
                           const float *grad_y, float *grad_x, float *grad_out);

/* Pre-norm: y = x + dropout(out), and the gradient of out; that of x is that of y. */
void add_residual(shape s, dropout_rng rng, const float *x, const float *out, float *y);
void add_residual_backward(shape s, dropout_rng rng, const float *grad_y, float *grad_out);

/* y = norm(x); the gradient of x is stored, or added to what is there. */
void norm(const layer_norm *n, shape s, const float *x, float *stats, float *y);
void norm_backward(const layer_norm *n, shape s, const float *x, const float *stats,
                   const float *grad_y, float *grad_x, int64_t accumulate);

/* y = activation(x); the gradient of x in place of that of y. With RELU x may be y. */
void activation_forward(const float *x, int64_t size, int64_t activation, float *y);
void activation_backward(const float *x, int64_t size, int64_t activation, float *grad);

/* One head of one sentence: Q queries, K keys. Its weights [Q, pad_to_lanes(K)] are saved. */
typedef struct {
    const float *queries, *keys, *values;
    int64_t ldq, ldk, ldv; /* strides from one position to the next */
    int64_t num_queries, num_keys, d_k, d_v;
    int64_t causal, window; /* window: keys per query in causal attention; 0: all */
    int64_t by_tiles;       /* of bfloat16 numbers, between begin_tiles and end_tiles */
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

/* How the two passes of a doubled batch are held together, in which sentences 2 i and 2 i + 1 are
 * the same. With p and q, the distributions that a position has in the first and in the second:
 * ONE_WAY: the cross-entropy of the first, and KL(p || q); BOTH_WAYS: the mean of both, and that of
 * KL(p || q) and KL(q || p). */
enum { SINGLE_PASS, ONE_WAY, BOTH_WAYS };

typedef struct {
    int64_t form;
    float weight; /* of the divergence */
} consistency;

/* Summed over positions, in nats: the loss, and the divergence that is in it times its weight. */
typedef struct {
    double total, divergence;
} batch_loss;

/* Label-smoothed cross-entropy of the scores of `hidden`, summed. */
typedef struct {
    const linear *output;          /* gradients are accumulated */
    const matrix *scores;          /* output, packed */
    const void *scores_backward;   /* output, packed by loss_pack_backward */
    const float *hidden;           /* [rows, in] */
    const int64_t *targets;        /* [rows]; below 0: not counted */
    int64_t rows;
    float smoothing;
    float *grad_hidden;            /* [rows, in], overwritten */
    consistency consistency;
    const int64_t *order;          /* of two passes: the rows of the first, then of the second */
} loss_request;

/* Return the loss, and compute its gradients. scratch: loss_scratch_floats floats. */
batch_loss loss_and_gradients(const loss_request *r, float *scratch);
int64_t loss_scratch_floats(int64_t in, int64_t out, int64_t rows, int64_t terms, int64_t form);

/* Pack the output matrix for the backward pass; `to`: loss_backward_bytes bytes, aligned to 64. */
void loss_pack_backward(const float *weight, int64_t in, int64_t out, int64_t terms, void *to);
int64_t loss_backward_bytes(int64_t in, int64_t out, int64_t terms);

/* Tokens of sentences without padding; without an encoder, or a decoder, it has none: NULL. */
typedef struct {
    const int64_t *tokens, *starts; /* [positions of all sentences], [sentences + 1] */
} ragged_tokens;

typedef struct {
    int64_t sentences;
    ragged_tokens source, decoder_input;
    const int64_t *targets; /* the token to predict at each position of the last stack; below 0:
                             * the loss does not count it */
    float smoothing;
    uint64_t seed; /* of dropout */
    consistency consistency;
} train_batch;

/* The matrices of a sublayer, packed for the forward pass, and transposed for the backward pass. */
typedef struct {
    packed_sublayer forward, backward;
} packed_weights;

/* The packed matrices of a model, shared by all groups of a batch. */
typedef struct {
    packed_weights *encoder, *decoder; /* [sublayers] */
    matrix output;                     /* forward: the whole vocabulary */
    const void *output_backward;       /* backward: vocabulary blocks, contiguous */
} packed_model;

packed_model pack_model(const transformer *m, arena *a);

/* Loss and all gradients of a batch; memory: train_scratch_bytes, aligned to 64. */
int64_t train_scratch_bytes(const transformer *m, const train_batch *b);
batch_loss forward_backward(const transformer *m, const train_batch *b, void *memory);

/* An encoder alone: forward pass, then the gradients of its weights, given those of its output
 * [positions of all sentences, D]. The memory, encoder_train_bytes aligned to 64, stays as it is
 * between the two. */
int64_t encoder_train_bytes(const transformer *m, const train_batch *b);
void encoder_forward(const transformer *m, const train_batch *b, float *encoded, void *memory);
void encoder_backward(const transformer *m, const train_batch *b, const float *grad_encoded,
                      void *memory);

#endif
