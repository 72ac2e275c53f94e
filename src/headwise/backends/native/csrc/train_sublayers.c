/* The sublayers of a training step, forward and backward: attention and feed-forward, each with its
 * residual connection and norm, before it (pre-norm) or after it (post-norm).
 *
 * Activations are [R, width], the heads of a position side by side; attention weights are
 * [sentences, H, Q, pad_to_lanes(K)] of each sentence's own lengths.
 *
 * Reference: model/attention.py, model/feed_forward.py and model/add_and_norm.py; tests/backends/
 * native/test_training.py holds gradients equal to autograd's. */
#include "rotary.h"
#include "small_matmul.h"
#include "train_group.h"

/* Queries and keys from which tiles are faster: of fewer, to pack them takes longer. */
#define TILES_FROM 64

INLINE int64_t is_cross(const sublayer_state *l) { return l->sublayer->kind == CROSS_ATTENTION; }

INLINE dropout_rng output_dropout(const group *g, const stack_state *s, const sublayer_state *l) {
    return dropout_at(g, s, l->number, output_place(l->sublayer), g->model->dropout);
}

INLINE dropout_rng weights_dropout(const group *g, const stack_state *s, const sublayer_state *l) {
    return dropout_at(g, s, l->number, is_cross(l) ? CROSS_WEIGHTS_DROPOUT : SELF_WEIGHTS_DROPOUT,
                      g->model->attention_dropout);
}

INLINE dropout_rng hidden_dropout(const group *g, const stack_state *s, const sublayer_state *l) {
    return dropout_at(g, s, l->number, HIDDEN_DROPOUT, g->model->feed_forward_dropout);
}

/* Input of a sublayer: x, normalized first in pre-norm models. */
static const float *sublayer_input(const group *g, const stack_state *s, const sublayer_state *l) {
    if (!g->model->pre_norm) return l->x;
    norm(&l->sublayer->norm, hidden_shape(g, s), l->x, l->norm.stats, l->input);
    return l->input;
}

/* Add what a sublayer computed, which stands in g->out, to x. */
static void residual_forward(const group *g, const stack_state *s, const sublayer_state *l) {
    dropout_rng rng = output_dropout(g, s, l);
    if (g->model->pre_norm)
        add_residual(hidden_shape(g, s), rng, l->x, g->out, l->y);
    else
        add_and_norm(&l->sublayer->norm, hidden_shape(g, s), rng, l->x, g->out, l->norm, l->y);
}

/* From the gradient of y in g->grad_x to that of the sublayer's output in g->grad_out; g->grad_x
 * keeps what goes around the sublayer. */
static void residual_backward(const group *g, const stack_state *s, const sublayer_state *l) {
    dropout_rng rng = output_dropout(g, s, l);
    if (g->model->pre_norm)
        add_residual_backward(hidden_shape(g, s), rng, g->grad_x, g->grad_out);
    else
        add_and_norm_backward(&l->sublayer->norm, hidden_shape(g, s), rng, l->norm, g->grad_x,
                              g->grad_x, g->grad_out);
}

/* Linears that were applied to x [rows, in] as one matrix. */
typedef struct {
    const linear *linears[3];
    int64_t count;
    const matrix *backward; /* the matrix, transposed */
    const float *x;
    int64_t rows;
    const float *grad_y; /* [rows, out of all] */
} joined_linears;

/* The gradients of the linears, and of x. */
static void linear_backward(const group *g, const joined_linears *l, float *grad_x,
                            matmul_opts opts) {
    const matrix *back = l->backward;
    int64_t rows = l->rows, in = back->out, ld = back->in;
    matmul(back, l->grad_y, ld, rows, grad_x, in, opts, g->scratch);
    matrix packed_x = {.in = rows, .out = in, .terms = back->terms, .weight = g->packed_x};
    pack_matrix(l->x, in, rows, in, back->terms, g->packed_x);
    const float *grad_y = l->grad_y;
    for (int64_t i = 0; i < l->count; grad_y += l->linears[i++]->out) {
        const linear *each = l->linears[i];
        matmul(&packed_x, grad_y, ld, each->out, each->grad_weight, in, TRANSPOSED_ACCUMULATE,
               g->scratch);
        if (each->grad_bias)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t j = 0; j < each->out; j++) each->grad_bias[j] += grad_y[row * ld + j];
    }
}

