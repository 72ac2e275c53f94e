/* The sublayers of a block in a training step, forward and backward: attention and feed-forward, each
 * with its residual connection and norm, before it (pre-norm) or after it (post-norm).
 *
 * Reference: model/encoder.py, model/decoder.py; tests/backends/native/test_training.py. */
#include "train_group.h"

/* Input of a sublayer: x, normalized first in pre-norm models. */
static const float *sublayer_input(const group *g, const trainable_norm *n, const float *x,
                                   int64_t rows, const saved_residual *s) {
    if (!g->model->pre_norm) return x;
    norm(n, x, rows, g->model->d_model, s->stats, s->input);
    return s->input;
}

/* Add what a sublayer computed, which stands in g->out, to x. */
static void residual_forward(const group *g, const trainable_norm *n, const float *x, int64_t rows,
                             dropout_rng rng, const saved_residual *s) {
    if (g->model->pre_norm)
        add_residual(x, g->out, rows, g->model->d_model, rng, s->y);
    else
        add_and_norm(n, x, g->out, rows, g->model->d_model, rng, s->sum, s->stats, s->y);
}

/* From the gradient of y in g->grad_x to that of the sublayer's output in g->grad_out; g->grad_x
 * keeps what goes around the sublayer. */
static void residual_backward(const group *g, const trainable_norm *n, int64_t rows,
                              dropout_rng rng, const saved_residual *s) {
    if (g->model->pre_norm)
        add_residual_backward(g->grad_x, rows, g->model->d_model, rng, g->grad_out);
    else
        add_and_norm_backward(n, g->grad_x, rows, g->model->d_model, rng, s->sum, s->stats,
                              g->grad_x, g->grad_out);
}

/* Gradients of matrices that were applied to x [rows, in] as one, and of x. */
static void linear_backward(const group *g, const linear *const boxes[], int64_t count,
                            const matrix *back, const float *x, int64_t rows, const float *grad_y,
                            float *grad_x, matmul_opts opts) {
    int64_t in = boxes[0]->in, ld = back->in;
    matmul(back, grad_y, ld, rows, grad_x, in, opts, g->scratch);
    matrix packed_x = {.in = rows, .out = in, .terms = back->terms, .weight = g->packed_x};
    pack_matrix(x, in, rows, in, back->terms, g->packed_x);
    for (int64_t i = 0; i < count; grad_y += boxes[i++]->out) {
        matmul(&packed_x, grad_y, ld, boxes[i]->out, boxes[i]->grad_weight, in,
               TRANSPOSED_ACCUMULATE, g->scratch);
        if (boxes[i]->grad_bias)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t j = 0; j < boxes[i]->out; j++)
                    boxes[i]->grad_bias[j] += grad_y[row * ld + j];
    }
}

/* The same for the first matrices of a sublayer, whose input is x, or x normalized: adds to the
 * gradient of x. */
static void input_backward(const group *g, const trainable_norm *n, const linear *const boxes[],
                           int64_t count, const matrix *back, const float *x, int64_t rows,
                           const float *grad_y, const saved_residual *s) {
    if (!g->model->pre_norm) {
        linear_backward(g, boxes, count, back, x, rows, grad_y, g->grad_x, ACCUMULATE);
        return;
    }
    linear_backward(g, boxes, count, back, s->input, rows, grad_y, g->grad_input, OVERWRITE);
    norm_backward(n, g->grad_input, x, rows, g->model->d_model, s->stats, g->grad_x, 1);
}

/* An attention sublayer in its place: `queries` is the stack that it belongs to, `keys` the one
 * whose positions it attends to, the same one in self-attention. */
typedef struct {
    const attention_box *box;
    const packed_attention *packed;
    const saved_attention *saved;
    const stack *queries, *keys;
    const float *x, *encoded; /* encoded: NULL in self-attention */
    dropout_rng rng, weights_rng;
} attention_sublayer;

