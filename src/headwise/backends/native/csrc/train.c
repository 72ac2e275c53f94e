/* Forward and backward pass of a batch through the encoder-decoder: loss and all gradients.
 *
 * Reference: Transformer.decode with cross_entropy (losses.py); tests/backends/native/
 * test_training.py holds loss and gradients equal to autograd's.
 *
 * Sentences are packed without padding. A group of them runs forward and backward before the next
 * starts, so that its activations stay in cache. */
#include "train_group.h"

#define GROUP_ROWS 256 /* positions of each side in a group */

/* For Python, which mirrors them in this order. */
EXPORT const int64_t train_struct_bytes[] = {
    sizeof(linear),    sizeof(trainable_norm), sizeof(attention_box), sizeof(block),
    sizeof(embedding), sizeof(train_model),    sizeof(train_batch),
};

static const float *embed(const group *g, const stack *s) {
    const embedding *e = s->embedding;
    int64_t size = g->model->d_model;
    float *x = e->norm.weight ? s->embedding_sum : s->embedded;
    for (int64_t n = 0; n < g->sentences; n++)
        for (int64_t row = s->starts[n]; row < s->starts[n + 1]; row++, x += size) {
            const float *vector = e->table + s->tokens[row] * e->width;
            const float *position = e->positions + (row - s->starts[n]) * size;
            for (int64_t i = 0; i < e->width; i++) x[i] = vector[i] * e->scale + position[i];
            for (int64_t i = e->width; i < size; i++) x[i] = position[i];
        }
    if (e->norm.weight)
        norm(&e->norm, s->embedding_sum, s->rows, size, s->embedding_stats, s->embedded);
    dropout_rng rng = dropout_at(g, s, 0, EMBEDDING, g->model->dropout);
    for (int64_t row = 0; row < s->rows; row++) dropout(&rng, s->embedded + row * size, size);
    return s->embedded;
}

/* grad_x: of what embed returned; changed. */
static void embed_backward(const group *g, const stack *s, float *grad_x) {
    const embedding *e = s->embedding;
    int64_t size = g->model->d_model, beside = size - e->position_width;
    dropout_rng rng = dropout_at(g, s, 0, EMBEDDING, g->model->dropout);
    for (int64_t row = 0; row < s->rows; row++) dropout(&rng, grad_x + row * size, size);
    if (e->norm.weight)
        norm_backward(&e->norm, grad_x, s->embedding_sum, s->rows, size, s->embedding_stats, grad_x,
                      0);
    for (int64_t n = 0; n < g->sentences; n++)
        for (int64_t row = s->starts[n]; row < s->starts[n + 1]; row++, grad_x += size) {
            float *grad_row = e->grad_table + s->tokens[row] * e->width;
            for (int64_t i = 0; i < e->width; i++) grad_row[i] += grad_x[i] * e->scale;
            if (!e->grad_positions) continue;
            float *position = e->grad_positions + (row - s->starts[n]) * e->position_width;
            for (int64_t i = 0; i < e->position_width; i++) position[i] += grad_x[beside + i];
        }
}

/* Return the output of a stack; encoded: what the decoder attends to, NULL for the encoder. */
static const float *stack_forward(const group *g, const stack *s, const float *encoded) {
    const float *x = embed(g, s);
    for (int64_t i = 0; i < s->layers; i++) {
        s->saved[i].x = x;
        x = attention_forward_at(g, s, i, x, 0);
        if (encoded) x = attention_forward_at(g, s, i, x, encoded);
        x = feed_forward_at(g, s, i, x);
    }
    if (!g->model->pre_norm) return x;
    norm(s->norm, x, s->rows, g->model->d_model, s->norm_stats, s->top);
    return s->top;
}

/* Output of the last layer, before the norm at the end of a pre-norm stack. */
static const float *last_output(const stack *s) {
    return s->layers ? s->saved[s->layers - 1].residual.y : s->embedded;
}

/* g->grad_x holds the gradient of the stack's output on entry. */
static void stack_backward(const group *g, const stack *s, const float *encoded) {
    if (g->model->pre_norm)
        norm_backward(s->norm, g->grad_x, last_output(s), s->rows, g->model->d_model, s->norm_stats,
                      g->grad_x, 0);
    for (int64_t i = s->layers; i--;) {
        const saved_layer *l = s->saved + i;
        const float *x = encoded ? l->cross.residual.y : l->self.residual.y;
        feed_forward_backward_at(g, s, i, x);
        if (encoded) attention_backward_at(g, s, i, l->self.residual.y, encoded);
        attention_backward_at(g, s, i, l->x, 0);
    }
    embed_backward(g, s, g->grad_x);
}

/* Forward and backward pass of a group of sentences; returns its loss. */
static double train_group(const train_model *m, const train_batch *batch,
                          const packed_model *packed, arena a) {
    group g = alloc_group(m, batch, packed, &a);
    const float *encoded = stack_forward(&g, &g.encoder, 0);
    const float *hidden = stack_forward(&g, &g.decoder, encoded);
    double loss = loss_and_gradients(&m->output, &packed->output, packed->output_backward, hidden,
                                     g.decoder.rows, batch->target_out + batch->target_starts[0],
                                     m->smoothing, g.grad_x, g.scratch);
    memset(g.grad_encoded, 0, g.encoder.rows * m->d_model * 4);
    stack_backward(&g, &g.decoder, encoded);
    g.grad_x = g.grad_encoded;
    stack_backward(&g, &g.encoder, 0);
    end_arena(&a);
    return loss;
}

/* The group of sentences from `first` on: as many as stay in cache. */
static train_batch group_of(const train_model *m, const train_batch *batch, int64_t first) {
    int64_t limit = max(GROUP_ROWS, 2 * m->d_model), last = first + 1;
    const int64_t *sources = batch->source_starts, *targets = batch->target_starts;
    while (last < batch->sentences && sources[last + 1] - sources[first] <= limit &&
           targets[last + 1] - targets[first] <= limit)
        last++;
    train_batch part = *batch;
    part.sentences = last - first;
    part.source_starts += first;
    part.target_starts += first;
    part.seed = splitmix64(batch->seed + first);
    return part;
}

/* Scratch bytes of forward_backward. */
EXPORT int64_t train_scratch_bytes(const train_model *m, const train_batch *batch) {
    int64_t largest = 0;
    arena weights = {0};
    pack_model(m, &weights);
    for (int64_t n = 0; n < batch->sentences;) {
        arena a = {0};
        train_batch part = group_of(m, batch, n);
        alloc_group(m, &part, 0, &a);
        largest = max(largest, a.used);
        n += part.sentences;
    }
    return weights.used + largest;
}

/* Return the summed loss, accumulate its gradients. memory: train_scratch_bytes, aligned to 64. */
EXPORT double forward_backward(const train_model *m, const train_batch *batch, void *memory) {
    arena a = {memory, 0};
    packed_model packed = pack_model(m, &a);
    double loss = 0;
    arena rest = {(char *)memory + a.used, 0};
    for (int64_t n = 0; n < batch->sentences;) {
        train_batch part = group_of(m, batch, n);
        loss += train_group(m, &part, &packed, rest);
        n += part.sentences;
    }
    end_arena(&a);
    return loss;
}
