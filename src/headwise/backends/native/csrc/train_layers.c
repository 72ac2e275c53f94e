/* "Add & Norm", forth and back. */
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
    for (int64_t i = 0; i < size; i += LANES)
        put(x + i, silenced(c, some(x + i, size - i)), size - i);
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
