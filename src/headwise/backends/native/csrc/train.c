/* Forward and backward pass of a batch through the encoder-decoder: loss and all gradients.
 *
 * Reference: Transformer.decode with cross_entropy (losses.py); tests/backends/native/
 * test_training.py holds loss and gradients equal to autograd's.
 *
 * Sentences are packed without padding. A group of them runs forward and backward before the next
 * starts, so that its activations stay in cache. Sizes: D model width, H heads, K and C channels
 * of a head's key and value, F inner width, R rows: positions of all sentences of a group. */
#include "train.h"

#define GROUP_ROWS 256 /* positions of each side in a group */

/* Saved activations of an attention sublayer; qkv holds the queries alone in cross-attention. */
typedef struct {
    float *qkv, *kv, *weights, *heads, *sum, *stats, *y;
} saved_attention;

typedef struct {
    const float *x;
    saved_attention self, cross;
    float *hidden, *sum, *stats, *y;
} saved_layer;

/* Buffers of a group: gradients, scratch, and activations saved for the backward pass. */
typedef struct {
    float *out, *grad_x, *grad_out, *grad_hidden, *grad_qkv, *grad_heads, *grad_kv, *grad_encoded;
    float *packed_x, *scratch;
    saved_layer *encoder, *decoder;
    const float *encoded, *embedded;
} workspace;

/* For Python, which mirrors them in this order. */
EXPORT const int64_t train_struct_bytes[] = {
    sizeof(linear),    sizeof(trainable_norm), sizeof(attention_box), sizeof(block),
    sizeof(embedding), sizeof(train_model),    sizeof(train_batch),
};

INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Positions of some sentences; the first need not begin at 0. */
static int64_t count_positions(const int64_t *starts, int64_t sentences) {
    return starts[sentences] - starts[0];
}

static int64_t longest_sentence(const int64_t *starts, int64_t sentences) {
    int64_t longest = 1;
    for (int64_t n = 0; n < sentences; n++) longest = max(longest, starts[n + 1] - starts[n]);
    return longest;
}

static int64_t count_attention_weights(const train_model *m, const train_batch *batch,
                                       const int64_t *q_starts, const int64_t *k_starts) {
    int64_t size = 0;
    for (int64_t n = 0; n < batch->sentences; n++)
        size += (q_starts[n + 1] - q_starts[n]) * pad_to_lanes(k_starts[n + 1] - k_starts[n]);
    return size * m->heads;
}

static saved_attention alloc_attention(const train_model *m, const train_batch *batch,
                                       const int64_t *q_starts, const int64_t *k_starts, arena *a) {
    saved_attention s;
    int64_t rows = count_positions(q_starts, batch->sentences), is_self = q_starts == k_starts;
    int64_t keys = m->heads * m->d_k, values = m->heads * m->d_v;
    s.qkv = alloc_floats(a, rows * (is_self ? 2 * keys + values : keys));
    s.kv = is_self ? 0
                   : alloc_floats(a, count_positions(k_starts, batch->sentences) * (keys + values));
    s.weights = alloc_floats(a, count_attention_weights(m, batch, q_starts, k_starts));
    s.heads = alloc_floats(a, rows * values);
    s.sum = alloc_floats(a, rows * m->d_model);
    s.stats = alloc_floats(a, rows * 2);
    s.y = alloc_floats(a, rows * m->d_model);
    return s;
}

static saved_layer *alloc_layers(const train_model *m, const train_batch *batch, int64_t layers,
                                 int64_t is_decoder, arena *a) {
    const int64_t *starts = is_decoder ? batch->target_starts : batch->source_starts;
    int64_t rows = count_positions(starts, batch->sentences);
    saved_layer *saved = alloc(a, layers * sizeof(saved_layer));
    for (int64_t i = 0; i < layers; i++) {
        saved_layer s = {0};
        s.self = alloc_attention(m, batch, starts, starts, a);
        if (is_decoder) s.cross = alloc_attention(m, batch, starts, batch->source_starts, a);
        s.hidden = alloc_floats(a, rows * m->d_ff);
        s.sum = alloc_floats(a, rows * m->d_model);
        s.stats = alloc_floats(a, rows * 2);
        s.y = alloc_floats(a, rows * m->d_model);
        if (a->base) saved[i] = s;
    }
    return saved;
}

