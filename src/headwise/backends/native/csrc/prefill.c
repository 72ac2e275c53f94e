/* Prefill: the keys and values of prompts, for the decoder to go on from.
 *
 * Texts stand one behind the other without padding. A group of them at a time runs through all
 * sublayers of a decoder alone; nothing is computed of its output, which has its use only at the
 * last token of a prompt: that one is the first step. Attention reads the KV cache as steps do, so
 * that the bits are those of steps.
 *
 * Reference: DecoderOnly.step in model/decoder_only.py; tests/backends/native/test_decoder_only.py
 * holds the scores after it equal. Sizes as in inference.h. */
#include "inference.h"
#include "rotary.h"

#define PREFILL_GROUP_ROWS 384 /* tokens */

/* Texts `from` to `to` of a request, and their rows. */
typedef struct {
    const prefill_request *request;
    int64_t from, to;
    buffers buffers;
} group;

/* `index`: among the causal self-attention sublayers. */
static void causal_attention_sublayer(const sublayer *l, int64_t index, group *g) {
    buffers *b = &g->buffers;
    const transformer *m = b->model;
    const prefill_request *r = g->request;
    attention_shape cache = cache_shape(m);
    int64_t keys = keys_width(m), heads = values_width(m), kv_row = keys + heads;
    int64_t bytes = element_bytes(&cache), width = keys + kv_row;
    const float *input = sublayer_input(&l->norm, b);
    matmul(&l->packed.qkv, input, m->d_model, b->rows, b->qkv, width, OVERWRITE, b->matmul_scratch);
    for (int64_t n = g->from; n < g->to; n++) {
        int64_t row = r->starts[n] - r->starts[g->from], size = r->starts[n + 1] - r->starts[n];
        float *qkv = b->qkv + row * width;
        for (int64_t p = 0; p < size; p++) {
            if (m->decoder.rotations) rotate_row(m, &m->decoder, p, 1, qkv + p * width);
            char *block = r->kv_blocks[r->end - size + p];
            char *entry = block + (index * r->rows + n) * kv_row * bytes;
            store_kv(&cache, qkv + p * width + keys, kv_row, entry);
            b->kv_rows[p] = entry;
        }
        for (int64_t p = 0; p < size; p++) {
            int64_t first = first_key(m, p);
            self_attention(&cache, qkv + p * width, b->kv_rows + first, p + 1 - first, b->weights,
                           b->heads + (row + p) * heads);
        }
    }
    project_and_add(&l->norm, &l->packed.output, b->heads, b);
}

static void prefill_group(const transformer *m, const prefill_request *r, int64_t from, int64_t to,
                          float *scratch) {
    int64_t begin = r->starts[from], rows = r->starts[to] - begin, num_causal = 0;
    arena a = {align_to_64(scratch), 0};
    group g = {r, from, to, alloc_buffers(m, rows, r->end, &a)};
    buffers *b = &g.buffers;
    for (int64_t n = from; n < to; n++)
        for (int64_t row = r->starts[n]; row < r->starts[n + 1]; row++)
            embed(&m->decoder.embedding, r->tokens[row], row - r->starts[n], row - begin, b);
    for (int64_t i = 0; i < m->decoder.num_sublayers; i++) {
        const sublayer *l = m->decoder.sublayers + i;
        if (l->kind == FEED_FORWARD)
            feed_forward(l, b);
        else
            causal_attention_sublayer(l, num_causal++, &g);
    }
    end_arena(&a);
}

EXPORT void prefill(const transformer *m, const prefill_request *r, float *scratch) {
    for (int64_t from = 0, to; from < r->rows; from = to) {
        to = from + 1;
        while (to < r->rows && r->starts[to + 1] - r->starts[from] <= PREFILL_GROUP_ROWS) to++;
        if (r->starts[to] > r->starts[from]) prefill_group(m, r, from, to, scratch);
    }
}

EXPORT int64_t prefill_rows(const prefill_request *r) {
    return r->end > PREFILL_GROUP_ROWS ? r->end : PREFILL_GROUP_ROWS;
}
