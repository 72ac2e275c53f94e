/* The loss and its gradients, without all scores of a batch at once: those of some rows. */
#include "train.h"

#include <math.h>

#define SCORES_AT_A_TIME (1 << 22) /* numbers, which are kept from the loss to its gradients */
#define WORDS_BACK 256             /* words whose gradients are computed and passed on together */

INLINE int64_t wide(int64_t out) { return filled(out) + LANES; } /* no power of two */

INLINE int64_t rows_together(int64_t out, int64_t rows) {
    int64_t most = SCORES_AT_A_TIME / wide(out);
    most = most < 32 ? 32 : most;
    return rows < most ? rows : most;
}

/* Numbers for the largest score of each row when each block of words was looked at. */
INLINE int64_t most_size(int64_t out, int64_t rows) {
    return filled((out + AT_A_TIME - 1) / AT_A_TIME * rows);
}

int64_t loss_spare(int64_t in, int64_t out, int64_t rows, int64_t parts) {
    int64_t together = rows_together(out, rows), widest = in > AT_A_TIME ? in : AT_A_TIME;
    int64_t highest = together > AT_A_TIME ? together : AT_A_TIME;
    return together * wide(out) + most_size(out, together) + product_spare(widest, highest) / 4 +
           product_size(together, in, parts) / 4 + 64;
}

/* Words are laid out block by block, as they are multiplied with. */
int64_t loss_back_size(int64_t in, int64_t out, int64_t parts) {
    return (out + WORDS_BACK - 1) / WORDS_BACK * product_size(WORDS_BACK, in, parts);
}

void loss_lay_out(const float *weight, int64_t in, int64_t out, int64_t parts, void *to) {
    for (int64_t word = 0; word < out; word += WORDS_BACK) {
        int64_t there = out - word < WORDS_BACK ? out - word : WORDS_BACK;
        product_lay_out(weight + word * in, in, there, in, parts, to);
        to = (char *)to + product_size(WORDS_BACK, in, parts);
    }
}

INLINE float *aligned(float *x) { return (float *)(((uintptr_t)x + 63) / 64 * 64); }

/* What is known of a row so far. */
typedef struct {
    float most, sum, even, right; /* sum: of e^(score - most) */
} seen;

/* Look at further scores x of a row, the first of which is word `word`, and leave e^(score -
 * most) in their place. */
INLINE void look_at(seen *s, float *x, int64_t word, int64_t size, int64_t target) {
    vec best = all(-INFINITY), total = {0}, plain = {0};
    float before = s->most, rest = 0, also = 0;
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) {
        best = larger(load(x + i), best);
        plain += load(x + i);
    }
    float largest = largest_of(best);
    for (int64_t j = i; j < size; j++) {
        largest = x[j] > largest ? x[j] : largest;
        also += x[j];
    }
    if (largest > before) s->most = largest;
    if (target >= word && target < word + size) s->right = x[target - word];
    for (int64_t j = 0; j < i; j += LANES) {
        vec each = exp_of(load(x + j) - s->most);
        store(x + j, each);
        total += each;
    }
    for (int64_t j = i; j < size; j++) rest += x[j] = expf(x[j] - s->most);
    s->sum = s->sum * expf(before - s->most) + sum_of(total) + rest;
    s->even += sum_of(plain) + also;
}

/* Make gradients of what look_at left: softmax - what is wanted. */
INLINE void turn_back(float *x, float share, float even, int64_t size) {
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) store(x + i, load(x + i) * share - even);
    for (; i < size; i++) x[i] = x[i] * share - even;
}

static double some_rows(const linear *l, const product *scores, const char *back,
                        const float *hidden, int64_t rows, const int64_t *targets,
                        float smoothing, float *to_hidden, float *block, float *room) {
    int64_t ld = wide(l->out), in = l->in, parts = scores->parts;
    seen known[rows];
    float logs[rows], *most = room;
    double loss = 0;
    room += most_size(l->out, rows);
    for (int64_t row = 0; row < rows; row++) known[row] = (seen){.most = -INFINITY};
    for (int64_t word = 0; word < l->out; word += AT_A_TIME) {
        product part = product_part(scores, word, AT_A_TIME);
        product_apply(&part, hidden, in, rows, block + word, ld, PLAIN, room);
        for (int64_t row = 0; row < rows; row++) {
            look_at(known + row, block + row * ld + word, word, part.out, targets[row]);
            most[word / AT_A_TIME * rows + row] = known[row].most;
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        const seen *s = known + row;
        logs[row] = s->most + logf(s->sum);
        loss += logs[row] - (1 - smoothing) * s->right - smoothing / l->out * s->even;
    }

    product rows_seen = {.in = rows, .out = in, .parts = parts, .weight = room};
    float *spare = aligned(room + product_size(rows, in, parts) / 4);
    product_lay_out(hidden, in, rows, in, parts, room);
    memset(to_hidden, 0, rows * in * 4);
    for (int64_t word = 0; word < l->out; word += WORDS_BACK) {
        int64_t size = l->out - word < WORDS_BACK ? l->out - word : WORDS_BACK;
        float *g = block + word;
        product words = {.in = size, .out = in, .parts = parts, .weight = back};
        back += product_size(WORDS_BACK, in, parts);
        for (int64_t row = 0; row < rows; row++) {
            float share = expf(most[word / AT_A_TIME * rows + row] - logs[row]);
            turn_back(g + row * ld, share, smoothing / l->out, size);
            int64_t target = targets[row] - word;
            if (target >= 0 && target < size) g[row * ld + target] -= 1 - smoothing;
        }
        product_apply(&words, g, ld, rows, to_hidden, in, ADDED, spare);
        product_apply(&rows_seen, g, ld, size, l->to_weight + word * in, in, TURNED_AND_ADDED,
                      spare);
        if (l->to_bias)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t i = 0; i < size; i++) l->to_bias[word + i] += g[row * ld + i];
    }
    return loss;
}

double loss_and_back(const linear *l, const product *scores, const void *back,
                     const float *hidden, int64_t rows, const int64_t *targets, float smoothing,
                     float *to_hidden, float *spare) {
    int64_t together = rows_together(l->out, rows);
    float *room = aligned(spare + together * wide(l->out));
    double loss = 0;
    for (int64_t from = 0; from < rows; from += together) {
        int64_t count = rows - from < together ? rows - from : together;
        loss += some_rows(l, scores, back, hidden + from * l->in, count, targets + from,
                          smoothing, to_hidden + from * l->in, spare, room);
    }
    return loss;
}
