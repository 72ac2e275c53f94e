/* Forward and backward pass of an encoder alone, whose loss is computed elsewhere: by a head in
 * PyTorch, which needs the output of all sentences before there is any gradient.
 *
 * So the activations of all groups of sentences are kept from one pass to the other, as autograd
 * does: that is faster than to compute them twice, and the memory is that of a micro-batch.
 * Gradients and scratch are shared by the groups. Dropout masks are drawn again, from the same
 * seeds. The backward pass changes nothing that is kept, so it may run again.
 *
 *     packed weights | groups | gradients and scratch | activations of each group
 *
 * Reference: EncoderOnly.encode with autograd; tests/backends/native/test_train_encoder.py holds
 * output and gradients equal. */
#include "train_group.h"

/* What the forward pass leaves to the backward pass, at the beginning of the memory. */
typedef struct {
    packed_model packed;
    group *groups;
    char *work;
} encoder_pass;

static int64_t count_groups(const transformer *m, const train_batch *batch) {
    int64_t count = 0;
    for (int64_t n = 0; n < batch->sentences; count++) n += group_of(m, batch, n).sentences;
    return count;
}

/* Bytes of the gradients and scratch of the largest group. */
static int64_t work_bytes(const transformer *m, const train_batch *batch) {
    int64_t largest = 0;
    for (int64_t n = 0; n < batch->sentences;) {
        arena activations = {0}, work = {0};
        train_batch part = group_of(m, batch, n);
        group g = alloc_activations(m, &part, 0, &activations);
        alloc_work(&g, &part, &work);
        largest = max(largest, work.used);
        n += part.sentences;
    }
    return largest;
}

/* Lay out all memory. */
static encoder_pass *alloc_pass(const transformer *m, const train_batch *batch, arena *a) {
    encoder_pass *kept = alloc(a, sizeof(encoder_pass));
    encoder_pass pass = {.packed = pack_model(m, a)};
    pass.groups = alloc(a, count_groups(m, batch) * sizeof(group));
    pass.work = alloc(a, work_bytes(m, batch));
    if (a->base) *kept = pass;
    for (int64_t n = 0, i = 0; n < batch->sentences; i++) {
        train_batch part = group_of(m, batch, n);
        group g = alloc_activations(m, &part, a->base ? &kept->packed : 0, a);
        if (a->base) pass.groups[i] = g;
        n += part.sentences;
    }
    return kept;
}

EXPORT int64_t encoder_train_bytes(const transformer *m, const train_batch *batch) {
    arena a = {0};
    alloc_pass(m, batch, &a);
    return a.used;
}

EXPORT void encoder_forward(const transformer *m, const train_batch *batch, float *encoded,
                            void *memory) {
    arena a = {memory, 0};
    encoder_pass *pass = alloc_pass(m, batch, &a);
    for (int64_t n = 0, i = 0; n < batch->sentences; i++) {
        train_batch part = group_of(m, batch, n);
        group *g = pass->groups + i;
        arena work = {pass->work, 0};
        alloc_work(g, &part, &work);
        g->encoded = stack_forward(g, &g->encoder);
        memcpy(encoded + part.source.starts[0] * m->d_model, g->encoded,
               g->encoder.rows * m->d_model * 4);
        end_arena(&work);
        n += part.sentences;
    }
}

EXPORT void encoder_backward(const transformer *m, const train_batch *batch,
                             const float *grad_encoded, void *memory) {
    const encoder_pass *pass = memory;
    for (int64_t n = 0, i = 0; n < batch->sentences; i++) {
        train_batch part = group_of(m, batch, n);
        group g = pass->groups[i];
        arena work = {pass->work, 0};
        alloc_work(&g, &part, &work);
        memcpy(g.grad_x, grad_encoded + part.source.starts[0] * m->d_model,
               g.encoder.rows * m->d_model * 4);
        stack_backward(&g, &g.encoder);
        end_arena(&work);
        n += part.sentences;
    }
}