static workspace alloc_workspace(const train_model *m, const train_batch *batch, arena *a) {
    workspace ws;
    int64_t sources = count_positions(batch->source_starts, batch->sentences);
    int64_t targets = count_positions(batch->target_starts, batch->sentences);
    int64_t rows = max(sources, targets), keys = m->heads * m->d_k;
    int64_t values = m->heads * m->d_v, qkv = 2 * keys + values;
    int64_t longest = max(longest_sentence(batch->source_starts, batch->sentences),
                          longest_sentence(batch->target_starts, batch->sentences));
    int64_t widest = max(max(m->d_model, m->d_ff), qkv);
    ws.out = alloc_floats(a, rows * m->d_model);
    ws.grad_x = alloc_floats(a, rows * m->d_model);
    ws.grad_out = alloc_floats(a, rows * m->d_model);
    ws.grad_hidden = alloc_floats(a, rows * m->d_ff);
    ws.grad_qkv = alloc_floats(a, rows * qkv);
    ws.grad_heads = alloc_floats(a, rows * values);
    ws.grad_kv = alloc_floats(a, sources * (keys + values));
    ws.grad_encoded = alloc_floats(a, sources * m->d_model);
    ws.packed_x = alloc(a, packed_bytes(rows, widest, m->terms));
    int64_t scratch = max(matmul_scratch_bytes(widest, rows), matmul_scratch_bytes(rows, widest));
    scratch = max(scratch, 4 * loss_scratch_floats(m->d_model, m->output.out, targets, m->terms));
    ws.scratch = alloc(a, max(scratch, 4 * attention_scratch_floats(longest, m->d_k, m->d_v)));
    ws.encoder = alloc_layers(m, batch, m->encoder_layers, 0, a);
    ws.decoder = alloc_layers(m, batch, m->decoder_layers, 1, a);
    ws.encoded = alloc_floats(a, sources * m->d_model);
    ws.embedded = alloc_floats(a, targets * m->d_model);
    return ws;
}

/* Dropout state of a sublayer: each has a stream of its own. */
static dropout_rng dropout_at(const train_model *m, const train_batch *batch, int64_t is_decoder,
                              int64_t layer, int64_t box) {
    return seed_dropout(batch->seed, (layer * 4 + box) * 2 + is_decoder, m->dropout);
}

static void embed(const train_model *m, const train_batch *batch, const embedding *e,
                  const int64_t *tokens, const int64_t *starts, int64_t is_decoder, float *x) {
    dropout_rng rng = dropout_at(m, batch, is_decoder, 0, 0);
    for (int64_t n = 0; n < batch->sentences; n++)
        for (int64_t row = starts[n]; row < starts[n + 1]; row++, x += m->d_model) {
            const float *vector = e->table + tokens[row] * m->d_model;
            const float *position = e->positions + (row - starts[n]) * m->d_model;
            for (int64_t i = 0; i < m->d_model; i++) x[i] = vector[i] * e->scale + position[i];
            dropout(&rng, x, m->d_model);
        }
}

static void embed_backward(const train_model *m, const train_batch *batch, const embedding *e,
                           const int64_t *tokens, const int64_t *starts, int64_t is_decoder,
                           float *grad_x) {
    dropout_rng rng = dropout_at(m, batch, is_decoder, 0, 0);
    for (int64_t row = starts[0]; row < starts[batch->sentences]; row++, grad_x += m->d_model) {
        float *grad_row = e->grad_table + tokens[row] * m->d_model;
        dropout(&rng, grad_x, m->d_model);
        for (int64_t i = 0; i < m->d_model; i++) grad_row[i] += grad_x[i] * e->scale;
    }
}

