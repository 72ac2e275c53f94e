/* The most probable tokens of each row of scores. */
#include "kernels.h"

#include <math.h>

#define GROUP (4 * LANES) /* scores whose largest is looked at first */

INLINE int64_t is_among(int64_t token, const int64_t *refused, int64_t many) {
    for (int64_t i = 0; i < many; i++)
        if (refused[i] == token) return 1;
    return 0;
}

INLINE float largest_in(const float *x, int64_t size) {
    float most = x[0];
    if (size == GROUP) {
        vec a = larger(load(x), load(x + LANES));
        vec b = larger(load(x + 2 * LANES), load(x + 3 * LANES));
        return largest_of(larger(a, b));
    }
    for (int64_t i = 1; i < size; i++) most = x[i] > most ? x[i] : most;
    return most;
}

static float sum_of_exponents(const float *x, int64_t size, float most) {
    vec total = {0}, more = {0};
    int64_t i = 0;
    float rest = 0;
    for (; i + 2 * LANES <= size; i += 2 * LANES) {
        total += exp_of(load(x + i) - most);
        more += exp_of(load(x + i + LANES) - most);
    }
    for (; i < size; i++) rest += expf(x[i] - most);
    return sum_of(total + more) + rest;
}

void choose(const float *scores, int64_t ld, int64_t rows, int64_t first, int64_t size,
            int64_t count, const int64_t *refused, int64_t num_refused, float *values,
            int64_t *tokens, tally *tallies) {
    float largest[AT_A_TIME / GROUP];
    for (int64_t row = 0; row < rows; row++, values += count, tokens += count, tallies++) {
        const float *x = scores + row * ld;
        float most = -INFINITY;
        int64_t found = tallies->found;
        for (int64_t g = 0; g * GROUP < size; g++) {
            int64_t left = size - g * GROUP;
            largest[g] = largest_in(x + g * GROUP, left < GROUP ? left : GROUP);
            most = largest[g] > most ? largest[g] : most;
        }
        if (most > tallies->most) {
            tallies->sum *= expf(tallies->most - most);
            tallies->most = most;
        }
        if (most > -INFINITY)
            tallies->sum += sum_of_exponents(x, size, tallies->most);
        else
            for (int64_t i = 0; i < size; i++)
                if (x[i] != x[i]) tallies->sum = NAN;
        for (int64_t g = 0; g * GROUP < size; g++) {
            if (found == count && !(largest[g] > values[count - 1])) continue;
            int64_t end = (g + 1) * GROUP < size ? (g + 1) * GROUP : size;
            for (int64_t i = g * GROUP; i < end; i++) {
                if (found == count && !(x[i] > values[count - 1])) continue;
                if (is_among(first + i, refused, num_refused)) continue;
                int64_t place = found < count ? found++ : count - 1;
                for (; place && x[i] > values[place - 1]; place--) {
                    values[place] = values[place - 1];
                    tokens[place] = tokens[place - 1];
                }
                values[place] = x[i];
                tokens[place] = first + i;
            }
        }
        tallies->found = found;
    }
}

int64_t chosen(int64_t rows, int64_t count, const int64_t *refused, float *values,
               int64_t *tokens, const tally *tallies) {
    for (int64_t row = 0; row < rows; row++, values += count, tokens += count, tallies++) {
        float most = tallies->most, rest = logf(tallies->sum);
        int64_t found = tallies->found;
        if (!isfinite(most + rest)) return 0;
        for (int64_t i = 0; i < found; i++) values[i] = (values[i] - most) - rest;
        for (int64_t i = 0; found < count; i++, found++) {
            values[found] = -INFINITY;
            tokens[found] = refused[i];
        }
    }
    return 1;
}

/* Both for scores [rows, size] that stand whole; spare: a tally for each row. */
int64_t best_of_rows(const float *scores, int64_t rows, int64_t size, int64_t count,
                     const int64_t *refused, int64_t num_refused, float *values,
                     int64_t *tokens, tally *spare) {
    for (int64_t row = 0; row < rows; row++) spare[row] = (tally){-INFINITY, 0, 0};
    for (int64_t row = 0; row < rows; row++)
        for (int64_t first = 0; first < size; first += AT_A_TIME) {
            int64_t part = size - first < AT_A_TIME ? size - first : AT_A_TIME;
            choose(scores + row * size + first, size, 1, first, part, count, refused,
                   num_refused, values + row * count, tokens + row * count, spare + row);
        }
    return chosen(rows, count, refused, values, tokens, spare);
}
