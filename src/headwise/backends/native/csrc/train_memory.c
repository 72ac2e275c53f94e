/* The memory of a group of sentences: activations saved for the backward pass, gradients, scratch. */
#include "train_group.h"

static int64_t longest_sentence(const int64_t *starts, int64_t sentences) {
    int64_t longest = 1;
    for (int64_t n = 0; n < sentences; n++) longest = max(longest, starts[n + 1] - starts[n]);
    return longest;
}

static int64_t count_attention_weights(const group *g, const int64_t *q_starts,
                                       const int64_t *k_starts) {
    int64_t size = 0;
    for (int64_t n = 0; n < g->sentences; n++)
        size += (q_starts[n + 1] - q_starts[n]) * pad_to_lanes(k_starts[n + 1] - k_starts[n]);
    return size * g->model->heads;
}

static saved_residual alloc_residual(const train_model *m, int64_t rows, arena *a) {
    saved_residual r = {0};
    float *saved = alloc_floats(a, rows * m->d_model);
    if (m->pre_norm)
        r.input = saved;
    else
        r.sum = saved;
    r.stats = alloc_floats(a, rows * 2);
    r.y = alloc_floats(a, rows * m->d_model);
    return r;
}

static saved_attention alloc_attention(const group *g, const stack *q, const stack *k, arena *a) {
    const train_model *m = g->model;
    int64_t is_self = q == k, keys = m->heads * m->d_k, values = m->heads * m->d_v;
    saved_attention s = {0};
    s.qkv = alloc_floats(a, q->rows * (is_self ? 2 * keys + values : keys));
    if (!is_self) s.kv = alloc_floats(a, k->rows * (keys + values));
    s.weights = alloc_floats(a, count_attention_weights(g, q->starts, k->starts));
    s.heads = alloc_floats(a, q->rows * values);
    s.residual = alloc_residual(m, q->rows, a);
    return s;
}

static void alloc_stack(const group *g, stack *s, arena *a) {
    const train_model *m = g->model;
    if (s->embedding->norm.weight) {
        s->embedding_sum = alloc_floats(a, s->rows * m->d_model);
        s->embedding_stats = alloc_floats(a, s->rows * 2);
    }
    s->embedded = alloc_floats(a, s->rows * m->d_model);
    s->saved = alloc(a, s->layers * sizeof(saved_layer));
    for (int64_t i = 0; i < s->layers; i++) {
        saved_layer l = {0};
        l.self = alloc_attention(g, s, s, a);
        if (s->is_decoder) l.cross = alloc_attention(g, s, &g->encoder, a);
        if (m->activation != RELU) l.pre_activation = alloc_floats(a, s->rows * m->d_ff);
        l.hidden = alloc_floats(a, s->rows * m->d_ff);
        l.residual = alloc_residual(m, s->rows, a);
        if (a->base) s->saved[i] = l;
    }
    if (m->pre_norm) {
        s->norm_stats = alloc_floats(a, s->rows * 2);
        s->top = alloc_floats(a, s->rows * m->d_model);
    }
}

group alloc_group(const train_model *m, const train_batch *b, const packed_model *packed,
                  arena *a) {
    group g = {.model = m, .sentences = b->sentences, .seed = b->seed};
    g.encoder = (stack){.embedding = &m->source_embedding,
                        .blocks = m->encoder,
                        .packed = packed ? packed->encoder : 0,
                        .norm = &m->encoder_norm,
                        .tokens = b->source,
                        .starts = b->source_starts,
                        .layers = m->encoder_layers,
                        .rows = count_positions(b->source_starts, b->sentences)};
    g.decoder = (stack){.embedding = &m->target_embedding,
                        .blocks = m->decoder,
                        .packed = packed ? packed->decoder : 0,
                        .norm = &m->decoder_norm,
                        .tokens = b->target_in,
                        .starts = b->target_starts,
                        .layers = m->decoder_layers,
                        .rows = count_positions(b->target_starts, b->sentences),
                        .is_decoder = 1};
    int64_t sources = g.encoder.rows, targets = g.decoder.rows, rows = max(sources, targets);
    int64_t keys = m->heads * m->d_k, values = m->heads * m->d_v, qkv = 2 * keys + values;
    int64_t longest = max(longest_sentence(b->source_starts, b->sentences),
                          longest_sentence(b->target_starts, b->sentences));
    int64_t widest = max(max(m->d_model, m->d_ff), qkv);
    g.out = alloc_floats(a, rows * m->d_model);
    g.grad_x = alloc_floats(a, rows * m->d_model);
    g.grad_input = m->pre_norm ? alloc_floats(a, rows * m->d_model) : 0;
    g.grad_out = alloc_floats(a, rows * m->d_model);
    g.grad_hidden = alloc_floats(a, rows * m->d_ff);
    g.grad_qkv = alloc_floats(a, rows * qkv);
    g.grad_heads = alloc_floats(a, rows * values);
    g.grad_kv = alloc_floats(a, sources * (keys + values));
    g.grad_encoded = alloc_floats(a, sources * m->d_model);
    g.packed_x = alloc(a, packed_bytes(rows, widest, m->terms));
    int64_t scratch = max(matmul_scratch_bytes(widest, rows), matmul_scratch_bytes(rows, widest));
    scratch = max(scratch, 4 * loss_scratch_floats(m->d_model, m->output.out, targets, m->terms));
    g.scratch = alloc(a, max(scratch, 4 * attention_scratch_floats(longest, m->d_k, m->d_v)));
    alloc_stack(&g, &g.encoder, a);
    alloc_stack(&g, &g.decoder, a);
    return g;
}
