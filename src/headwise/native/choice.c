/* The most probable tokens of each row of scores. */
#include "kernels.h"

#include <math.h>

#define GROUP (4 * LANES) /* scores whose largest is kept, to look at few again */

/* ln of the sum of e^x; `most` is the largest. */
static float normalizer(const float *x, int64_t size, float most) {
    vec total = {0}, more = {0};
    int64_t i = 0;
    float rest = 0;
    for (; i + 2 * LANES <= size; i += 2 * LANES) {
        total += exp_of(load(x + i) - most);
        more += exp_of(load(x + i + LANES) - most);
    }
    for (; i < size; i++) rest += expf(x[i] - most);
    return most + logf(sum_of(total + more) + rest);
}

static void largest_of_groups(const float *x, int64_t size, float *largest) {
    int64_t i = 0;
    for (; i + GROUP <= size; i += GROUP) {
        vec a = larger(load(x + i), load(x + i + LANES));
        vec b = larger(load(x + i + 2 * LANES), load(x + i + 3 * LANES));
        *largest++ = largest_of(larger(a, b));
    }
    if (i < size) {
        float most = x[i];
        for (; i < size; i++) most = x[i] > most ? x[i] : most;
        *largest = most;
    }
}

INLINE int64_t is_among(int64_t token, const int64_t *refused, int64_t many) {
    for (int64_t i = 0; i < many; i++)
        if (refused[i] == token) return 1;
    return 0;
}

/* Put the `count` best of each row [size] into values (as ln p) and tokens, best first and
 * the lower token first among equals; refused tokens come last, with -inf.
 * groups: room for (size + GROUP - 1) / GROUP floats. Returns 0 where scores are no numbers. */
int64_t best_of_rows(const float *scores, int64_t rows, int64_t size, int64_t count,
                     const int64_t *refused, int64_t num_refused, float *values,
                     int64_t *tokens, float *groups) {
    int64_t many = (size + GROUP - 1) / GROUP;
    for (int64_t row = 0; row < rows; row++, values += count, tokens += count) {
        const float *x = scores + row * size;
        largest_of_groups(x, size, groups);
        float most = groups[0];
        for (int64_t g = 1; g < many; g++) most = groups[g] > most ? groups[g] : most;
        float less = normalizer(x, size, most);
        if (!isfinite(less)) return 0;
        int64_t found = 0;
        for (int64_t g = 0; g < many; g++) {
            if (found == count && !(groups[g] > values[count - 1])) continue;
            int64_t end = (g + 1) * GROUP < size ? (g + 1) * GROUP : size;
            for (int64_t i = g * GROUP; i < end; i++) {
                if (found == count && !(x[i] > values[count - 1])) continue;
                if (is_among(i, refused, num_refused)) continue;
                int64_t place = found < count ? found++ : count - 1;
                for (; place && x[i] > values[place - 1]; place--) {
                    values[place] = values[place - 1];
                    tokens[place] = tokens[place - 1];
                }
                values[place] = x[i];
                tokens[place] = i;
            }
        }
        for (int64_t i = 0; i < found; i++) values[i] -= less;
        for (int64_t i = 0; found < count; i++, found++) {
            values[found] = -INFINITY;
            tokens[found] = refused[i];
        }
    }
    return 1;
}
