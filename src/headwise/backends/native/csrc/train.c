/* Forward and backward pass of a batch through the stacks that a model has: loss and all gradients.
 *
 * Sentences are packed without padding. A group of them runs forward and backward before the next
 * starts, so that its activations stay in cache (train_group.h); the weights are packed once
 * (train_weights.c). An encoder whose loss is computed elsewhere has passes of its own
 * (train_encoder.c).
 *
 * Reference: Transformer.decode, or DecoderOnly.decode, with cross_entropy (losses.py); tests/
 * backends/native/test_training.py and test_train_decoder_only.py hold loss and gradients equal to
 * autograd's. */
#include "train_group.h"

/* Positions of each side in a group, as many as were measured to train fastest. Each group draws its
 * own dropout masks, so that builds to be compared are given the same number. */
#ifndef GROUP_ROWS
#ifdef __AMX_BF16__
#define GROUP_ROWS 256
#else
#define GROUP_ROWS 384
#endif
#endif

static const float *embed(const group *g, const stack_state *s) {
    const embedding *e = &s->stack->embedding;
    int64_t size = g->model->d_model;
    float *x = e->norm.weight ? s->embedding_sum : s->embedded;
    for (int64_t n = 0; n < g->sentences; n++)
        for (int64_t row = s->starts[n]; row < s->starts[n + 1]; row++, x += size)
            embed_token(e, s->tokens[row], row - s->starts[n], size, x);
    if (e->norm.weight)
        norm(&e->norm, hidden_shape(g, s), s->embedding_sum, s->embedding_stats, s->embedded);
    dropout_rng rng = dropout_at(g, s, 0, EMBEDDING_DROPOUT, g->model->dropout);
    for (int64_t row = 0; row < s->rows; row++) dropout(&rng, s->embedded + row * size, size);
    return s->embedded;
}

/* grad_x: of what embed returned; changed. */
static void embed_backward(const group *g, const stack_state *s, float *grad_x) {
    const embedding *e = &s->stack->embedding;
    int64_t size = g->model->d_model, beside = size - e->position_width;
    dropout_rng rng = dropout_at(g, s, 0, EMBEDDING_DROPOUT, g->model->dropout);
    for (int64_t row = 0; row < s->rows; row++) dropout(&rng, grad_x + row * size, size);
    if (e->norm.weight)
        norm_backward(&e->norm, hidden_shape(g, s), s->embedding_sum, s->embedding_stats, grad_x,
                      grad_x, 0);
    for (int64_t n = 0; n < g->sentences; n++)
        for (int64_t row = s->starts[n]; row < s->starts[n + 1]; row++, grad_x += size) {
            float *grad_row = e->grad_table + s->tokens[row] * e->width;
            for (int64_t i = 0; i < e->width; i++) grad_row[i] += grad_x[i] * e->scale;
            if (!e->grad_positions) continue;
            float *position = e->grad_positions + (row - s->starts[n]) * e->position_width;
            for (int64_t i = 0; i < e->position_width; i++) position[i] += grad_x[beside + i];
        }
}

const float *stack_forward(const group *g, const stack_state *s) {
    const float *x = embed(g, s);
    for (int64_t i = 0; i < s->stack->num_sublayers; i++) x = sublayer_forward(g, s, i, x);
    if (!s->stack->norm.weight) return x;
    norm(&s->stack->norm, hidden_shape(g, s), x, s->norm_stats, s->top);
    return s->top;
}

/* Output of the last sublayer, before the norm at the end. */
static const float *last_output(const stack_state *s) {
    int64_t count = s->stack->num_sublayers;
    return count ? s->sublayers[count - 1].y : s->embedded;
}

void stack_backward(const group *g, const stack_state *s) {
    if (s->stack->norm.weight)
        norm_backward(&s->stack->norm, hidden_shape(g, s), last_output(s), s->norm_stats, g->grad_x,
                      g->grad_x, 0);
    for (int64_t i = s->stack->num_sublayers; i--;) sublayer_backward(g, s, i);
    embed_backward(g, s, g->grad_x);
}