/* The same for the first linears of a sublayer, whose x is its input: adds to the gradient of x. */
static void input_backward(const group *g, const stack_state *s, const sublayer_state *l,
                           joined_linears first) {
    first.rows = s->rows;
    first.x = g->model->pre_norm ? l->input : l->x;
    if (!g->model->pre_norm) {
        linear_backward(g, &first, g->grad_x, ACCUMULATE);
        return;
    }
    linear_backward(g, &first, g->grad_input, OVERWRITE);
    norm_backward(&l->sublayer->norm, hidden_shape(g, s), l->x, l->norm.stats, g->grad_input,
                  g->grad_x, 1);
}

/* Head h of sentence n; `s` is the stack that asks, which attends to itself or to the encoder;
 * tiles: whether it may go by AMX tiles. */
INLINE head head_of(const group *g, const stack_state *s, const sublayer_state *l, int64_t tiles,
                    int64_t n, int64_t h) {
    const transformer *m = g->model;
    const int64_t *q_starts = s->starts, *k_starts = is_cross(l) ? g->encoder.starts : s->starts;
    int64_t keys = keys_width(m), values = values_width(m);
    int64_t ldq = is_cross(l) ? keys : 2 * keys + values, ldk = is_cross(l) ? keys + values : ldq;
    const float *kv = is_cross(l) ? l->kv : l->qkv + keys;
    int64_t queries = q_starts[n + 1] - q_starts[n], attended = k_starts[n + 1] - k_starts[n];
    kv += (k_starts[n] - k_starts[0]) * ldk;
    return (head){.queries = l->qkv + (q_starts[n] - q_starts[0]) * ldq + h * m->d_k,
                  .keys = kv + h * m->d_k,
                  .values = kv + keys + h * m->d_v,
                  .ldq = ldq,
                  .ldk = ldk,
                  .ldv = ldk,
                  .num_queries = queries,
                  .num_keys = attended,
                  .d_k = m->d_k,
                  .d_v = m->d_v,
                  .causal = l->sublayer->kind == CAUSAL_SELF_ATTENTION,
                  .window = m->window,
                  .by_tiles = tiles && queries >= TILES_FROM && attended >= TILES_FROM};
}

/* Rotate queries and keys, or their gradients, where the stack has rotary positions. */
static void rotate(const group *g, const stack_state *s, const sublayer_state *l, float direction,
                   float *qkv) {
    int64_t width = 2 * keys_width(g->model) + values_width(g->model);
    if (!s->stack->rotations || is_cross(l)) return;
    for (int64_t n = 0; n < g->sentences; n++)
        for (int64_t row = s->starts[n]; row < s->starts[n + 1]; row++, qkv += width)
            rotate_row(g->model, s->stack, row - s->starts[n], direction, qkv);
}

static void attention_sublayer(const group *g, const stack_state *s, const sublayer_state *l) {
    const transformer *m = g->model;
    const packed_sublayer *packed = &l->packed->forward;
    int64_t values = values_width(m), size = m->d_model;
    dropout_rng rng = weights_dropout(g, s, l);
    const float *input = sublayer_input(g, s, l);
    matmul(&packed->qkv, input, size, s->rows, l->qkv, packed->qkv.out, OVERWRITE, g->scratch);
    rotate(g, s, l, 1, l->qkv);
    if (is_cross(l))
        matmul(&packed->kv, g->encoded, size, g->encoder.rows, l->kv, packed->kv.out, OVERWRITE,
               g->scratch);
    float *weights = l->weights;
    int64_t tiles = begin_tiles(m->terms);
    for (int64_t n = 0; n < g->sentences; n++)
        for (int64_t h = 0; h < m->heads; h++) {
            head each = head_of(g, s, l, tiles, n, h);
            float *out = l->heads + (s->starts[n] - s->starts[0]) * values + h * m->d_v;
            attention_forward(&each, weights, out, values, &rng, g->scratch);
            weights += each.num_queries * pad_to_lanes(each.num_keys);
        }
    end_tiles(tiles);
    matmul(&packed->output, l->heads, values, s->rows, g->out, size, OVERWRITE, g->scratch);
    residual_forward(g, s, l);
}