static attention_sublayer attention_at(const group *g, const stack *s, int64_t layer,
                                       const float *x, const float *encoded) {
    const train_model *m = g->model;
    const block *b = s->blocks + layer;
    const packed_block *packed = s->packed + layer;
    const saved_layer *saved = s->saved + layer;
    int64_t is_self = !encoded;
    return (attention_sublayer){
        .box = is_self ? &b->self : &b->cross,
        .packed = is_self ? &packed->self : &packed->cross,
        .saved = is_self ? &saved->self : &saved->cross,
        .queries = s,
        .keys = is_self ? s : &g->encoder,
        .x = x,
        .encoded = encoded,
        .rng = dropout_at(g, s, layer + 1, is_self ? SELF : CROSS, m->dropout),
        .weights_rng = dropout_at(g, s, layer + 1, is_self ? SELF_WEIGHTS : CROSS_WEIGHTS,
                                  m->attention_dropout),
    };
}

INLINE head head_of(const group *g, const attention_sublayer *a, int64_t n, int64_t h) {
    const train_model *m = g->model;
    const int64_t *q_starts = a->queries->starts, *k_starts = a->keys->starts;
    int64_t is_self = !a->encoded, keys = m->heads * m->d_k, values = m->heads * m->d_v;
    int64_t ldq = is_self ? 2 * keys + values : keys, ldk = is_self ? ldq : keys + values;
    const float *kv = is_self ? a->saved->qkv + keys : a->saved->kv;
    kv += (k_starts[n] - k_starts[0]) * ldk;
    return (head){.queries = a->saved->qkv + (q_starts[n] - q_starts[0]) * ldq + h * m->d_k,
                  .keys = kv + h * m->d_k,
                  .values = kv + keys + h * m->d_v,
                  .ldq = ldq,
                  .ldk = ldk,
                  .ldv = ldk,
                  .num_queries = q_starts[n + 1] - q_starts[n],
                  .num_keys = k_starts[n + 1] - k_starts[n],
                  .d_k = m->d_k,
                  .d_v = m->d_v,
                  .causal = is_self && a->queries->is_decoder};
}

const float *attention_forward_at(const group *g, const stack *stack, int64_t layer, const float *x,
                                  const float *encoded) {
    const train_model *m = g->model;
    attention_sublayer a = attention_at(g, stack, layer, x, encoded);
    const saved_attention *s = a.saved;
    const int64_t *starts = a.queries->starts;
    int64_t values = m->heads * m->d_v, rows = a.queries->rows;
    const float *input = sublayer_input(g, &a.box->norm, a.x, rows, &s->residual);
    const matrix *qkv = &a.packed->qkv.forward, *kv = &a.packed->kv.forward;
    matmul(qkv, input, m->d_model, rows, s->qkv, qkv->out, OVERWRITE, g->scratch);
    if (a.encoded)
        matmul(kv, a.encoded, m->d_model, a.keys->rows, s->kv, kv->out, OVERWRITE, g->scratch);
    float *weights = s->weights;
    for (int64_t n = 0; n < g->sentences; n++)
        for (int64_t h = 0; h < m->heads; h++) {
            head each = head_of(g, &a, n, h);
            float *out = s->heads + (starts[n] - starts[0]) * values + h * m->d_v;
            attention_forward(&each, weights, out, values, &a.weights_rng, g->scratch);
            weights += each.num_queries * pad_to_lanes(each.num_keys);
        }
    matmul(&a.packed->output.forward, s->heads, values, rows, g->out, m->d_model, OVERWRITE,
           g->scratch);
    residual_forward(g, &a.box->norm, a.x, rows, a.rng, &s->residual);
    return s->residual.y;
}

