/* The decoder in inference, one step at a time with a KV cache.
 *
 * The KV cache of a position is one block of memory that is written once: for each causal
 * self-attention sublayer and each row that there was at that step, keys and values side by side,
 * [H K, H C]. A row finds its own past by the `ancestors` of the request.
 *
 * Reference: Transformer.step in model/transformer.py and DecoderOnly.step in
 * model/decoder_only.py; the former in PyTorch is backends/pytorch/decoder.py; tests/backends/
 * native/test_decoder.py and test_decoder_only.py hold them equal. Sizes as in inference.h. */
#include "inference.h"
#include "rotary.h"

/* Positions of the cache before the first token of a row. */
INLINE int64_t padding_of(const decode_request *r, int64_t row) {
    return r->padding ? r->padding[row] : 0;
}

/* `index`: among the causal self-attention sublayers. */
static void causal_attention_sublayer(const sublayer *l, int64_t index, const decode_request *r,
                                      buffers *b) {
    const transformer *m = b->model;
    attention_shape cache = cache_shape(m);
    int64_t position = r->position, rows = b->rows, heads = values_width(m);
    int64_t keys = keys_width(m), kv_row = keys + heads, bytes = element_bytes(&cache);
    const float *input = sublayer_input(&l->norm, b);
    matmul(&l->packed.qkv, input, m->d_model, rows, b->qkv, keys + kv_row, OVERWRITE,
           b->matmul_scratch);
    for (int64_t row = 0; row < rows; row++) {
        float *qkv = b->qkv + row * (keys + kv_row);
        const int32_t *ancestors = r->ancestors + row * r->ld;
        char *entry = r->kv_blocks[position] + (index * rows + row) * kv_row * bytes;
        int64_t begin = padding_of(r, row), first = begin + first_key(m, position - begin);
        if (m->decoder.rotations) rotate_row(m, &m->decoder, position - begin, 1, qkv);
        store_kv(&cache, qkv + keys, kv_row, entry);
        for (int64_t p = first; p < position; p++)
            b->kv_rows[p - first] =
                r->kv_blocks[p] + (index * r->rows_at[p] + ancestors[p]) * kv_row * bytes;
        b->kv_rows[position - first] = entry;
        self_attention(&cache, qkv, b->kv_rows, position + 1 - first, b->weights,
                       b->heads + row * heads);
    }
    project_and_add(&l->norm, &l->packed.output, b->heads, b);
}

/* `index`: among the cross-attention sublayers. */
static void cross_attention_sublayer(const sublayer *l, int64_t index, const decode_request *r,
                                     buffers *b) {
    const transformer *m = b->model;
    const cross_kv *cross = r->cross;
    attention_shape cache = cache_shape(m);
    int64_t width = keys_width(m), heads = values_width(m), bytes = element_bytes(&cache);
    const float *input = sublayer_input(&l->norm, b);
    matmul(&l->packed.qkv, input, m->d_model, b->rows, b->qkv, width, OVERWRITE, b->matmul_scratch);
    for (int64_t row = 0; row < b->rows; row++) {
        int64_t n = r->source_of[row], first = cross->starts[n];
        int64_t size = cross->starts[n + 1] - first;
        const char *keys = cross->keys[index] + cross->key_offsets[n] * bytes;
        const char *values = cross->values[index] + first * heads * bytes;
        for (int64_t h = 0; h < m->heads; h++) {
            keys_values from = {keys + h * m->d_k * pad_to_lanes(size) * bytes,
                                values + h * size * m->d_v * bytes, m->d_v, size};
            attend_query(&cache, b->qkv + row * width + h * m->d_k, &from, b->weights,
                         b->heads + row * heads + h * m->d_v);
        }
    }
    project_and_add(&l->norm, &l->packed.output, b->heads, b);
}

/* Run the rows through the decoder; b->x becomes its output. */
static void decoder_forward(const transformer *m, const decode_request *r, buffers *b) {
    int64_t num_causal = 0, num_cross = 0;
    for (int64_t row = 0; row < r->rows; row++)
        embed(&m->decoder.embedding, r->tokens[row], r->position - padding_of(r, row), row, b);
    for (int64_t i = 0; i < m->decoder.num_sublayers; i++) {
        const sublayer *l = m->decoder.sublayers + i;
        if (l->kind == FEED_FORWARD)
            feed_forward(l, b);
        else if (l->kind == CROSS_ATTENTION)
            cross_attention_sublayer(l, num_cross++, r, b);
        else
            causal_attention_sublayer(l, num_causal++, r, b);
    }
    normalize_rows(&m->decoder.norm, b->x, r->rows, m->d_model, b->x);
}

/* Compute scores in blocks of the vocabulary; keep the top-k of each row. */
static int64_t output_topk(const transformer *m, const topk_request *best, float *values,
                           buffers *b) {
    const matrix *output = &m->packed_output;
    topk_rows k = {b->rows, best->count,  best->num_forbidden, best->forbidden,
                   values,  best->tokens, b->states,           best->unscored};
    topk_begin(&k);
    for (int64_t first = 0; first < output->out; first += VOCAB_BLOCK) {
        matrix block = matrix_columns(output, first, VOCAB_BLOCK);
        matmul(&block, b->x, m->d_model, b->rows, b->scores, VOCAB_BLOCK, OVERWRITE,
               b->matmul_scratch);
        topk_update(&k, b->scores, VOCAB_BLOCK, first, block.out);
    }
    return topk_finish(&k);
}

/* One step; returns 0 if a score is NaN or infinite. */
static int64_t decode_step(const transformer *m, const decode_request *r, float *scores,
                           const topk_request *best, float *scratch) {
    arena a = {align_to_64(scratch), 0};
    buffers b = alloc_buffers(m, r->rows, r->longest, &a);
    int64_t is_finite = 1;
    decoder_forward(m, r, &b);
    if (best)
        is_finite = output_topk(m, best, scores, &b);
    else
        matmul(&m->packed_output, b.x, m->d_model, r->rows, scores, m->packed_output.out, OVERWRITE,
               b.matmul_scratch);
    end_arena(&a);
    return is_finite;
}

EXPORT int64_t decode_steps(const transformer *m, const decode_request *r, float *scores,
                            const topk_request *best, float *scratch) {
    if (!best || best->max_steps == 1) return decode_step(m, r, scores, best, scratch);
    for (int64_t steps = 0; steps < best->max_steps; steps++) {
        decode_request next = *r;
        topk_request request = *best;
        int64_t num_ended = 0;
        next.position += steps;
        request.tokens += steps * r->rows;
        if (steps) next.tokens = request.tokens - r->rows;
        if (!decode_step(m, &next, scores + steps * r->rows, &request, scratch)) return 0;
        for (int64_t row = 0; row < r->rows; row++) /* rows that ended earlier are decoded on */
            for (int64_t before = steps; before >= 0 && r->tokens[row] != best->end; before--)
                if (best->tokens[before * r->rows + row] == best->end) {
                    num_ended++;
                    break;
                }
        if (num_ended >= best->min_ended) return steps + 1;
    }
    return best->max_steps;
}
