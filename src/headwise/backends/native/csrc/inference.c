/* What both stacks have in inference: embedding, layer normalization, residual connection and
 * feed-forward; and the scratch memory.
 *
 * Reference: model/embeddings.py, model/add_and_norm.py and model/feed_forward.py; tests/backends/
 * native/test_decoder.py holds the scores of whole models equal. */
#include "inference.h"

/* Numbers that do not fill a vector are summed one by one; training (train_layers.c) sums them lane
 * by lane. Both orders are kept: another one would give other last bits. */
static void normalize(const layer_norm *n, const float *x, int64_t size, float *y) {
    vec total = {0};
    int64_t i;
    float sum = 0, squares = 0;
    if (!n->weight) {
        if (x != y) memcpy(y, x, size * 4);
        return;
    }
    for (i = 0; i + LANES <= size; i += LANES) total += load(x + i);
    for (; i < size; i++) sum += x[i];
    float mean = (reduce_sum(total) + sum) / size;
    total = (vec){0};
    for (i = 0; i + LANES <= size; i += LANES) {
        vec centered = load(x + i) - mean;
        total += centered * centered;
    }
    for (; i < size; i++) squares = fused(x[i] - mean, x[i] - mean, squares);
    float inv_std = 1 / sqrtf((reduce_sum(total) + squares) / size + n->eps);
    scale_normalized(n, x, size, mean, inv_std, y);
}

void normalize_rows(const layer_norm *n, const float *x, int64_t rows, int64_t size, float *y) {
    for (int64_t row = 0; row < rows; row++) normalize(n, x + row * size, size, y + row * size);
}

void embed(const embedding *e, int64_t token, int64_t position, int64_t row, buffers *b) {
    int64_t size = b->model->d_model;
    float *x = b->x + row * size;
    embed_token(e, token, position, size, x);
    normalize(&e->norm, x, size, x);
}

const float *sublayer_input(const layer_norm *n, buffers *b) {
    if (!b->model->pre_norm) return b->x;
    normalize_rows(n, b->x, b->rows, b->model->d_model, b->input);
    return b->input;
}

static void add_rows(float *x, const float *y, int64_t size) {
    for (int64_t i = 0; i < size; i++) x[i] += y[i];
}

void project_and_add(const layer_norm *n, const matrix *output, const float *out, buffers *b) {
    int64_t size = b->model->d_model;
    matmul(output, out, output->in, b->rows, b->result, size, OVERWRITE, b->matmul_scratch);
    add_rows(b->x, b->result, b->rows * size);
    if (!b->model->pre_norm) normalize_rows(n, b->x, b->rows, size, b->x);
}

void feed_forward(const sublayer *l, buffers *b) {
    const transformer *m = b->model;
    const float *input = sublayer_input(&l->norm, b);
    matmul(&l->packed.expand, input, m->d_model, b->rows, b->hidden, m->d_ff,
           (matmul_opts){.activation = m->activation}, b->matmul_scratch);
    project_and_add(&l->norm, &l->packed.project, b->hidden, b);
}

buffers alloc_buffers(const transformer *m, int64_t rows, int64_t longest, arena *a) {
    buffers b = {.model = m, .rows = rows};
    int64_t keys = keys_width(m), values = values_width(m);
    int64_t widest = m->d_ff > m->d_model ? m->d_ff : m->d_model;
    b.x = alloc_floats(a, rows * m->d_model);
    b.input = alloc_floats(a, rows * m->d_model);
    b.result = alloc_floats(a, rows * m->d_model);
    b.qkv = alloc_floats(a, rows * (2 * keys + values));
    b.heads = alloc_floats(a, rows * values);
    b.hidden = alloc_floats(a, rows * m->d_ff);
    b.weights = alloc_floats(a, pad_to_lanes(longest));
    b.keys = alloc_floats(a, pad_to_lanes(longest) * m->d_k);
    b.scores = alloc_floats(a, rows * VOCAB_BLOCK);
    b.kv_rows = alloc(a, longest * sizeof(void *));
    b.states = alloc(a, rows * sizeof(topk_state));
    b.matmul_scratch = alloc(a, matmul_scratch_bytes(widest > values ? widest : values, rows));
    return b;
}

EXPORT int64_t step_scratch_floats(const transformer *m, int64_t rows, int64_t longest) {
    arena a = {0};
    alloc_buffers(m, rows, longest, &a);
    return a.used / 4 + ARENA_SLACK;
}
