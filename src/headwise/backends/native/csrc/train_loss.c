/* Label-smoothed cross-entropy and its gradients, over blocks of rows and vocabulary, so that the
 * scores of a batch never stand in memory at once: those of a block of rows do, [rows, row_stride],
 * until their gradients took their place.
 *
 * Of two passes, a block has as many rows of the first as of the second, in the same order, and
 * train_consistency.c does what is between the matmuls.
 *
 * Reference: cross_entropy in losses.py; tests/backends/native/test_training.py holds loss and
 * gradients equal to autograd's. */
#include "train_loss.h"

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
    float *hidden, *grad_hidden; /* [rows, in]; of two passes, as targets are [rows] */
    int64_t *targets;
} loss_scratch;

/* The scratch of a block of rows. */
INLINE loss_scratch alloc_loss(int64_t in, int64_t out, int64_t rows, int64_t terms, int64_t form,
                               arena *a) {
    loss_scratch s = {0};
    int64_t widest = in > VOCAB_BLOCK ? in : VOCAB_BLOCK;
    int64_t highest = rows > VOCAB_BLOCK ? rows : VOCAB_BLOCK;
    s.scores = alloc_floats(a, rows * row_stride(out));
    s.max_history = alloc_floats(a, max_history_size(out, rows));
    s.packed_hidden = alloc(a, packed_bytes(rows, in, terms));
    s.matmul_scratch = alloc(a, matmul_scratch_bytes(widest, highest));
    if (form == SINGLE_PASS) return s;
    s.hidden = alloc_floats(a, rows * in);
    s.grad_hidden = alloc_floats(a, rows * in);
    s.targets = alloc(a, rows * sizeof(int64_t));
    return s;
}

int64_t loss_scratch_floats(int64_t in, int64_t out, int64_t rows, int64_t terms, int64_t form) {
    arena a = {0};
    alloc_loss(in, out, rows_per_block(out, rows), terms, form, &a);
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

/* A block of rows on its way from scores to gradients. */
typedef struct {
    const loss_request *request;
    int64_t rows, ld;   /* ld: from a row of scores to the next */
    float *scores, *max_history;
    row_stats *stats;   /* [rows]; of two passes, both of a position side by side */
    float *logs;        /* [rows] */
    pass_sums *sums;    /* [rows / 2], of two passes */
} score_block;

/* Take up the scores of the tokens from `token` on. */
static void update_rows(const score_block *b, int64_t token, int64_t size) {
    const int64_t *targets = b->request->targets, ld = b->ld;
    float *x = b->scores + token;
    if (b->request->consistency.form) {
        int64_t half = b->rows / 2;
        for (int64_t i = 0; i < half; i++)
            update_passes(b->stats + 2 * i, x + i * ld, x + (half + i) * ld, token, size,
                          targets[i]);
        return;
    }
    for (int64_t row = 0; row < b->rows; row++) {
        softmax_block(b->stats + row, x + row * ld, token, size, targets[row]);
        b->max_history[token / VOCAB_BLOCK * b->rows + row] = b->stats[row].max_score;
    }
}

static batch_loss sum_rows(const score_block *b) {
    const loss_request *r = b->request;
    int64_t out = r->output->out;
    double loss = 0;
    for (int64_t row = 0; row < b->rows; row++) {
        const row_stats *s = b->stats + row;
        b->logs[row] = log_sum(s);
        if (r->targets[row] < 0) continue;
        loss += smoothed_loss(s, b->logs[row], r->smoothing, out);
    }
    return (batch_loss){.total = loss};
}

static batch_loss sum_positions(const score_block *b) {
    const loss_request *r = b->request;
    pass_weights w = weigh_passes(r->consistency);
    double loss = 0, divergence = 0;
    for (int64_t i = 0; i < b->rows / 2; i++) {
        const row_stats *s = b->stats + 2 * i;
        pass_sums *sums = b->sums + i;
        *sums = sum_passes(s);
        if (r->targets[i] < 0) continue;
        for (int pass = 0; pass < 2; pass++) {
            loss += w.loss[pass] *
                    smoothed_loss(s + pass, sums->logs[pass], r->smoothing, r->output->out);
            divergence += w.divergence[pass] * sums->divergences[pass];
        }
    }
    loss += divergence;
    return (batch_loss){loss, divergence / r->consistency.weight};
}

/* Replace the scores of the tokens from `token` on, or what softmax_block left of them, by their
 * gradients. */
static void differentiate_rows(const score_block *b, int64_t token, int64_t size) {
    const loss_request *r = b->request;
    float *g = b->scores + token, smoothing = r->smoothing;
    int64_t out = r->output->out;
    for (int64_t row = 0; row < b->rows; row++, g += b->ld) {
        if (r->targets[row] < 0) {
            memset(g, 0, size * 4);
            continue;
        }
        float before = b->max_history[token / VOCAB_BLOCK * b->rows + row];
        float scale = scalar_exp(before - b->logs[row]);
        softmax_gradient(g, scale, smoothing / out, size);
        int64_t target = r->targets[row] - token;
        if (target >= 0 && target < size) g[target] -= 1 - smoothing;
    }
}

static void differentiate_passes(const score_block *b, int64_t token, int64_t size) {
    const loss_request *r = b->request;
    pass_weights w = weigh_passes(r->consistency);
    float *x = b->scores + token, *y = x + b->rows / 2 * b->ld, smoothing = r->smoothing;
    int64_t out = r->output->out;
    for (int64_t i = 0; i < b->rows / 2; i++, x += b->ld, y += b->ld) {
        if (r->targets[i] < 0) {
            memset(x, 0, size * 4);
            memset(y, 0, size * 4);
            continue;
        }
        passes_gradient(&w, b->sums + i, smoothing / out, x, y, size);
        int64_t target = r->targets[i] - token;
        if (target < 0 || target >= size) continue;
        x[target] -= w.loss[0] * (1 - smoothing);
        y[target] -= w.loss[1] * (1 - smoothing);
    }
}

static batch_loss loss_of_rows(const loss_request *r, const loss_scratch *scratch) {
    const linear *l = r->output;
    const int64_t rows = r->rows, ld = row_stride(l->out), in = l->in, terms = r->scores->terms;
    const int64_t has_passes = r->consistency.form != SINGLE_PASS;
    const char *packed_backward = r->scores_backward;
    row_stats stats[rows];
    float logs[rows];
    pass_sums sums[(rows + 1) / 2];
    score_block block = {r, rows, ld, scratch->scores, scratch->max_history, stats, logs, sums};
    void *work = scratch->matmul_scratch;
    for (int64_t row = 0; row < rows; row++) stats[row] = (row_stats){.max_score = -INFINITY};
    for (int64_t token = 0; token < l->out; token += VOCAB_BLOCK) {
        matrix columns = matrix_columns(r->scores, token, VOCAB_BLOCK);
        matmul(&columns, r->hidden, in, rows, block.scores + token, ld, OVERWRITE, work);
        update_rows(&block, token, columns.out);
    }
    batch_loss loss = has_passes ? sum_positions(&block) : sum_rows(&block);

    matrix hidden = {.in = rows, .out = in, .terms = terms, .weight = scratch->packed_hidden};
    pack_matrix(r->hidden, in, rows, in, terms, scratch->packed_hidden);
    memset(r->grad_hidden, 0, rows * in * 4);
    for (int64_t token = 0; token < l->out; token += BACKWARD_BLOCK) {
        int64_t size = l->out - token < BACKWARD_BLOCK ? l->out - token : BACKWARD_BLOCK;
        float *g = block.scores + token;
        matrix weights = {.in = size, .out = in, .terms = terms, .weight = packed_backward};
        packed_backward += packed_bytes(BACKWARD_BLOCK, in, terms);
        if (has_passes)
            differentiate_passes(&block, token, size);
        else
            differentiate_rows(&block, token, size);
        matmul(&weights, g, ld, rows, r->grad_hidden, in, ACCUMULATE, work);
        matmul(&hidden, g, ld, size, l->grad_weight + token * in, in, TRANSPOSED_ACCUMULATE, work);
        if (l->grad_bias)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t i = 0; i < size; i++) l->grad_bias[token + i] += g[row * ld + i];
    }
    return loss;
}

