/* The loss and its gradients, without all scores at once: they are computed twice, some
 * words and rows at a time. */
#include "train.h"

#include <math.h>

#define ROWS_AT_A_TIME 256

int64_t loss_spare(int64_t in, int64_t half) {
    int64_t wide = in > AT_A_TIME ? in : AT_A_TIME;
    return ROWS_AT_A_TIME * AT_A_TIME + 4 * ROWS_AT_A_TIME + product_spare(wide, AT_A_TIME) / 4 +
           product_size(AT_A_TIME, in, half) / 4 + product_size(ROWS_AT_A_TIME, in, half) / 4 +
           64;
}

INLINE float *aligned(float *x) { return (float *)(((uintptr_t)x + 63) / 64 * 64); }

double loss_of(const product *scores, const float *hidden, int64_t rows, const int64_t *targets,
               float smoothing, float *logs, float *spare) {
    float *block = spare, *spare_product = aligned(spare + ROWS_AT_A_TIME * AT_A_TIME);
    double loss = 0;
    for (int64_t from = 0; from < rows; from += ROWS_AT_A_TIME) {
        int64_t count = rows - from < ROWS_AT_A_TIME ? rows - from : ROWS_AT_A_TIME;
        float most[ROWS_AT_A_TIME], sum[ROWS_AT_A_TIME], even[ROWS_AT_A_TIME];
        float right[ROWS_AT_A_TIME] = {0};
        for (int64_t row = 0; row < count; row++) most[row] = -INFINITY, sum[row] = even[row] = 0;
        for (int64_t word = 0; word < scores->out; word += AT_A_TIME) {
            product part = product_part(scores, word, AT_A_TIME);
            product_apply(&part, hidden + from * scores->in, scores->in, count, block, AT_A_TIME,
                          PLAIN, spare_product);
            for (int64_t row = 0; row < count; row++) {
                const float *x = block + row * AT_A_TIME;
                int64_t target = targets[from + row] - word, i = 0;
                vec best = all(-INFINITY), total = {0}, plain = {0};
                float before = most[row], rest = 0;
                for (; i + LANES <= part.out; i += LANES) {
                    best = larger(load(x + i), best);
                    plain += load(x + i);
                }
                float largest = largest_of(best), also = 0;
                for (int64_t j = i; j < part.out; j++) {
                    largest = x[j] > largest ? x[j] : largest;
                    also += x[j];
                }
                if (largest > before) most[row] = largest;
                for (int64_t j = 0; j < i; j += LANES)
                    total += exp_of(load(x + j) - most[row]);
                for (int64_t j = i; j < part.out; j++) rest += expf(x[j] - most[row]);
                sum[row] = sum[row] * expf(before - most[row]) + sum_of(total) + rest;
                even[row] += sum_of(plain) + also;
                if (target >= 0 && target < part.out) right[row] = x[target];
            }
        }
        for (int64_t row = 0; row < count; row++) {
            float log = most[row] + logf(sum[row]);
            logs[from + row] = log;
            loss += log - (1 - smoothing) * right[row] - smoothing / scores->out * even[row];
        }
    }
    return loss;
}

void loss_back(const linear *l, const product *scores, const float *hidden, int64_t rows,
               const int64_t *targets, float smoothing, const float *logs, float scale,
               float *to_hidden, float *spare) {
    float *block = spare, *words = aligned(spare + ROWS_AT_A_TIME * AT_A_TIME);
    float *seen = aligned(words + product_size(AT_A_TIME, l->in, scores->half) / 4);
    float *room = aligned(seen + product_size(ROWS_AT_A_TIME, l->in, scores->half) / 4);
    memset(to_hidden, 0, rows * l->in * 4);
    for (int64_t word = 0; word < l->out; word += AT_A_TIME) {
        product part = product_part(scores, word, AT_A_TIME);
        product back = {.in = part.out, .out = l->in, .half = scores->half, .weight = words};
        product_lay_out(l->weight + word * l->in, l->in, part.out, l->in, back.half, words);
        for (int64_t from = 0; from < rows; from += ROWS_AT_A_TIME) {
            int64_t count = rows - from < ROWS_AT_A_TIME ? rows - from : ROWS_AT_A_TIME;
            const float *x = hidden + from * l->in;
            product_apply(&part, x, l->in, count, block, AT_A_TIME, PLAIN, room);
            for (int64_t row = 0; row < count; row++) {
                float *g = block + row * AT_A_TIME, less = logs[from + row];
                float even = scale * smoothing / l->out;
                int64_t target = targets[from + row] - word, i = 0;
                for (; i + LANES <= part.out; i += LANES)
                    store(g + i, exp_of(load(g + i) - less) * scale - even);
                for (; i < part.out; i++) g[i] = expf(g[i] - less) * scale - even;
                if (target >= 0 && target < part.out) g[target] -= scale * (1 - smoothing);
            }
            product_apply(&back, block, AT_A_TIME, count, to_hidden + from * l->in, l->in, ADDED,
                          room);
            product rows_seen = {.in = count, .out = l->in, .half = scores->half,
                                 .weight = seen};
            product_lay_out(x, l->in, count, l->in, scores->half, seen);
            product_apply(&rows_seen, block, AT_A_TIME, part.out, l->to_weight + word * l->in,
                          l->in, TURNED_AND_ADDED, room);
            if (l->to_bias)
                for (int64_t row = 0; row < count; row++)
                    for (int64_t i = 0; i < part.out; i++)
                        l->to_bias[word + i] += block[row * AT_A_TIME + i];
        }
    }
}
