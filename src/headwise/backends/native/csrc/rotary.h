/* Rotary positions (Su et al. 2021): each pair of channels of a query or key is rotated by an angle
 * that grows with its position.
 *
 * The table of a stack holds sine and cosine of the angle of each pair, [num_positions, K]. The KV
 * cache holds keys that are rotated already.
 *
 * Reference: model/rotary_positions.py; tests/backends/native/test_training.py, test_decoder.py and
 * those of one stack hold gradients and scores equal. */
#ifndef HEADWISE_ROTARY_H
#define HEADWISE_ROTARY_H

#include "model.h"

/* Rotate the queries and keys of all heads of a row, [2 H K], in place. direction: 1, or -1 for
 * their gradients. */
INLINE void rotate_row(const transformer *m, const stack *s, int64_t position, float direction,
                       float *queries_keys) {
    const float *table = s->rotations + position * m->d_k;
    for (float *x = queries_keys; x < queries_keys + 2 * keys_width(m); x += m->d_k)
        for (int64_t i = 0; i < m->d_k; i += 2) {
            float even = x[i], odd = x[i + 1], sine = table[i] * direction, cosine = table[i + 1];
            x[i] = fused(even, cosine, -(odd * sine));
            x[i + 1] = fused(odd, cosine, even * sine);
        }
}

#endif