INLINE head head_of(const train_model *m, const saved_attention *s, int64_t is_self, int64_t n,
                    int64_t h, const int64_t *q_starts, const int64_t *k_starts, int64_t causal) {
    int64_t keys = m->heads * m->d_k, values = m->heads * m->d_v;
    int64_t ldq = is_self ? 2 * keys + values : keys, ldk = is_self ? ldq : keys + values;
    const float *kv = is_self ? s->qkv + keys : s->kv;
    kv += (k_starts[n] - k_starts[0]) * ldk;
    return (head){.queries = s->qkv + (q_starts[n] - q_starts[0]) * ldq + h * m->d_k,
                  .keys = kv + h * m->d_k,
                  .values = kv + keys + h * m->d_v,
                  .ldq = ldq,
                  .ldk = ldk,
                  .ldv = ldk,
                  .num_queries = q_starts[n + 1] - q_starts[n],
                  .num_keys = k_starts[n + 1] - k_starts[n],
                  .d_k = m->d_k,
                  .d_v = m->d_v,
                  .causal = causal};
}

/* x gives the queries, `source` keys and values (x itself in self-attention). */
static void attention_block_forward(const train_model *m, const train_batch *batch,
                                    const attention_box *b, const packed_attention *packed,
                                    saved_attention *s, const workspace *ws, const float *x,
                                    const float *source, const int64_t *q_starts,
                                    const int64_t *k_starts, int64_t causal, dropout_rng rng) {
    int64_t is_self = q_starts == k_starts, rows = count_positions(q_starts, batch->sentences);
    int64_t values = m->heads * m->d_v;
    matmul(&packed->qkv.forward, x, m->d_model, rows, s->qkv, packed->qkv.forward.out, OVERWRITE,
           ws->scratch);
    if (!is_self)
        matmul(&packed->kv.forward, source, m->d_model, count_positions(k_starts, batch->sentences),
               s->kv, packed->kv.forward.out, OVERWRITE, ws->scratch);
    float *weights = s->weights;
    for (int64_t n = 0; n < batch->sentences; n++)
        for (int64_t h = 0; h < m->heads; h++) {
            head each = head_of(m, s, is_self, n, h, q_starts, k_starts, causal);
            attention_forward(&each, weights,
                              s->heads + (q_starts[n] - q_starts[0]) * values + h * m->d_v, values,
                              ws->scratch);
            weights += each.num_queries * pad_to_lanes(each.num_keys);
        }
    matmul(&packed->output.forward, s->heads, values, rows, ws->out, m->d_model, OVERWRITE,
           ws->scratch);
    add_and_norm(&b->norm, x, ws->out, rows, m->d_model, rng, s->sum, s->stats, s->y);
}

static void layer_forward(const train_model *m, const train_batch *batch, const block *b,
                          const packed_block *packed, saved_layer *s, const workspace *ws,
                          const float *x, int64_t number, int64_t is_decoder) {
    const int64_t *starts = is_decoder ? batch->target_starts : batch->source_starts;
    int64_t rows = count_positions(starts, batch->sentences);
    s->x = x;
    attention_block_forward(m, batch, &b->self, &packed->self, &s->self, ws, x, x, starts, starts,
                            is_decoder, dropout_at(m, batch, is_decoder, number, 1));
    const float *y = s->self.y;
    if (is_decoder) {
        attention_block_forward(m, batch, &b->cross, &packed->cross, &s->cross, ws, y, ws->encoded,
                                starts, batch->source_starts, 0,
                                dropout_at(m, batch, is_decoder, number, 2));
        y = s->cross.y;
    }
    matmul(&packed->expand.forward, y, m->d_model, rows, s->hidden, m->d_ff,
           (matmul_opts){.activation = RELU}, ws->scratch);
    matmul(&packed->project.forward, s->hidden, m->d_ff, rows, ws->out, m->d_model, OVERWRITE,
           ws->scratch);
    add_and_norm(&b->norm, y, ws->out, rows, m->d_model,
                 dropout_at(m, batch, is_decoder, number, 3), s->sum, s->stats, s->y);
}