/* The rows of the first passes, then those of the second. */
static void order_passes(const int64_t *starts, int64_t sentences, int64_t *order) {
    int64_t half = count_positions(starts, 0, sentences) / 2, rows[2] = {0, half}, row = 0;
    for (int64_t n = 0; n < sentences; n++)
        for (int64_t i = starts[n]; i < starts[n + 1]; i++) order[rows[n % 2]++] = row++;
}

/* Forward and backward pass of a group of sentences; returns its loss. */
static batch_loss train_group(const transformer *m, const train_batch *batch,
                              const packed_model *packed, arena a) {
    group g = alloc_activations(m, batch, packed, &a);
    alloc_work(&g, batch, &a);
    int64_t has_encoder = has_stack(&m->encoder), has_decoder = has_stack(&m->decoder);
    const stack_state *last = has_decoder ? &g.decoder : &g.encoder;
    if (g.order) order_passes(last->starts, g.sentences, g.order);
    if (has_encoder) g.encoded = stack_forward(&g, &g.encoder);
    loss_request request = {.output = &m->output,
                            .scores = &packed->output,
                            .scores_backward = packed->output_backward,
                            .hidden = has_decoder ? stack_forward(&g, &g.decoder) : g.encoded,
                            .targets = batch->targets + last->starts[0],
                            .rows = last->rows,
                            .smoothing = batch->smoothing,
                            .grad_hidden = g.grad_x,
                            .consistency = batch->consistency,
                            .order = g.order};
    batch_loss loss = loss_and_gradients(&request, g.scratch);
    if (has_decoder) {
        memset(g.grad_encoded, 0, g.encoder.rows * m->d_model * 4);
        stack_backward(&g, &g.decoder);
        g.grad_x = g.grad_encoded;
    }
    if (has_encoder) stack_backward(&g, &g.encoder);
    end_arena(&a);
    return loss;
}

train_batch group_of(const transformer *m, const train_batch *batch, int64_t first) {
    int64_t passes = batch->consistency.form ? 2 : 1;
    int64_t limit = max(GROUP_ROWS, 2 * m->d_model), last = first + passes;
    const int64_t *sources = batch->source.starts, *targets = batch->decoder_input.starts;
    while (last < batch->sentences && count_positions(sources, first, last + passes) <= limit &&
           count_positions(targets, first, last + passes) <= limit)
        last += passes;
    train_batch part = *batch;
    part.sentences = last - first;
    if (sources) part.source.starts += first;
    if (targets) part.decoder_input.starts += first;
    part.seed = splitmix64(batch->seed + first);
    return part;
}

/* Scratch bytes of forward_backward. */
EXPORT int64_t train_scratch_bytes(const transformer *m, const train_batch *batch) {
    int64_t largest = 0;
    arena weights = {0};
    pack_model(m, &weights);
    for (int64_t n = 0; n < batch->sentences;) {
        arena a = {0};
        train_batch part = group_of(m, batch, n);
        group g = alloc_activations(m, &part, 0, &a);
        alloc_work(&g, &part, &a);
        largest = max(largest, a.used);
        n += part.sentences;
    }
    return weights.used + largest;
}

/* Return the summed loss, accumulate its gradients. memory: train_scratch_bytes, aligned to 64. */
EXPORT batch_loss forward_backward(const transformer *m, const train_batch *batch, void *memory) {
    arena a = {memory, 0};
    packed_model packed = pack_model(m, &a);
    batch_loss sum = {0};
    arena rest = {(char *)memory + a.used, 0};
    for (int64_t n = 0; n < batch->sentences;) {
        train_batch part = group_of(m, batch, n);
        batch_loss loss = train_group(m, &part, &packed, rest);
        sum.total += loss.total;
        sum.divergence += loss.divergence;
        n += part.sentences;
    }
    end_arena(&a);
    return sum;
}
