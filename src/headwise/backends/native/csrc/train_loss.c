/* Label-smoothed cross-entropy and its gradients, over blocks of rows and vocabulary, so that the
 * scores of a batch never stand in memory at once: those of a block of rows do, [rows, row_stride],
 * until their gradients took their place.
 *
 * Reference: cross_entropy in losses.py; tests/backends/native/test_training.py holds loss and
 * gradients equal to autograd's. */
#include "train.h"

#define MAX_SCORES (1 << 22) /* scores kept from the loss to its gradients */
#define BACKWARD_BLOCK 256   /* tokens whose gradients are computed and propagated together */

INLINE int64_t row_stride(int64_t out) {
    return pad_to_lanes(out) + LANES;
} /* avoids power-of-two strides */

INLINE int64_t rows_per_block(int64_t out, int64_t rows) {
    int64_t most = MAX_SCORES / row_stride(out);
    most = most < 32 ? 32 : most;
    return rows < most ? rows : most;
}

/* Floats for the running maximum of each row after each vocabulary block. */
INLINE int64_t max_history_size(int64_t out, int64_t rows) {
    return pad_to_lanes((out + VOCAB_BLOCK - 1) / VOCAB_BLOCK * rows);
}

typedef struct {
    float *scores, *max_history;
    void *packed_hidden, *matmul_scratch;
} loss_scratch;

/* The scratch of a block of rows. */
INLINE loss_scratch alloc_loss(int64_t in, int64_t out, int64_t rows, int64_t terms, arena *a) {
    loss_scratch s;
    int64_t widest = in > VOCAB_BLOCK ? in : VOCAB_BLOCK;
    int64_t highest = rows > VOCAB_BLOCK ? rows : VOCAB_BLOCK;
    s.scores = alloc_floats(a, rows * row_stride(out));
    s.max_history = alloc_floats(a, max_history_size(out, rows));
    s.packed_hidden = alloc(a, packed_bytes(rows, in, terms));
    s.matmul_scratch = alloc(a, matmul_scratch_bytes(widest, highest));
    return s;
}

int64_t loss_scratch_floats(int64_t in, int64_t out, int64_t rows, int64_t terms) {
    arena a = {0};
    alloc_loss(in, out, rows_per_block(out, rows), terms, &a);
    return a.used / 4 + ARENA_SLACK;
}

/* The output matrix is packed in blocks of the vocabulary, as the backward pass multiplies it. */
int64_t loss_backward_bytes(int64_t in, int64_t out, int64_t terms) {
    return (out + BACKWARD_BLOCK - 1) / BACKWARD_BLOCK * packed_bytes(BACKWARD_BLOCK, in, terms);
}

void loss_pack_backward(const float *weight, int64_t in, int64_t out, int64_t terms, void *to) {
    for (int64_t token = 0; token < out; token += BACKWARD_BLOCK) {
        int64_t size = out - token < BACKWARD_BLOCK ? out - token : BACKWARD_BLOCK;
        pack_matrix(weight + token * in, in, size, in, terms, to);
        to = (char *)to + packed_bytes(BACKWARD_BLOCK, in, terms);
    }
}

/* Running statistics of a row of scores. */
typedef struct {
    float max_score, sum_exp, sum_scores, target_score; /* sum_exp: of e^(score - max_score) */
} row_stats;

/* Update a row's statistics with the scores x of the tokens from `token` on, and replace them by
 * e^(score - max_score). */
INLINE void softmax_block(row_stats *s, float *x, int64_t token, int64_t size, int64_t target) {
    vec best = broadcast(-INFINITY), total = {0}, sum = {0};
    int64_t whole = size / LANES * LANES, rest = size - whole;
    float before = s->max_score;
    for (int64_t i = 0; i < whole; i += LANES) {
        best = vec_max(load(x + i), best);
        sum += load(x + i);
    }
    if (rest) {
        vec scores = load_partial(x + whole, rest);
        best = vec_max(mask_tail(scores, rest, -INFINITY), best);
        sum += scores;
    }
    float largest = reduce_max(best);
    if (largest > before) s->max_score = largest;
    if (target >= token && target < token + size) s->target_score = x[target - token];
    float max_score = s->max_score;
    for (int64_t i = 0; i < whole; i += LANES) {
        vec each = vec_exp(load(x + i) - max_score);
        store(x + i, each);
        total += each;
    }
    if (rest) {
        vec each = vec_exp(load_partial(x + whole, rest) - max_score);
        store_partial(x + whole, each, rest);
        total += mask_tail(each, rest, 0);
    }
    s->sum_exp = s->sum_exp * scalar_exp(before - s->max_score) + reduce_sum(total);
    s->sum_scores += reduce_sum(sum);
}

