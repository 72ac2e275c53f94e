/* Weights laid out for both ways: once for a lesson, whatever its groups are. */
#include "train.h"

/* Lay out matrices that are applied to the same vectors as one. */
static both joined(const pupil *p, const linear *const boxes[], int64_t count, arena *a) {
    int64_t in = boxes[0]->in, out = 0;
    for (int64_t i = 0; i < count; i++) out += boxes[i]->out;
    both b = {{.in = in, .out = out, .parts = p->parts}, {.in = out, .out = in, .parts = p->parts}};
    void *forth = take(a, product_size(in, out, p->parts));
    void *back = take(a, product_size(out, in, p->parts));
    float *weight = count > 1 ? floats(a, in * out) : 0;
    float *bias = boxes[0]->bias ? floats(a, out) : 0;
    if (!a->base) return b;
    for (int64_t i = 0, at = 0; i < count; at += boxes[i++]->out) {
        if (weight) memcpy(weight + at * in, boxes[i]->weight, boxes[i]->out * in * 4);
        if (bias) memcpy(bias + at, boxes[i]->bias, boxes[i]->out * 4);
    }
    product_pack(weight ? weight : boxes[0]->weight, in, out, p->parts, forth);
    product_lay_out(weight ? weight : boxes[0]->weight, in, out, in, p->parts, back);
    b.forth.weight = forth;
    b.forth.bias = bias;
    b.back.weight = back;
    return b;
}

static laid_box lay_box(const pupil *p, const attention_box *b, int64_t own, arena *a) {
    const linear *const all_three[] = {&b->queries, &b->keys, &b->values};
    const linear *const join[] = {&b->join};
    laid_box laid = {.asked = joined(p, all_three, own ? 3 : 1, a)};
    if (!own) laid.remember = joined(p, all_three + 1, 2, a);
    laid.join = joined(p, join, 1, a);
    return laid;
}

static laid_block *lay_blocks(const pupil *p, const block *b, int64_t layers, int64_t writes,
                              arena *a) {
    laid_block *all = take(a, layers * sizeof(laid_block));
    for (int64_t i = 0; i < layers; i++) {
        const linear *const widen[] = {&b[i].widen}, *const narrow[] = {&b[i].narrow};
        laid_block each = {.own = lay_box(p, &b[i].own, 1, a)};
        if (writes) each.source = lay_box(p, &b[i].source, 0, a);
        each.widen = joined(p, widen, 1, a);
        each.narrow = joined(p, narrow, 1, a);
        if (a->base) all[i] = each;
    }
    return all;
}

laid_model lay_out(const pupil *p, arena *a) {
    laid_model m;
    int64_t words = p->scores.out;
    m.encoder = lay_blocks(p, p->encoder, p->encoder_layers, 0, a);
    m.decoder = lay_blocks(p, p->decoder, p->decoder_layers, 1, a);
    void *forth = take(a, product_size(p->model, words, p->parts));
    void *back = take(a, loss_back_size(p->model, words, p->parts));
    m.scores = (product){p->model, words, p->parts, forth, p->scores.bias};
    m.back = back;
    if (!a->base) return m;
    product_pack(p->scores.weight, p->model, words, p->parts, forth);
    loss_lay_out(p->scores.weight, p->model, words, p->parts, back);
    return m;
}