/* Gradients of matrices that were applied to x [rows, in] as one, and of x. */
static void linear_backward(const linear *const boxes[], int64_t count, const matrix *back,
                            const float *x, int64_t rows, const float *grad_y, float *grad_x,
                            matmul_opts opts, const workspace *ws) {
    int64_t in = boxes[0]->in, ld = back->in;
    matmul(back, grad_y, ld, rows, grad_x, in, opts, ws->scratch);
    matrix packed_x = {.in = rows, .out = in, .terms = back->terms, .weight = ws->packed_x};
    pack_matrix(x, in, rows, in, back->terms, ws->packed_x);
    for (int64_t i = 0; i < count; grad_y += boxes[i++]->out) {
        matmul(&packed_x, grad_y, ld, boxes[i]->out, boxes[i]->grad_weight, in,
               TRANSPOSED_ACCUMULATE, ws->scratch);
        if (boxes[i]->grad_bias)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t j = 0; j < boxes[i]->out; j++)
                    boxes[i]->grad_bias[j] += grad_y[row * ld + j];
    }
}

/* grad_x holds the gradient of the output on entry, that of x on return. */
static void attention_block_backward(const train_model *m, const train_batch *batch,
                                     const attention_box *b, const packed_attention *packed,
                                     const saved_attention *s, const workspace *ws, const float *x,
                                     const float *source, const int64_t *q_starts,
                                     const int64_t *k_starts, int64_t causal, dropout_rng rng) {
    int64_t is_self = q_starts == k_starts, rows = count_positions(q_starts, batch->sentences);
    int64_t keys = m->heads * m->d_k, values = m->heads * m->d_v;
    const linear *const qkv[] = {&b->queries, &b->keys, &b->values};
    const linear *const output[] = {&b->output};
    add_and_norm_backward(&b->norm, ws->grad_x, rows, m->d_model, rng, s->sum, s->stats, ws->grad_x,
                          ws->grad_out);
    linear_backward(output, 1, &packed->output.backward, s->heads, rows, ws->grad_out,
                    ws->grad_heads, OVERWRITE, ws);
    const float *weights = s->weights;
    for (int64_t n = 0; n < batch->sentences; n++)
        for (int64_t h = 0; h < m->heads; h++) {
            head each = head_of(m, s, is_self, n, h, q_starts, k_starts, causal);
            float *grad_kv = is_self ? ws->grad_qkv + keys : ws->grad_kv;
            int64_t row = q_starts[n] - q_starts[0];
            grad_kv += (k_starts[n] - k_starts[0]) * each.ldk;
            attention_backward(&each, weights, ws->grad_heads + row * values + h * m->d_v, values,
                               ws->grad_qkv + row * each.ldq + h * m->d_k, grad_kv + h * m->d_k,
                               grad_kv + keys + h * m->d_v, ws->scratch);
            weights += each.num_queries * pad_to_lanes(each.num_keys);
        }
    linear_backward(qkv, is_self ? 3 : 1, &packed->qkv.backward, x, rows, ws->grad_qkv, ws->grad_x,
                    ACCUMULATE, ws);
    if (!is_self)
        linear_backward(qkv + 1, 2, &packed->kv.backward, source,
                        count_positions(k_starts, batch->sentences), ws->grad_kv, ws->grad_encoded,
                        ACCUMULATE, ws);
}

static void layer_backward(const train_model *m, const train_batch *batch, const block *b,
                           const packed_block *packed, const saved_layer *s, const workspace *ws,
                           int64_t number, int64_t is_decoder) {
    const int64_t *starts = is_decoder ? batch->target_starts : batch->source_starts;
    int64_t rows = count_positions(starts, batch->sentences);
    const float *y = is_decoder ? s->cross.y : s->self.y;
    const linear *const expand[] = {&b->expand}, *const project[] = {&b->project};
    add_and_norm_backward(&b->norm, ws->grad_x, rows, m->d_model,
                          dropout_at(m, batch, is_decoder, number, 3), s->sum, s->stats, ws->grad_x,
                          ws->grad_out);
    linear_backward(project, 1, &packed->project.backward, s->hidden, rows, ws->grad_out,
                    ws->grad_hidden, OVERWRITE, ws);
    for (int64_t i = 0; i < rows * m->d_ff; i++)
        ws->grad_hidden[i] = s->hidden[i] > 0 ? ws->grad_hidden[i] : 0;
    linear_backward(expand, 1, &packed->expand.backward, y, rows, ws->grad_hidden, ws->grad_x,
                    ACCUMULATE, ws);
    if (is_decoder)
        attention_block_backward(m, batch, &b->cross, &packed->cross, &s->cross, ws, s->self.y,
                                 ws->encoded, starts, batch->source_starts, 0,
                                 dropout_at(m, batch, is_decoder, number, 2));
    attention_block_backward(m, batch, &b->self, &packed->self, &s->self, ws, s->x, s->x, starts,
                             starts, is_decoder, dropout_at(m, batch, is_decoder, number, 1));
}