void attention_backward_at(const group *g, const stack *stack, int64_t layer, const float *x,
                           const float *encoded) {
    const train_model *m = g->model;
    attention_sublayer a = attention_at(g, stack, layer, x, encoded);
    const saved_attention *s = a.saved;
    const int64_t *q_starts = a.queries->starts, *k_starts = a.keys->starts;
    int64_t keys = m->heads * m->d_k, values = m->heads * m->d_v, rows = a.queries->rows;
    const linear *const qkv[] = {&a.box->queries, &a.box->keys, &a.box->values};
    const linear *const output[] = {&a.box->output};
    residual_backward(g, &a.box->norm, rows, a.rng, &s->residual);
    linear_backward(g, output, 1, &a.packed->output.backward, s->heads, rows, g->grad_out,
                    g->grad_heads, OVERWRITE);
    const float *weights = s->weights;
    for (int64_t n = 0; n < g->sentences; n++)
        for (int64_t h = 0; h < m->heads; h++) {
            head each = head_of(g, &a, n, h);
            int64_t row = q_starts[n] - q_starts[0];
            float *kv = a.encoded ? g->grad_kv : g->grad_qkv + keys;
            kv += (k_starts[n] - k_starts[0]) * each.ldk;
            head_gradients to = {g->grad_qkv + row * each.ldq + h * m->d_k, kv + h * m->d_k,
                                 kv + keys + h * m->d_v};
            attention_backward(&each, weights, g->grad_heads + row * values + h * m->d_v, values,
                               to, &a.weights_rng, g->scratch);
            weights += each.num_queries * pad_to_lanes(each.num_keys);
        }
    input_backward(g, &a.box->norm, qkv, a.encoded ? 1 : 3, &a.packed->qkv.backward, a.x, rows,
                   g->grad_qkv, &s->residual);
    if (a.encoded)
        linear_backward(g, qkv + 1, 2, &a.packed->kv.backward, a.encoded, a.keys->rows, g->grad_kv,
                        g->grad_encoded, ACCUMULATE);
}

const float *feed_forward_at(const group *g, const stack *s, int64_t layer, const float *x) {
    const train_model *m = g->model;
    const block *b = s->blocks + layer;
    const packed_block *packed = s->packed + layer;
    const saved_layer *saved = s->saved + layer;
    const float *input = sublayer_input(g, &b->norm, x, s->rows, &saved->residual);
    float *sums = saved->pre_activation ? saved->pre_activation : saved->hidden;
    int64_t fused = saved->pre_activation ? NO_ACTIVATION : RELU, size = s->rows * m->d_ff;
    matmul(&packed->expand.forward, input, m->d_model, s->rows, sums, m->d_ff,
           (matmul_opts){.activation = fused}, g->scratch);
    if (saved->pre_activation) activation_forward(sums, size, m->activation, saved->hidden);
    dropout_rng rng = dropout_at(g, s, layer + 1, HIDDEN, m->feed_forward_dropout);
    dropout(&rng, saved->hidden, size);
    matmul(&packed->project.forward, saved->hidden, m->d_ff, s->rows, g->out, m->d_model, OVERWRITE,
           g->scratch);
    rng = dropout_at(g, s, layer + 1, FEED_FORWARD, m->dropout);
    residual_forward(g, &b->norm, x, s->rows, rng, &saved->residual);
    return saved->residual.y;
}

void feed_forward_backward_at(const group *g, const stack *s, int64_t layer, const float *x) {
    const train_model *m = g->model;
    const block *b = s->blocks + layer;
    const packed_block *packed = s->packed + layer;
    const saved_layer *saved = s->saved + layer;
    const linear *const expand[] = {&b->expand}, *const project[] = {&b->project};
    int64_t size = s->rows * m->d_ff;
    dropout_rng rng = dropout_at(g, s, layer + 1, FEED_FORWARD, m->dropout);
    residual_backward(g, &b->norm, s->rows, rng, &saved->residual);
    linear_backward(g, project, 1, &packed->project.backward, saved->hidden, s->rows, g->grad_out,
                    g->grad_hidden, OVERWRITE);
    rng = dropout_at(g, s, layer + 1, HIDDEN, m->feed_forward_dropout);
    dropout(&rng, g->grad_hidden, size);
    activation_backward(saved->pre_activation ? saved->pre_activation : saved->hidden, size,
                        m->activation, g->grad_hidden);
    input_backward(g, &b->norm, expand, 1, &packed->expand.backward, x, s->rows, g->grad_hidden,
                   &saved->residual);
}