/* Gradients of queries, keys and values, in g->grad_qkv and in cross-attention g->grad_kv. */
static void heads_backward(const group *g, const stack_state *s, const sublayer_state *l) {
    const transformer *m = g->model;
    const int64_t *q_starts = s->starts, *k_starts = is_cross(l) ? g->encoder.starts : s->starts;
    int64_t keys = keys_width(m), values = values_width(m);
    dropout_rng rng = weights_dropout(g, s, l);
    const float *weights = l->weights;
    int64_t tiles = begin_tiles(m->terms);
    for (int64_t n = 0; n < g->sentences; n++)
        for (int64_t h = 0; h < m->heads; h++) {
            head each = head_of(g, s, l, tiles, n, h);
            int64_t row = q_starts[n] - q_starts[0];
            float *kv = is_cross(l) ? g->grad_kv : g->grad_qkv + keys;
            kv += (k_starts[n] - k_starts[0]) * each.ldk;
            head_gradients to = {g->grad_qkv + row * each.ldq + h * m->d_k, kv + h * m->d_k,
                                 kv + keys + h * m->d_v};
            attention_backward(&each, weights, g->grad_heads + row * values + h * m->d_v, values,
                               to, &rng, g->scratch);
            weights += each.num_queries * pad_to_lanes(each.num_keys);
        }
    end_tiles(tiles);
}

static void attention_sublayer_backward(const group *g, const stack_state *s,
                                        const sublayer_state *l) {
    const sublayer *own = l->sublayer;
    const packed_sublayer *packed = &l->packed->backward;
    joined_linears output = {{&own->output}, 1, &packed->output, l->heads, s->rows, g->grad_out};
    joined_linears qkv = {{&own->queries, &own->keys, &own->values},
                          .count = is_cross(l) ? 1 : 3,
                          .backward = &packed->qkv,
                          .grad_y = g->grad_qkv};
    residual_backward(g, s, l);
    linear_backward(g, &output, g->grad_heads, OVERWRITE);
    heads_backward(g, s, l);
    rotate(g, s, l, -1, g->grad_qkv);
    input_backward(g, s, l, qkv);
    if (!is_cross(l)) return;
    joined_linears kv = {{&own->keys, &own->values}, 2,         &packed->kv, g->encoded,
                         g->encoder.rows,            g->grad_kv};
    linear_backward(g, &kv, g->grad_encoded, ACCUMULATE);
}

static void feed_forward_sublayer(const group *g, const stack_state *s, const sublayer_state *l) {
    const transformer *m = g->model;
    const packed_sublayer *packed = &l->packed->forward;
    const float *input = sublayer_input(g, s, l);
    float *sums = l->pre_activation ? l->pre_activation : l->hidden;
    int64_t fused = l->pre_activation ? NO_ACTIVATION : RELU, size = s->rows * m->d_ff;
    matmul(&packed->expand, input, m->d_model, s->rows, sums, m->d_ff,
           (matmul_opts){.activation = fused}, g->scratch);
    if (l->pre_activation) activation_forward(sums, size, m->activation, l->hidden);
    dropout_rng rng = hidden_dropout(g, s, l);
    dropout(&rng, l->hidden, size);
    matmul(&packed->project, l->hidden, m->d_ff, s->rows, g->out, m->d_model, OVERWRITE,
           g->scratch);
    residual_forward(g, s, l);
}

static void feed_forward_sublayer_backward(const group *g, const stack_state *s,
                                           const sublayer_state *l) {
    const transformer *m = g->model;
    const sublayer *own = l->sublayer;
    const packed_sublayer *packed = &l->packed->backward;
    joined_linears project = {{&own->project}, 1,       &packed->project,
                              l->hidden,       s->rows, g->grad_out};
    joined_linears expand = {
        {&own->expand}, .count = 1, .backward = &packed->expand, .grad_y = g->grad_hidden};
    int64_t size = s->rows * m->d_ff;
    residual_backward(g, s, l);
    linear_backward(g, &project, g->grad_hidden, OVERWRITE);
    dropout_rng rng = hidden_dropout(g, s, l);
    dropout(&rng, g->grad_hidden, size);
    activation_backward(l->pre_activation ? l->pre_activation : l->hidden, size, m->activation,
                        g->grad_hidden);
    input_backward(g, s, l, expand);
}

const float *sublayer_forward(const group *g, const stack_state *s, int64_t i, const float *x) {
    sublayer_state *l = s->sublayers + i;
    l->x = x;
    if (l->sublayer->kind == FEED_FORWARD)
        feed_forward_sublayer(g, s, l);
    else
        attention_sublayer(g, s, l);
    return l->y;
}

void sublayer_backward(const group *g, const stack_state *s, int64_t i) {
    const sublayer_state *l = s->sublayers + i;
    if (l->sublayer->kind == FEED_FORWARD)
        feed_forward_sublayer_backward(g, s, l);
    else
        attention_sublayer_backward(g, s, l);
}
