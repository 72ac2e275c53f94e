/* The memory of a group of sentences: activations saved for the backward pass, gradients, scratch.
 *
 * Each array is a piece of an arena (arena.h); they are laid out with or without memory.
 * Reference: what autograd saves; tests/backends/native/test_training.py. */
#include "train_group.h"

static int64_t longest_sentence(const int64_t *starts, int64_t sentences) {
    int64_t longest = 1;
    for (int64_t n = 0; n < sentences; n++)
        longest = max(longest, count_positions(starts, n, n + 1));
    return longest;
}

static int64_t count_attention_weights(const group *g, const stack_state *q, const stack_state *k) {
    int64_t size = 0;
    for (int64_t n = 0; n < g->sentences; n++)
        size += count_positions(q->starts, n, n + 1) *
                pad_to_lanes(count_positions(k->starts, n, n + 1));
    return size * g->model->heads;
}

/* The number of sublayer i among those that apply dropout at the same places. */
static int64_t number_of(const stack *s, int64_t i) {
    int64_t number = 0;
    for (int64_t j = 0; j <= i; j++)
        number += output_place(s->sublayers + j) == output_place(s->sublayers + i);
    return number;
}

static void alloc_attention(const group *g, const stack_state *s, sublayer_state *l, arena *a) {
    const transformer *m = g->model;
    int64_t is_cross = l->sublayer->kind == CROSS_ATTENTION;
    int64_t keys = keys_width(m), values = values_width(m);
    const stack_state *attended = is_cross ? &g->encoder : s;
    l->qkv = alloc_floats(a, s->rows * (is_cross ? keys : 2 * keys + values));
    if (is_cross) l->kv = alloc_floats(a, attended->rows * (keys + values));
    l->weights = alloc_floats(a, count_attention_weights(g, s, attended));
    l->heads = alloc_floats(a, s->rows * values);
}

static void alloc_feed_forward(const group *g, const stack_state *s, sublayer_state *l, arena *a) {
    int64_t size = s->rows * g->model->d_ff;
    if (g->model->activation != RELU) l->pre_activation = alloc_floats(a, size);
    l->hidden = alloc_floats(a, size);
}

static sublayer_state alloc_sublayer(const group *g, const stack_state *s, int64_t i,
                                     const packed_weights *packed, arena *a) {
    int64_t size = s->rows * g->model->d_model;
    sublayer_state l = {.sublayer = s->stack->sublayers + i, .packed = packed};
    l.number = number_of(s->stack, i);
    if (l.sublayer->kind == FEED_FORWARD)
        alloc_feed_forward(g, s, &l, a);
    else
        alloc_attention(g, s, &l, a);
    if (g->model->pre_norm)
        l.input = alloc_floats(a, size);
    else
        l.norm.x = alloc_floats(a, size);
    l.norm.stats = alloc_floats(a, s->rows * 2);
    l.y = alloc_floats(a, size);
    return l;
}

static void alloc_stack(const group *g, stack_state *s, const packed_weights *packed, arena *a) {
    int64_t size = s->rows * g->model->d_model;
    if (s->stack->embedding.norm.weight) {
        s->embedding_sum = alloc_floats(a, size);
        s->embedding_stats = alloc_floats(a, s->rows * 2);
    }
    s->embedded = alloc_floats(a, size);
    s->sublayers = alloc(a, s->stack->num_sublayers * sizeof(sublayer_state));
    for (int64_t i = 0; i < s->stack->num_sublayers; i++) {
        sublayer_state each = alloc_sublayer(g, s, i, packed ? packed + i : 0, a);
        if (a->base) s->sublayers[i] = each;
    }
    if (s->stack->norm.weight) {
        s->norm_stats = alloc_floats(a, s->rows * 2);
        s->top = alloc_floats(a, size);
    }
}

static stack_state begin_stack(const stack *s, ragged_tokens given, int64_t sentences,
                               int64_t is_decoder) {
    return (stack_state){.stack = s,
                         .tokens = given.tokens,
                         .starts = given.starts,
                         .rows = count_positions(given.starts, 0, sentences),
                         .is_decoder = is_decoder};
}

group alloc_activations(const transformer *m, const train_batch *b, const packed_model *packed,
                        arena *a) {
    group g = {.model = m, .sentences = b->sentences, .seed = b->seed};
    g.encoder = begin_stack(&m->encoder, b->source, b->sentences, 0);
    g.decoder = begin_stack(&m->decoder, b->decoder_input, b->sentences, 1);
    if (has_stack(&m->encoder)) alloc_stack(&g, &g.encoder, packed ? packed->encoder : 0, a);
    if (has_stack(&m->decoder)) alloc_stack(&g, &g.decoder, packed ? packed->decoder : 0, a);
    return g;
}

void alloc_work(group *g, const train_batch *b, arena *a) {
    const transformer *m = g->model;
    int64_t sources = g->encoder.rows, targets = g->decoder.rows, rows = max(sources, targets);
    int64_t keys = keys_width(m), values = values_width(m), qkv = 2 * keys + values;
    int64_t longest = max(longest_sentence(b->source.starts, b->sentences),
                          longest_sentence(b->decoder_input.starts, b->sentences));
    int64_t widest = max(max(m->d_model, m->d_ff), qkv);
    int64_t predicted = has_stack(&m->decoder) ? targets : sources;
    int64_t attended = has_stack(&m->decoder) ? sources : 0; /* by cross-attention */
    g->out = alloc_floats(a, rows * m->d_model);
    g->grad_x = alloc_floats(a, rows * m->d_model);
    g->grad_input = m->pre_norm ? alloc_floats(a, rows * m->d_model) : 0;
    g->grad_out = alloc_floats(a, rows * m->d_model);
    g->grad_hidden = alloc_floats(a, rows * m->d_ff);
    g->grad_qkv = alloc_floats(a, rows * qkv);
    g->grad_heads = alloc_floats(a, rows * values);
    g->grad_kv = alloc_floats(a, attended * (keys + values));
    g->grad_encoded = alloc_floats(a, attended * m->d_model);
    g->packed_x = alloc(a, packed_bytes(rows, widest, m->terms));
    int64_t scratch = max(matmul_scratch_bytes(widest, rows), matmul_scratch_bytes(rows, widest));
    int64_t form = b->consistency.form;
    int64_t loss = loss_scratch_floats(m->d_model, m->output.out, predicted, m->terms, form);
    if (m->output.weight) scratch = max(scratch, 4 * loss);
    if (form) g->order = alloc(a, predicted * sizeof(int64_t));
    g->scratch = alloc(a, max(scratch, 4 * attention_scratch_floats(longest, m->d_k, m->d_v)));
}