/* Turn what softmax_block left into gradients of the scores: softmax - smoothed target. */
INLINE void softmax_gradient(float *x, float scale, float uniform, int64_t size) {
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) store(x + i, load(x + i) * scale - uniform);
    for (; i < size; i++) x[i] = x[i] * scale - uniform;
}

static double loss_of_rows(const loss_request *r, const loss_scratch *scratch) {
    const linear *l = r->output;
    const int64_t rows = r->rows, ld = row_stride(l->out), in = l->in, terms = r->scores->terms;
    const float smoothing = r->smoothing;
    const char *packed_backward = r->scores_backward;
    row_stats stats[rows];
    float logs[rows], *block = scratch->scores, *max_history = scratch->max_history;
    void *work = scratch->matmul_scratch;
    double loss = 0;
    for (int64_t row = 0; row < rows; row++) stats[row] = (row_stats){.max_score = -INFINITY};
    for (int64_t token = 0; token < l->out; token += VOCAB_BLOCK) {
        matrix columns = matrix_columns(r->scores, token, VOCAB_BLOCK);
        matmul(&columns, r->hidden, in, rows, block + token, ld, OVERWRITE, work);
        for (int64_t row = 0; row < rows; row++) {
            softmax_block(stats + row, block + row * ld + token, token, columns.out,
                          r->targets[row]);
            max_history[token / VOCAB_BLOCK * rows + row] = stats[row].max_score;
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        const row_stats *s = stats + row;
        logs[row] = s->max_score + scalar_log(s->sum_exp);
        if (r->targets[row] < 0) continue;
        loss += logs[row] - (1 - smoothing) * s->target_score - smoothing / l->out * s->sum_scores;
    }

    matrix hidden = {.in = rows, .out = in, .terms = terms, .weight = scratch->packed_hidden};
    pack_matrix(r->hidden, in, rows, in, terms, scratch->packed_hidden);
    memset(r->grad_hidden, 0, rows * in * 4);
    for (int64_t token = 0; token < l->out; token += BACKWARD_BLOCK) {
        int64_t size = l->out - token < BACKWARD_BLOCK ? l->out - token : BACKWARD_BLOCK;
        float *g = block + token;
        matrix weights = {.in = size, .out = in, .terms = terms, .weight = packed_backward};
        packed_backward += packed_bytes(BACKWARD_BLOCK, in, terms);
        for (int64_t row = 0; row < rows; row++) {
            if (r->targets[row] < 0) {
                memset(g + row * ld, 0, size * 4);
                continue;
            }
            float scale = scalar_exp(max_history[token / VOCAB_BLOCK * rows + row] - logs[row]);
            softmax_gradient(g + row * ld, scale, smoothing / l->out, size);
            int64_t target = r->targets[row] - token;
            if (target >= 0 && target < size) g[row * ld + target] -= 1 - smoothing;
        }
        matmul(&weights, g, ld, rows, r->grad_hidden, in, ACCUMULATE, work);
        matmul(&hidden, g, ld, size, l->grad_weight + token * in, in, TRANSPOSED_ACCUMULATE, work);
        if (l->grad_bias)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t i = 0; i < size; i++) l->grad_bias[token + i] += g[row * ld + i];
    }
    return loss;
}

double loss_and_gradients(const loss_request *r, float *scratch) {
    int64_t in = r->output->in, num_rows = rows_per_block(r->output->out, r->rows);
    arena a = {align_to_64(scratch), 0};
    loss_scratch s = alloc_loss(in, r->output->out, num_rows, r->scores->terms, &a);
    double loss = 0;
    for (int64_t from = 0; from < r->rows; from += num_rows) {
        loss_request block = *r;
        block.rows = r->rows - from < num_rows ? r->rows - from : num_rows;
        block.hidden += from * in;
        block.targets += from;
        block.grad_hidden += from * in;
        loss += loss_of_rows(&block, &s);
    }
    end_arena(&a);
    return loss;
}
