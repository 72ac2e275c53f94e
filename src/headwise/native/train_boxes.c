/* "Add & Norm" and attention, forth and back. */
#include "train.h"

#include <math.h>

INLINE vec some(const float *x, int64_t there) { /* 16 numbers, zeros behind the last */
    if (there >= LANES) return load(x);
    float few[LANES] = {0};
    memcpy(few, x, there * 4);
    return load(few);
}

INLINE void put(float *to, vec x, int64_t there) {
    if (there >= LANES) {
        store(to, x);
        return;
    }
    float few[LANES];
    store(few, x);
    memcpy(to, few, there * 4);
}

void silence(chance *c, float *x, int64_t size) {
    if (!c->silent) return;
    for (int64_t i = 0; i < size; i += LANES) put(x + i, silenced(c, some(x + i, size - i)), size - i);
}

INLINE vec only(vec x, int64_t there) { /* zeros behind the last */
    for (int64_t i = there; i < LANES; i++) x[i] = 0;
    return x;
}

INLINE void summed_and_normed(const learned_norm *n, const float *x, const float *out,
                              int64_t rows, int64_t size, chance c, float *total, float *stats,
                              float *y) {
    chance drawn = c;
    for (int64_t row = 0; row < rows; row++) {
        vec sum = {0}, squares = {0};
        for (int64_t i = 0; i < size; i += LANES) {
            vec heard = some(out + i, size - i);
            if (c.silent) heard = silenced(&drawn, heard);
            vec each = some(x + i, size - i) + heard;
            put(total + i, each, size - i);
            sum += each;
        }
        float mean = sum_of(sum) / size;
        for (int64_t i = 0; i < size; i += LANES) {
            vec away = some(total + i, size - i) - mean;
            if (size - i < LANES) away = only(away, size - i);
            squares += away * away;
        }
        float by = 1 / sqrtf(sum_of(squares) / size + n->eps);
        for (int64_t i = 0; i < size; i += LANES) {
            vec away = (some(total + i, size - i) - mean) * by;
            vec each = away * some(n->weight + i, size - i) + some(n->bias + i, size - i);
            put(y + i, each, size - i);
        }
        stats[0] = mean;
        stats[1] = by;
        x += size, out += size, total += size, y += size, stats += 2;
    }
}

void add_and_norm(const learned_norm *n, const float *x, const float *out, int64_t rows,
                  int64_t size, chance c, float *total, float *stats, float *y) {
    if (size == 128)
        summed_and_normed(n, x, out, rows, 128, c, total, stats, y);
    else if (size == 512)
        summed_and_normed(n, x, out, rows, 512, c, total, stats, y);
    else
        summed_and_normed(n, x, out, rows, size, c, total, stats, y);
}

void add_and_norm_back(const learned_norm *n, const float *to_y, int64_t rows, int64_t size,
                       chance c, const float *total, const float *stats, float *to_x,
                       float *to_out) {
    chance drawn = c;
    for (int64_t row = 0; row < rows; row++) {
        float mean = stats[0], by = stats[1];
        vec plain = {0}, weighed = {0};
        for (int64_t i = 0; i < size; i += LANES) {
            int64_t left = size - i;
            vec normed = (some(total + i, left) - mean) * by, given = some(to_y + i, left);
            vec to_normed = given * some(n->weight + i, left);
            put(n->to_weight + i, some(n->to_weight + i, left) + given * normed, left);
            put(n->to_bias + i, some(n->to_bias + i, left) + given, left);
            plain += to_normed;
            weighed += to_normed * normed;
        }
        float first = sum_of(plain) / size, second = sum_of(weighed) / size;
        for (int64_t i = 0; i < size; i += LANES) {
            int64_t left = size - i;
            vec normed = (some(total + i, left) - mean) * by;
            vec to_normed = some(to_y + i, left) * some(n->weight + i, left);
            vec each = by * (to_normed - first - normed * second);
            put(to_x + i, each, left);
            if (c.silent) each = silenced(&drawn, each);
            put(to_out + i, each, left);
        }
        to_y += size, total += size, to_x += size, to_out += size, stats += 2;
    }
}

int64_t attend_spare(int64_t longest, int64_t key, int64_t value) {
    return filled(longest) * ((key > value ? key : value) + longest + 2);
}

/* Rows [S, ld] of some channels to [channels, filled(S)]. */
INLINE void turned(const float *from, int64_t ld, int64_t size, int64_t channels, float *to) {
    int64_t wide = filled(size);
    for (int64_t s = 0; s < size; s++)
        for (int64_t c = 0; c < channels; c++) to[c * wide + s] = from[s * ld + c];
    for (int64_t c = 0; c < channels; c++)
        for (int64_t s = size; s < wide; s++) to[c * wide + s] = 0;
}

/* Products of one row with all positions: [channels, filled(S)] -> [filled(S)]. */
INLINE void across(const float *row, const float *matrix, int64_t channels, int64_t wide,
                   int64_t size, float scale, float *out) {
    for (int64_t s = 0; s < size; s += LANES) {
        vec even = {0}, odd = {0};
        int64_t c = 0;
        for (; c + 2 <= channels; c += 2) {
            even += load(matrix + c * wide + s) * row[c];
            odd += load(matrix + (c + 1) * wide + s) * row[c + 1];
        }
        if (c < channels) even += load(matrix + c * wide + s) * row[c];
        store(out + s, (even + odd) * scale);
    }
}

