/* Pack the weights for the forward and the backward pass: once a batch, whatever its groups.
 *
 * Linears that are applied to the same vectors become one matrix [in, out of all], as
 * packed_sublayer in model.h has them; for the backward pass it is transposed. Reference: the
 * weights themselves; tests/backends/native/test_training.py holds the gradients equal. */
#include "train.h"

/* Pack linears that are applied to the same vectors as one matrix. */
static void pack_linears(const transformer *m, const linear *const linears[], int64_t count,
                         matrix *forward, matrix *backward, arena *a) {
    int64_t in = linears[0]->in, out = 0;
    for (int64_t i = 0; i < count; i++) out += linears[i]->out;
    void *to_forward = alloc(a, packed_bytes(in, out, m->terms));
    void *to_backward = alloc(a, packed_bytes(out, in, m->terms));
    float *weight = count > 1 ? alloc_floats(a, in * out) : 0;
    float *bias = linears[0]->bias ? alloc_floats(a, out) : 0;
    *forward = (matrix){in, out, m->terms, to_forward, bias};
    *backward = (matrix){out, in, m->terms, to_backward, 0};
    if (!a->base) return;
    for (int64_t i = 0, at = 0; i < count; at += linears[i++]->out) {
        if (weight) memcpy(weight + at * in, linears[i]->weight, linears[i]->out * in * 4);
        if (bias) memcpy(bias + at, linears[i]->bias, linears[i]->out * 4);
    }
    pack_transposed(weight ? weight : linears[0]->weight, in, out, m->terms, to_forward);
    pack_matrix(weight ? weight : linears[0]->weight, in, out, in, m->terms, to_backward);
}

static packed_weights pack_sublayer(const transformer *m, const sublayer *l, arena *a) {
    const linear *const qkv[] = {&l->queries, &l->keys, &l->values}, *const output[] = {&l->output};
    const linear *const expand[] = {&l->expand}, *const project[] = {&l->project};
    packed_weights p = {0};
    packed_sublayer *forward = &p.forward, *backward = &p.backward;
    if (l->kind == FEED_FORWARD) {
        pack_linears(m, expand, 1, &forward->expand, &backward->expand, a);
        pack_linears(m, project, 1, &forward->project, &backward->project, a);
        return p;
    }
    int64_t is_cross = l->kind == CROSS_ATTENTION;
    pack_linears(m, qkv, is_cross ? 1 : 3, &forward->qkv, &backward->qkv, a);
    if (is_cross) pack_linears(m, qkv + 1, 2, &forward->kv, &backward->kv, a);
    pack_linears(m, output, 1, &forward->output, &backward->output, a);
    return p;
}

static packed_weights *pack_stack(const transformer *m, const stack *s, arena *a) {
    packed_weights *packed = alloc(a, s->num_sublayers * sizeof(packed_weights));
    for (int64_t i = 0; i < s->num_sublayers; i++) {
        packed_weights each = pack_sublayer(m, s->sublayers + i, a);
        if (a->base) packed[i] = each;
    }
    return packed;
}

packed_model pack_model(const transformer *m, arena *a) {
    packed_model packed = {0};
    int64_t vocab = m->output.out;
    packed.encoder = pack_stack(m, &m->encoder, a);
    packed.decoder = pack_stack(m, &m->decoder, a);
    if (!m->output.weight) return packed;
    void *forward = alloc(a, packed_bytes(m->d_model, vocab, m->terms));
    void *backward = alloc(a, loss_backward_bytes(m->d_model, vocab, m->terms));
    packed.output = (matrix){m->d_model, vocab, m->terms, forward, m->output.bias};
    packed.output_backward = backward;
    if (!a->base) return packed;
    pack_transposed(m->output.weight, m->d_model, vocab, m->terms, forward);
    loss_pack_backward(m->output.weight, m->d_model, vocab, m->terms, backward);
    return packed;
}