/* The same of `count` positions from `from` on in two passes, whose rows are put together first. */
static batch_loss loss_of_positions(const loss_request *r, int64_t from, int64_t count,
                                    const loss_scratch *scratch) {
    int64_t in = r->output->in, half = r->rows / 2;
    loss_request block = *r;
    block.rows = 2 * count;
    block.hidden = scratch->hidden;
    block.targets = scratch->targets;
    block.grad_hidden = scratch->grad_hidden;
    for (int64_t i = 0; i < block.rows; i++) {
        int64_t row = r->order[i < count ? from + i : half + from + i - count];
        memcpy(scratch->hidden + i * in, r->hidden + row * in, in * 4);
        scratch->targets[i] = r->targets[row];
    }
    batch_loss loss = loss_of_rows(&block, scratch);
    for (int64_t i = 0; i < block.rows; i++) {
        int64_t row = r->order[i < count ? from + i : half + from + i - count];
        memcpy(r->grad_hidden + row * in, scratch->grad_hidden + i * in, in * 4);
    }
    return loss;
}

static batch_loss loss_of_block(const loss_request *r, int64_t from, int64_t rows,
                                const loss_scratch *scratch) {
    int64_t in = r->output->in;
    loss_request block = *r;
    block.rows = rows;
    block.hidden += from * in;
    block.targets += from;
    block.grad_hidden += from * in;
    return loss_of_rows(&block, scratch);
}

batch_loss loss_and_gradients(const loss_request *r, float *scratch) {
    int64_t in = r->output->in, num_rows = rows_per_block(r->output->out, r->rows);
    int64_t passes = r->consistency.form ? 2 : 1;
    int64_t positions = r->rows / passes, at_once = num_rows / passes;
    arena a = {align_to_64(scratch), 0};
    loss_scratch s =
        alloc_loss(in, r->output->out, num_rows, r->scores->terms, r->consistency.form, &a);
    batch_loss sum = {0};
    for (int64_t from = 0; from < positions; from += at_once) {
        int64_t count = positions - from < at_once ? positions - from : at_once;
        batch_loss loss = passes == 2 ? loss_of_positions(r, from, count, &s)
                                      : loss_of_block(r, from, count, &s);
        sum.total += loss.total;
        sum.divergence += loss.divergence;
    }
    end_arena(&a);
    return sum;
}