/* Forward and backward pass of a group of sentences; returns its loss. */
static double train_group(const train_model *m, const train_batch *batch,
                          const packed_model *packed, arena a) {
    workspace ws = alloc_workspace(m, batch, &a);
    int64_t sources = count_positions(batch->source_starts, batch->sentences);
    int64_t targets = count_positions(batch->target_starts, batch->sentences);
    const float *x = ws.encoded;
    embed(m, batch, &m->source_embedding, batch->source, batch->source_starts, 0, (float *)x);
    for (int64_t i = 0; i < m->encoder_layers; i++) {
        layer_forward(m, batch, m->encoder + i, packed->encoder + i, ws.encoder + i, &ws, x, i + 1,
                      0);
        x = ws.encoder[i].y;
    }
    ws.encoded = x;
    x = ws.embedded;
    embed(m, batch, &m->target_embedding, batch->target_in, batch->target_starts, 1, (float *)x);
    for (int64_t i = 0; i < m->decoder_layers; i++) {
        layer_forward(m, batch, m->decoder + i, packed->decoder + i, ws.decoder + i, &ws, x, i + 1,
                      1);
        x = ws.decoder[i].y;
    }
    double loss = loss_and_gradients(&m->output, &packed->output, packed->output_backward, x,
                                     targets, batch->target_out + batch->target_starts[0],
                                     m->smoothing, ws.grad_x, ws.scratch);
    memset(ws.grad_encoded, 0, sources * m->d_model * 4);
    for (int64_t i = m->decoder_layers; i--;)
        layer_backward(m, batch, m->decoder + i, packed->decoder + i, ws.decoder + i, &ws, i + 1,
                       1);
    embed_backward(m, batch, &m->target_embedding, batch->target_in, batch->target_starts, 1,
                   ws.grad_x);
    ws.grad_x = ws.grad_encoded;
    for (int64_t i = m->encoder_layers; i--;)
        layer_backward(m, batch, m->encoder + i, packed->encoder + i, ws.encoder + i, &ws, i + 1,
                       0);
    embed_backward(m, batch, &m->source_embedding, batch->source, batch->source_starts, 0,
                   ws.grad_x);
    return loss;
}

/* The group of sentences from `first` on: as many as stay in cache. */
static train_batch group_of(const train_model *m, const train_batch *batch, int64_t first) {
    int64_t limit = max(GROUP_ROWS, 2 * m->d_model), last = first + 1;
    const int64_t *sources = batch->source_starts, *targets = batch->target_starts;
    while (last < batch->sentences && sources[last + 1] - sources[first] <= limit &&
           targets[last + 1] - targets[first] <= limit)
        last++;
    train_batch group = *batch;
    group.sentences = last - first;
    group.source_starts += first;
    group.target_starts += first;
    group.seed = splitmix64(batch->seed + first);
    return group;
}

/* Scratch bytes of forward_backward. */
EXPORT int64_t train_scratch_bytes(const train_model *m, const train_batch *batch) {
    int64_t largest = 0;
    arena weights = {0};
    pack_model(m, &weights);
    for (int64_t n = 0; n < batch->sentences;) {
        arena a = {0};
        train_batch group = group_of(m, batch, n);
        alloc_workspace(m, &group, &a);
        largest = max(largest, a.used);
        n += group.sentences;
    }
    return weights.used + largest;
}

/* Return the summed loss, accumulate its gradients. memory: train_scratch_bytes, aligned to 64. */
EXPORT double forward_backward(const train_model *m, const train_batch *batch, void *memory) {
    arena a = {memory, 0};
    packed_model packed = pack_model(m, &a);
    double loss = 0;
    for (int64_t n = 0; n < batch->sentences;) {
        train_batch group = group_of(m, batch, n);
        loss += train_group(m, &group, &packed, a);
        n += group.sentences;
    }
    return loss;
}
