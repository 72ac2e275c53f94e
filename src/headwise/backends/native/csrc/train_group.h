/* A group of sentences on its way through the model: what the files of the training step share.
 *
 * Sizes: D model width, H heads, K and C channels of a head's key and value, F inner width, R rows:
 * positions of all sentences of a group. */
#ifndef HEADWISE_TRAIN_GROUP_H
#define HEADWISE_TRAIN_GROUP_H

#include "train.h"

/* What the backward pass needs of a residual connection and its norm. */
typedef struct {
    float *input; /* of the sublayer: x normalized; pre-norm models only */
    float *sum;   /* what is normalized; post-norm models only */
    float *stats; /* mean and 1 / standard deviation of each row */
    float *y;
} saved_residual;

typedef struct {
    float *qkv, *kv, *weights, *heads; /* qkv: in cross-attention the queries alone */
    saved_residual residual;
} saved_attention;

typedef struct {
    const float *x;
    saved_attention self, cross;
    float *pre_activation; /* NULL with RELU, of which the output tells enough */
    float *hidden;
    saved_residual residual;
} saved_layer;

/* The encoder or the decoder, with the activations saved for the backward pass. */
typedef struct {
    const embedding *embedding;
    const block *blocks;
    const packed_block *packed;
    const trainable_norm *norm; /* at the end of a pre-norm stack */
    const int64_t *tokens, *starts;
    int64_t layers, rows, is_decoder;
    float *embedded, *embedding_sum, *embedding_stats;
    saved_layer *saved;
    float *norm_stats, *top;
} stack;

/* The stacks, gradients and scratch of a group. */
typedef struct {
    const train_model *model;
    int64_t sentences;
    uint64_t seed;
    stack encoder, decoder;
    float *out, *grad_x, *grad_input, *grad_out, *grad_hidden, *grad_qkv, *grad_heads, *grad_kv;
    float *grad_encoded, *packed_x, *scratch;
} group;

INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Positions of some sentences; the first need not begin at 0. */
INLINE int64_t count_positions(const int64_t *starts, int64_t sentences) {
    return starts[sentences] - starts[0];
}

/* Lay out the memory of a group; `packed` may be NULL where that is only counted. */
group alloc_group(const train_model *m, const train_batch *b, const packed_model *packed, arena *a);

/* Where dropout is applied; each place of each layer has a stream of random numbers of its own. */
enum { EMBEDDING, SELF, CROSS, FEED_FORWARD, SELF_WEIGHTS, CROSS_WEIGHTS, HIDDEN, PLACES = 8 };

INLINE dropout_rng dropout_at(const group *g, const stack *s, int64_t layer, int64_t place,
                              float rate) {
    return seed_dropout(g->seed, (layer * PLACES + place) * 2 + s->is_decoder, rate);
}

/* Self-attention, or with `encoded` cross-attention, of a layer: returns its output, saved in s. */
const float *attention_forward_at(const group *g, const stack *s, int64_t layer, const float *x,
                                  const float *encoded);
const float *feed_forward_at(const group *g, const stack *s, int64_t layer, const float *x);

/* Backward pass: g->grad_x holds the gradient of the output on entry, that of x on return. */
void attention_backward_at(const group *g, const stack *s, int64_t layer, const float *x,
                           const float *encoded);
void feed_forward_backward_at(const group *g, const stack *s, int64_t layer, const float *x);

#endif
