/* The encoder in inference: its output, or the keys and values that the decoder's cross-attention
 * reads.
 *
 * Sentences stand one behind the other without padding. A group of them at a time runs through all
 * sublayers, so that activations stay in cache.
 *
 * Reference: EncoderOnly.encode in model/encoder_only.py, and Transformer.start in
 * model/transformer.py; tests/backends/native/test_encoder.py and test_decoder.py hold the vectors,
 * and the scores after it, equal. Sizes as in inference.h. */
#include "inference.h"
#include "rotary.h"

#define ENCODE_GROUP_ROWS 384 /* source positions */

/* Sentences `from` to `to` of a request, and their rows. */
typedef struct {
    const encode_request *request;
    int64_t from, to;
    buffers buffers;
} group;

/* Where sentence n begins among the rows of the group, and how many positions it has. */
INLINE int64_t first_row(const group *g, int64_t n) {
    const int64_t *starts = g->request->cross->starts;
    return starts[n] - starts[g->from];
}
INLINE int64_t length_of(const group *g, int64_t n) {
    const int64_t *starts = g->request->cross->starts;
    return starts[n + 1] - starts[n];
}

static void self_attention_sublayer(const sublayer *l, group *g) {
    buffers *b = &g->buffers;
    const transformer *m = b->model;
    int64_t keys = keys_width(m), heads = values_width(m), width = 2 * keys + heads;
    attention_shape activations = activations_shape(m);
    const float *input = sublayer_input(&l->norm, b);
    matmul(&l->packed.qkv, input, m->d_model, b->rows, b->qkv, width, OVERWRITE, b->matmul_scratch);
    for (int64_t n = g->from; n < g->to; n++) {
        int64_t first = first_row(g, n), size = length_of(g, n);
        for (int64_t s = 0; m->encoder.rotations && s < size; s++)
            rotate_row(m, &m->encoder, s, 1, b->qkv + (first + s) * width);
        for (int64_t h = 0; h < m->heads; h++) {
            const float *queries = b->qkv + first * width + h * m->d_k;
            const float *values = b->qkv + first * width + 2 * keys + h * m->d_v;
            keys_values from = {b->keys, values, width, size};
            transpose_keys(queries + keys, width, size, m->d_k, b->keys);
            for (int64_t s = 0; s < size; s++)
                attend_query(&activations, queries + s * width, &from, b->weights,
                             b->heads + (first + s) * heads + h * m->d_v);
        }
    }
    project_and_add(&l->norm, &l->packed.output, b->heads, b);
}

/* Write keys and values of a cross-attention sublayer, the `index`th of the decoder. */
static void fill_cross_kv(const sublayer *l, int64_t index, group *g) {
    buffers *b = &g->buffers;
    const transformer *m = b->model;
    const cross_kv *cross = g->request->cross;
    attention_shape cache = cache_shape(m);
    int64_t bytes = element_bytes(&cache), heads = values_width(m), width = keys_width(m) + heads;
    matmul(&l->packed.kv, b->x, m->d_model, b->rows, b->qkv, width, OVERWRITE, b->matmul_scratch);
    for (int64_t n = g->from; n < g->to; n++) {
        int64_t first = first_row(g, n), size = length_of(g, n);
        char *keys = cross->keys[index] + cross->key_offsets[n] * bytes;
        char *values = cross->values[index] + cross->starts[n] * heads * bytes;
        for (int64_t h = 0; h < m->heads; h++) {
            const float *from = b->qkv + first * width + h * m->d_k;
            int64_t many = m->d_k * pad_to_lanes(size);
            transpose_keys(from, width, size, m->d_k, b->keys);
            store_kv(&cache, b->keys, many, keys + h * many * bytes);
            from = b->qkv + first * width + keys_width(m) + h * m->d_v;
            for (int64_t s = 0; s < size; s++)
                store_kv(&cache, from + s * width, m->d_v,
                         values + (h * size + s) * m->d_v * bytes);
        }
    }
}

static void encode_group(const transformer *m, const encode_request *r, int64_t from, int64_t to,
                         float *scratch) {
    int64_t begin = r->cross->starts[from], rows = r->cross->starts[to] - begin, num_cross = 0;
    arena a = {align_to_64(scratch), 0};
    group g = {r, from, to, alloc_buffers(m, rows, r->longest, &a)};
    buffers *b = &g.buffers;
    for (int64_t row = 0; row < rows; row++)
        embed(&m->encoder.embedding, r->tokens[begin + row], r->positions[begin + row], row, b);
    for (int64_t i = 0; i < m->encoder.num_sublayers; i++) {
        const sublayer *l = m->encoder.sublayers + i;
        if (l->kind == FEED_FORWARD)
            feed_forward(l, b);
        else
            self_attention_sublayer(l, &g);
    }
    normalize_rows(&m->encoder.norm, b->x, rows, m->d_model, b->x);
    if (r->encoded) memcpy(r->encoded + begin * m->d_model, b->x, rows * m->d_model * 4);
    for (int64_t i = 0; i < m->decoder.num_sublayers; i++)
        if (m->decoder.sublayers[i].kind == CROSS_ATTENTION)
            fill_cross_kv(m->decoder.sublayers + i, num_cross++, &g);
    end_arena(&a);
}

EXPORT void encode(const transformer *m, const encode_request *r, float *scratch) {
    const int64_t *starts = r->cross->starts;
    for (int64_t from = 0, to; from < r->sentences; from = to) {
        to = from + 1;
        while (to < r->sentences && starts[to + 1] - starts[from] <= ENCODE_GROUP_ROWS) to++;
        encode_group(m, r, from, to, scratch);
    }
}

EXPORT int64_t encode_scratch_floats(const transformer *m, int64_t longest) {
    return step_scratch_floats(m, longest > ENCODE_GROUP_ROWS ? longest : ENCODE_GROUP_ROWS,
                               longest);
}
