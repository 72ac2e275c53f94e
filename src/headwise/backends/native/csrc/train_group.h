/* A group of sentences on its way through the model: what the files of the training step share.
 *
 * Sizes as in model.h, and R rows: positions of all sentences of a group. */
#ifndef HEADWISE_TRAIN_GROUP_H
#define HEADWISE_TRAIN_GROUP_H

#include "train.h"

/* A sublayer, and what its backward pass needs. */
typedef struct {
    const sublayer *sublayer;
    const packed_weights *packed;
    int64_t number;  /* among those with dropout at the same places, from 1 */
    const float *x;  /* [R, D] */
    float *input;    /* x normalized; pre-norm models only */
    saved_norm norm; /* of the sum (post-norm); in pre-norm models the statistics of x alone */
    float *y;        /* [R, D]: output */
    /* Attention, [R, width]; qkv: in cross-attention the queries alone. weights: of each sentence
     * and head one behind the other, [Q, pad_to_lanes(K)]. */
    float *qkv, *kv, *weights, *heads;
    /* Feed-forward, [R, F]; pre_activation: NULL with RELU, of which the output tells enough. */
    float *pre_activation, *hidden;
} sublayer_state;

/* The encoder or the decoder, with the activations saved for the backward pass. */
typedef struct {
    const stack *stack;
    const int64_t *tokens, *starts;
    int64_t rows, is_decoder;
    float *embedded;                        /* [R, D] */
    float *embedding_sum, *embedding_stats; /* [R, D], [R, 2]; NULL: without a norm */
    sublayer_state *sublayers;
    float *norm_stats, *top; /* [R, 2], [R, D]: of the norm at the end; NULL: without */
} stack_state;

/* The stacks, gradients and scratch of a group. */
typedef struct {
    const transformer *model;
    int64_t sentences;
    uint64_t seed;
    stack_state encoder, decoder;
    const float *encoded; /* the encoder's output */
    /* [R, width]; out: of a sublayer, before the residual connection. */
    float *out, *grad_x, *grad_input, *grad_out, *grad_hidden, *grad_qkv, *grad_heads, *grad_kv;
    float *grad_encoded, *packed_x, *scratch;
    int64_t *order; /* of loss_request; NULL: a single pass */
} group;

INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Positions of the sentences `from` to `to`; 0 where there are no tokens. */
INLINE int64_t count_positions(const int64_t *starts, int64_t from, int64_t to) {
    return starts ? starts[to] - starts[from] : 0;
}

/* Of the vectors that pass from sublayer to sublayer. */
INLINE shape hidden_shape(const group *g, const stack_state *s) {
    return (shape){s->rows, g->model->d_model};
}

/* The group of sentences from `first` on: as many as stay in cache. Both passes of a sentence are
 * in one. */
train_batch group_of(const transformer *m, const train_batch *batch, int64_t first);

/* Lay out the activations of a group; `packed` may be NULL where they are only counted. */
group alloc_activations(const transformer *m, const train_batch *b, const packed_model *packed,
                        arena *a);

/* Lay out its gradients and scratch, which groups may share: each needs them anew. */
void alloc_work(group *g, const train_batch *b, arena *a);

/* Return the output of a stack. */
const float *stack_forward(const group *g, const stack_state *s);

/* Backward pass: g->grad_x holds the gradient of the stack's output on entry. */
void stack_backward(const group *g, const stack_state *s);

/* Where dropout is applied. Each place of each sublayer draws from its own random generator. */
enum {
    EMBEDDING_DROPOUT,
    SELF_DROPOUT,
    CROSS_DROPOUT,
    FEED_FORWARD_DROPOUT,
    SELF_WEIGHTS_DROPOUT,
    CROSS_WEIGHTS_DROPOUT,
    HIDDEN_DROPOUT,
    PLACES = 8
};

/* The place of a sublayer's output. */
INLINE int64_t output_place(const sublayer *l) {
    if (l->kind == FEED_FORWARD) return FEED_FORWARD_DROPOUT;
    return l->kind == CROSS_ATTENTION ? CROSS_DROPOUT : SELF_DROPOUT;
}

/* number: that of the sublayer; 0 for the embedding. */
INLINE dropout_rng dropout_at(const group *g, const stack_state *s, int64_t number, int64_t place,
                              float rate) {
    return seed_dropout(g->seed, (number * PLACES + place) * 2 + s->is_decoder, rate);
}

/* Run sublayer i; return its output. */
const float *sublayer_forward(const group *g, const stack_state *s, int64_t i, const float *x);

/* Backward pass: g->grad_x holds the gradient of the output on entry, that of x on return. */
void sublayer_backward(const group *g, const stack_state *s, int64_t i);

#endif
