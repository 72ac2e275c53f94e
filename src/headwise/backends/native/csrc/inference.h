/* What encoder.c, prefill.c and decoder.c share: requests from Python, scratch memory, steps of a sublayer.
 *
 * The structs down to topk_request mirror ctypes_structs.py.
 *
 * Sizes: D model width, H heads, K and C channels of a head's key and value, T source positions
 * of all sentences together, S those of one, N sentences, B rows (hypotheses). */
#ifndef HEADWISE_INFERENCE_H
#define HEADWISE_INFERENCE_H

#include "arena.h"
#include "attention.h"
#include "model.h"
#include "topk.h"

/* Keys and values of the sources, for each cross-attention sublayer of the decoder and each
 * sentence: keys transposed, [H, K, pad_to_lanes(S)], and values [H, S, C]. */
typedef struct {
    const int64_t *starts;      /* [N + 1] in positions */
    const int64_t *key_offsets; /* [N] where the keys of a sentence begin, in numbers */
    char *const *keys;          /* [cross-attention sublayers] */
    char *const *values;        /* [cross-attention sublayers] */
} cross_kv;

/* Sentences, packed without padding. */
typedef struct {
    int64_t sentences;
    const int64_t *tokens, *positions; /* [T]: each token, and its position in its sentence */
    const cross_kv *cross;             /* what is written; of an encoder alone only its starts are */
    float *encoded;                    /* [T, D]: the output of the encoder; NULL: not wanted */
    int64_t longest;                   /* S of the longest */
} encode_request;

/* Tokens of B texts before the first step, packed without padding. In the KV cache the texts end
 * together: a shorter one begins later. */
typedef struct {
    const int64_t *tokens, *starts; /* [positions of all texts], [B + 1] */
    int64_t rows, end;              /* B; the position in the cache behind the last tokens */
    char *const *kv_blocks;         /* [end]: what is written, as in a decode_request */
} prefill_request;

/* A token for each of B rows, and the KV cache of the positions before it. */
typedef struct {
    const int64_t *tokens; /* [B] */
    int64_t rows, position;
    char *const *kv_blocks;   /* [position + steps]: the KV cache of each position, [causal
                                 self-attention sublayers, rows at that step, H K + H C] */
    const int64_t *rows_at;   /* [position + steps]: rows at each step */
    const int32_t *ancestors; /* [B, ld]: the row that each row descends from at each step */
    int64_t ld;
    const cross_kv *cross;    /* NULL in a decoder alone */
    const int64_t *source_of; /* [B] */
    const int64_t *padding;   /* [B] positions before the first token of each row; NULL: none */
    int64_t longest;          /* positions of sources and output, those of this request included */
} decode_request;

/* Return the top-k instead of all scores: the best tokens [B, count] and their log-probabilities;
 * with several steps the best token of each [max_steps, B], until `min_ended` rows have written
 * `end`. */
typedef struct {
    int64_t count, num_forbidden;
    const int64_t *forbidden;
    int64_t *tokens;
    int64_t max_steps, end, min_ended;
    int64_t unscored; /* leave out the softmax: log-probabilities are NaN, or -inf */
} topk_request;

/* Write the cross-attention cache of sentences; scratch: encode_scratch_floats. */
void encode(const transformer *m, const encode_request *r, float *scratch);
int64_t encode_scratch_floats(const transformer *m, int64_t longest);

/* Write keys and values of texts to the KV cache, the same bits as by steps; scratch:
 * step_scratch_floats of prefill_rows rows. */
void prefill(const transformer *m, const prefill_request *r, float *scratch);
int64_t prefill_rows(const prefill_request *r);

/* Decode one token in each row: the scores [B, V] of the next one, or with `best` their top-k, for
 * which the scores never stand in memory all at once. With max_steps of more than 1 it goes on
 * greedily, feeding each best token back. Returns the number of steps taken, 0 if a score is NaN or
 * infinite. scratch: step_scratch_floats. */
int64_t decode_steps(const transformer *m, const decode_request *r, float *scores,
                     const topk_request *best, float *scratch);
int64_t step_scratch_floats(const transformer *m, int64_t rows, int64_t longest);

/* Scratch memory of some rows on their way through a stack. */
typedef struct {
    const transformer *model;
    int64_t rows;
    float *x;                          /* [rows, D]: what passes from sublayer to sublayer */
    float *input, *result;             /* [rows, D]: x normalized (pre-norm); a sublayer's output */
    float *qkv, *heads, *hidden;       /* [rows, 2 H K + H C], [rows, H C], [rows, F] */
    float *weights, *keys;             /* of one head: attention weights, transposed keys */
    float *scores;                     /* [rows, VOCAB_BLOCK] */
    const void **kv_rows;
    topk_state *states;
    void *matmul_scratch;
} buffers;

/* longest: positions of the longest source or output. */
buffers alloc_buffers(const transformer *m, int64_t rows, int64_t longest, arena *a);

/* Activations are float32; the KV cache has the precision of the weights. */
INLINE attention_shape activations_shape(const transformer *m) {
    return (attention_shape){m->heads, m->d_k, m->d_v, 0};
}
INLINE attention_shape cache_shape(const transformer *m) {
    return (attention_shape){m->heads, m->d_k, m->d_v, m->terms == BF16};
}

/* y = norm(x), all rows; y may be x. */
void normalize_rows(const layer_norm *n, const float *x, int64_t rows, int64_t size, float *y);

/* b->x of a row: the normalized embedding of a token. */
void embed(const embedding *e, int64_t token, int64_t position, int64_t row, buffers *b);

/* Input of a sublayer: x, normalized first in pre-norm models. */
const float *sublayer_input(const layer_norm *n, buffers *b);

/* x += out W + b, normalized afterwards in post-norm models. */
void project_and_add(const layer_norm *n, const matrix *output, const float *out, buffers *b);

void feed_forward(const sublayer *l, buffers *b);

#endif
