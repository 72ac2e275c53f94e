/* One description of a Transformer, for training and for inference: its sizes, and for each stack
 * an embedding, a table of sublayers in the order in which they run, and a norm at the end.
 *
 * An encoder-decoder has both stacks. An encoder without a decoder (BERT) and a decoder without an
 * encoder (GPT), whose table has no cross-attention, are the same structs.
 *
 * Training reads the linears, packs them for each batch, and accumulates gradients. Inference reads
 * matrices that were packed ahead: its linears and gradients are zeros.
 *
 * The structs mirror backends/native/ctypes_structs.py; weights.py (inference) and gradients.py
 * (training) fill them, struct_sizes.c reports their sizes. Reference: model/transformer.py,
 * encoder_only.py and decoder_only.py.
 *
 * Sizes: D model width, H heads, K and C channels of a head's key and value, F inner width of
 * feed-forward, V vocabulary, E width of an embedding. */
#ifndef HEADWISE_MODEL_H
#define HEADWISE_MODEL_H

#include "kernels.h"

/* y = x W + b */
typedef struct {
    const float *weight, *bias;     /* [out, in]; [out] or NULL */
    float *grad_weight, *grad_bias; /* gradients, accumulated */
    int64_t in, out;
} linear;

typedef struct {
    const float *weight, *bias;     /* [D]; NULL: the identity */
    float *grad_weight, *grad_bias; /* gradients, accumulated */
    float eps;
} layer_norm;

/* The matrices of a sublayer, packed for matmul. Linears that are applied to the same vectors are
 * one matrix. */
typedef struct {
    matrix qkv;    /* queries, keys, values [H K, H K, H C]; in cross-attention queries alone */
    matrix kv;     /* cross-attention: keys and values of the encoder's output */
    matrix output; /* attention: [H C] to [D] */
    matrix expand, project; /* feed-forward */
} packed_sublayer;

enum { SELF_ATTENTION, CAUSAL_SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD };

/* Attention or feed-forward with its residual connection and its norm. */
typedef struct {
    int64_t kind;
    linear queries, keys, values, output; /* attention */
    linear expand, project;               /* feed-forward */
    layer_norm norm;                      /* of the sum (post-norm) or of the input (pre-norm) */
    packed_sublayer packed;               /* inference */
} sublayer;

typedef struct {
    const float *table; /* [V, E]; NULL: the model has no such stack */
    float *grad_table;
    const float *positions; /* [num_positions, D]; zeros beside which an embedding stands */
    float *grad_positions;  /* [num_positions, position_width], the last channels; NULL: fixed */
    int64_t num_positions, width, position_width; /* width: E */
    float scale;
    layer_norm norm; /* without weights: none */
} embedding;

typedef struct {
    embedding embedding;
    int64_t num_sublayers;
    const sublayer *sublayers;
    const float *rotations; /* of rotary positions (rotary.h), as many as the embedding has; or NULL */
    layer_norm norm;        /* of the last sublayer's output; without weights: none */
} stack;

typedef struct {
    int64_t d_model, heads, d_k, d_v, d_ff;
    int64_t pre_norm, activation;
    int64_t terms;  /* number format of training, and of the KV cache */
    int64_t window; /* of causal attention: keys per query, its own included; 0: all */
    float dropout, attention_dropout, feed_forward_dropout;
    stack encoder, decoder;
    linear output; /* from the last stack's output to scores [V]; none in an encoder alone */
    matrix packed_output;
} transformer;

INLINE int64_t has_stack(const stack *s) { return s->embedding.table != 0; }

/* The first key to which causal attention lets position q attend. */
INLINE int64_t first_key(const transformer *m, int64_t q) {
    return m->window && q >= m->window ? q - m->window + 1 : 0;
}

/* Widths of the queries, or keys, and of the values of all heads. */
INLINE int64_t keys_width(const transformer *m) { return m->heads * m->d_k; }
INLINE int64_t values_width(const transformer *m) { return m->heads * m->d_v; }

/* x [D] = the embedding of a token at a position. */
INLINE void embed_token(const embedding *e, int64_t token, int64_t position, int64_t d_model,
                        float *x) {
    const float *vector = e->table + token * e->width;
    const float *encoding = e->positions + position * d_model;
    for (int64_t i = 0; i < e->width; i++) x[i] = vector[i] * e->scale + encoding[i];
    for (int64_t i = e->width; i < d_model; i++) x[i] = encoding[i];
}

/* y [D] = (x - mean) inv_std weight + bias; y may be x. */
INLINE void scale_normalized(const layer_norm *n, const float *x, int64_t size, float mean,
                             float inv_std, float *y) {
    for (int64_t i = 0; i < size; i += LANES) {
        vec centered = (load_partial(x + i, size - i) - mean) * inv_std;
        vec each = centered * load_partial(n->weight + i, size - i) +
                   load_partial(n->bias + i, size - i);
        store_partial(y + i, each, size - i);
    }
}

#endif
