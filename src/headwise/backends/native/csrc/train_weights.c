/* Pack the weights for the forward and the backward pass: once a batch, whatever its groups. */
#include "train.h"

/* Pack matrices that are applied to the same vectors as one. */
static packed_linear pack_linear(const train_model *m, const linear *const boxes[], int64_t count,
                                 arena *a) {
    int64_t in = boxes[0]->in, out = 0;
    for (int64_t i = 0; i < count; i++) out += boxes[i]->out;
    packed_linear b = {{.in = in, .out = out, .terms = m->terms},
                       {.in = out, .out = in, .terms = m->terms}};
    void *forward = alloc(a, packed_bytes(in, out, m->terms));
    void *backward = alloc(a, packed_bytes(out, in, m->terms));
    float *weight = count > 1 ? alloc_floats(a, in * out) : 0;
    float *bias = boxes[0]->bias ? alloc_floats(a, out) : 0;
    if (!a->base) return b;
    for (int64_t i = 0, at = 0; i < count; at += boxes[i++]->out) {
        if (weight) memcpy(weight + at * in, boxes[i]->weight, boxes[i]->out * in * 4);
        if (bias) memcpy(bias + at, boxes[i]->bias, boxes[i]->out * 4);
    }
    pack_transposed(weight ? weight : boxes[0]->weight, in, out, m->terms, forward);
    pack_matrix(weight ? weight : boxes[0]->weight, in, out, in, m->terms, backward);
    b.forward.weight = forward;
    b.forward.bias = bias;
    b.backward.weight = backward;
    return b;
}

static packed_attention pack_attention(const train_model *m, const attention_box *b,
                                       int64_t is_self, arena *a) {
    const linear *const qkv[] = {&b->queries, &b->keys, &b->values};
    const linear *const output[] = {&b->output};
    packed_attention packed = {.qkv = pack_linear(m, qkv, is_self ? 3 : 1, a)};
    if (!is_self) packed.kv = pack_linear(m, qkv + 1, 2, a);
    packed.output = pack_linear(m, output, 1, a);
    return packed;
}

static packed_block *pack_blocks(const train_model *m, const block *b, int64_t layers,
                                 int64_t is_decoder, arena *a) {
    packed_block *blocks = alloc(a, layers * sizeof(packed_block));
    for (int64_t i = 0; i < layers; i++) {
        const linear *const expand[] = {&b[i].expand}, *const project[] = {&b[i].project};
        packed_block packed = {.self = pack_attention(m, &b[i].self, 1, a)};
        if (is_decoder) packed.cross = pack_attention(m, &b[i].cross, 0, a);
        packed.expand = pack_linear(m, expand, 1, a);
        packed.project = pack_linear(m, project, 1, a);
        if (a->base) blocks[i] = packed;
    }
    return blocks;
}

packed_model pack_model(const train_model *m, arena *a) {
    packed_model packed;
    int64_t vocab = m->output.out;
    packed.encoder = pack_blocks(m, m->encoder, m->encoder_layers, 0, a);
    packed.decoder = pack_blocks(m, m->decoder, m->decoder_layers, 1, a);
    void *forward = alloc(a, packed_bytes(m->d_model, vocab, m->terms));
    void *backward = alloc(a, loss_backward_bytes(m->d_model, vocab, m->terms));
    packed.output = (matrix){m->d_model, vocab, m->terms, forward, m->output.bias};
    packed.output_backward = backward;
    if (!a->base) return packed;
    pack_transposed(m->output.weight, m->d_model, vocab, m->terms, forward);
    loss_pack_backward(m->output.weight, m->d_model, vocab, m->terms, backward);
    return packed;
}
