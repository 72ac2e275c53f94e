/* How a row looks at what is remembered: Equation 1, one query of one head at a time. */
#ifndef HEADWISE_LOOKING_H
#define HEADWISE_LOOKING_H

#include "kernels.h"

#include <math.h>

/* What is remembered is float32, or with `half` bfloat16. */
typedef struct {
    int64_t heads, key, value, half;
} manner_of_looking;

INLINE int64_t bytes_of(const manner_of_looking *m) { return m->half ? 2 : 4; }

/* Write numbers as they are remembered. */
void write_down(const manner_of_looking *, const float *from, int64_t size, void *to);

/* Keys [S, ldk], a head's channels beginning at each row, to [K, filled(S)]. */
void turn(const float *from, int64_t ldk, int64_t size, int64_t key, float *to);

/* Scores [filled(size)] to e^(x - largest), of which the sum is returned; behind `size` to 0,
 * and to nothing that is almost 0: processors are slow with such numbers. */
INLINE float exponents(float *x, int64_t size) {
    vec most = all(-INFINITY), total = {0};
    for (int64_t i = 0; i < size; i += LANES)
        most = larger(first_of(load(x + i), size - i, -INFINITY), most);
    float largest = largest_of(most);
    for (int64_t i = 0; i < size; i += LANES) {
        vec each = first_of(exp_of(load(x + i) - largest), size - i, 0);
        store(x + i, each);
        total += each;
    }
    return sum_of(total);
}

/* One query on keys [K, filled(S)] and values [S, ldv]: out [C]; zeros where S is 0.
 * weights [filled(S)] are room for what is computed. */
void look(const manner_of_looking *, const float *query, const void *keys, const void *values,
          int64_t ldv, int64_t size, float *weights, float *out);

/* The queries of all heads [H K] of a row on what it wrote, [H K, H C] for each position:
 * out [H C]. */
void look_back(const manner_of_looking *, const float *queries, const void *const *written,
               int64_t size, float *weights, float *out);

#endif