/* to [channels] = the sum of rows `ld` apart, each times one of the weights `step` apart; in
 * two sums at a time, as one would wait for itself. */
INLINE void weighed_sum(const float *weights, int64_t step, const float *rows, int64_t ld,
                        int64_t count, int64_t channels, float *to) {
    int64_t c = 0;
    for (; c + 2 * LANES <= channels; c += 2 * LANES) {
        vec even[2] = {{0}}, odd[2] = {{0}};
        const float *row = rows + c;
        int64_t i = 0;
        for (; i + 2 <= count; i += 2, row += 2 * ld) {
            float first = weights[i * step], second = weights[(i + 1) * step];
            even[0] += load(row) * first;
            even[1] += load(row + LANES) * first;
            odd[0] += load(row + ld) * second;
            odd[1] += load(row + ld + LANES) * second;
        }
        if (i < count) {
            even[0] += load(row) * weights[i * step];
            even[1] += load(row + LANES) * weights[i * step];
        }
        store(to + c, even[0] + odd[0]);
        store(to + c + LANES, even[1] + odd[1]);
    }
    for (; c < channels; c++) {
        float sum = 0;
        for (int64_t i = 0; i < count; i++) sum += weights[i * step] * rows[i * ld + c];
        to[c] = sum;
    }
}

INLINE void attend_by(const head *h, float *weights, float *out, int64_t ldo, float *spare,
                      int64_t key, int64_t value) {
    int64_t wide = filled(h->asked);
    float scale = 1 / sqrtf(key);
    turned(h->keys, h->ldk, h->asked, key, spare);
    for (int64_t q = 0; q < h->asking; q++, weights += wide, out += ldo) {
        int64_t size = h->causal ? q + 1 : h->asked;
        across(h->queries + q * h->ldq, spare, key, wide, size, scale, weights);
        for (int64_t s = size; s < filled(size); s++) weights[s] = -INFINITY;
        vec most = all(-INFINITY), total = {0};
        for (int64_t s = 0; s < size; s += LANES) most = larger(load(weights + s), most);
        float largest = largest_of(most);
        for (int64_t s = 0; s < size; s += LANES) {
            vec each = exp_of(load(weights + s) - largest);
            store(weights + s, each);
            total += each;
        }
        vec share = all(1 / sum_of(total));
        for (int64_t s = 0; s < size; s += LANES) store(weights + s, load(weights + s) * share);
        for (int64_t s = size; s < wide; s++) weights[s] = 0;
        weighed_sum(weights, 1, h->values, h->ldv, size, value, out);
    }
}

void attend(const head *h, float *weights, float *out, int64_t ldo, float *spare) {
    if (h->key == 32 && h->value == 32)
        attend_by(h, weights, out, ldo, spare, 32, 32);
    else if (h->key == 64 && h->value == 64)
        attend_by(h, weights, out, ldo, spare, 64, 64);
    else
        attend_by(h, weights, out, ldo, spare, h->key, h->value);
}

INLINE void attend_back_by(const head *h, const float *weights, const float *to_out, int64_t ldo,
                           float *to_queries, float *to_keys, float *to_values, float *spare,
                           int64_t key, int64_t value) {
    int64_t wide = filled(h->asked);
    float scale = 1 / sqrtf(key), *to_scores = spare + wide * value;
    turned(h->values, h->ldv, h->asked, value, spare);
    for (int64_t q = 0; q < h->asking; q++) {
        int64_t size = h->causal ? q + 1 : h->asked;
        const float *weighed = weights + q * wide;
        float *to = to_scores + q * wide;
        across(to_out + q * ldo, spare, value, wide, size, 1, to);
        vec total = {0};
        for (int64_t s = 0; s < size; s += LANES) total += load(to + s) * load(weighed + s);
        float mean = sum_of(total);
        for (int64_t s = 0; s < size; s += LANES)
            store(to + s, load(weighed + s) * (load(to + s) - mean) * scale);
        weighed_sum(to, 1, h->keys, h->ldk, size, key, to_queries + q * h->ldq);
    }
    for (int64_t s = 0; s < h->asked; s++) {
        int64_t from = h->causal ? s : 0, count = h->asking - from;
        weighed_sum(to_scores + from * wide + s, wide, h->queries + from * h->ldq, h->ldq, count,
                    key, to_keys + s * h->ldk);
        weighed_sum(weights + from * wide + s, wide, to_out + from * ldo, ldo, count, value,
                    to_values + s * h->ldv);
    }
}

void attend_back(const head *h, const float *weights, const float *to_out, int64_t ldo,
                 float *to_queries, float *to_keys, float *to_values, float *spare) {
    if (h->key == 32 && h->value == 32)
        attend_back_by(h, weights, to_out, ldo, to_queries, to_keys, to_values, spare, 32, 32);
    else if (h->key == 64 && h->value == 64)
        attend_back_by(h, weights, to_out, ldo, to_queries, to_keys, to_values, spare, 64, 64);
    else
        attend_back_by(h, weights, to_out, ldo, to_queries, to_keys, to_values, spare, h->key,
                       h->value);
}
