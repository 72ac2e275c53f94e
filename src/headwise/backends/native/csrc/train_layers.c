/* Dropout, residual connection and layer normalization ("Add & Norm"), forward and backward.
 *
 * Reference: add_and_norm in model/add_and_norm.py; tests/backends/native/test_training.py holds
 * gradients equal to autograd's, with the same dropout masks. */
#include "train.h"

void dropout(dropout_rng *rng, float *x, int64_t size) {
    if (!rng->threshold) return;
    for (int64_t i = 0; i < size; i += LANES)
        store_partial(x + i, dropout_vec(rng, load_partial(x + i, size - i)), size - i);
}

INLINE void add_and_norm_inline(const trainable_norm *n, const float *x, const float *out,
                                int64_t rows, int64_t size, dropout_rng rng_init, float *sum,
                                float *stats, float *y) {
    dropout_rng rng = rng_init;
    for (int64_t row = 0; row < rows; row++) {
        vec row_sum = {0}, squares = {0};
        for (int64_t i = 0; i < size; i += LANES) {
            vec dropped = load_partial(out + i, size - i);
            if (rng_init.threshold) dropped = dropout_vec(&rng, dropped);
            vec each = load_partial(x + i, size - i) + dropped;
            store_partial(sum + i, each, size - i);
            row_sum += each;
        }
        float mean = reduce_sum(row_sum) / size;
        for (int64_t i = 0; i < size; i += LANES) {
            vec centered = load_partial(sum + i, size - i) - mean;
            if (size - i < LANES) centered = mask_tail(centered, size - i, 0);
            squares += centered * centered;
        }
        float inv_std = 1 / sqrtf(reduce_sum(squares) / size + n->eps);
        for (int64_t i = 0; i < size; i += LANES) {
            vec centered = (load_partial(sum + i, size - i) - mean) * inv_std;
            vec each = centered * load_partial(n->weight + i, size - i) +
                       load_partial(n->bias + i, size - i);
            store_partial(y + i, each, size - i);
        }
        stats[0] = mean;
        stats[1] = inv_std;
        x += size, out += size, sum += size, y += size, stats += 2;
    }
}

void add_and_norm(const trainable_norm *n, const float *x, const float *out, int64_t rows,
                  int64_t size, dropout_rng rng_init, float *sum, float *stats, float *y) {
    if (size == 128)
        add_and_norm_inline(n, x, out, rows, 128, rng_init, sum, stats, y);
    else if (size == 512)
        add_and_norm_inline(n, x, out, rows, 512, rng_init, sum, stats, y);
    else
        add_and_norm_inline(n, x, out, rows, size, rng_init, sum, stats, y);
}

void add_and_norm_backward(const trainable_norm *n, const float *grad_y, int64_t rows, int64_t size,
                           dropout_rng rng_init, const float *sum, const float *stats,
                           float *grad_x, float *grad_out) {
    dropout_rng rng = rng_init;
    for (int64_t row = 0; row < rows; row++) {
        float mean = stats[0], inv_std = stats[1];
        vec sum_grad = {0}, sum_grad_normed = {0};
        for (int64_t i = 0; i < size; i += LANES) {
            int64_t left = size - i;
            vec normed = (load_partial(sum + i, left) - mean) * inv_std,
                grad = load_partial(grad_y + i, left);
            vec grad_normed = grad * load_partial(n->weight + i, left);
            store_partial(n->grad_weight + i,
                          load_partial(n->grad_weight + i, left) + grad * normed, left);
            store_partial(n->grad_bias + i, load_partial(n->grad_bias + i, left) + grad, left);
            sum_grad += grad_normed;
            sum_grad_normed += grad_normed * normed;
        }
        float mean_grad = reduce_sum(sum_grad) / size,
              mean_grad_normed = reduce_sum(sum_grad_normed) / size;
        for (int64_t i = 0; i < size; i += LANES) {
            int64_t left = size - i;
            vec normed = (load_partial(sum + i, left) - mean) * inv_std;
            vec grad_normed = load_partial(grad_y + i, left) * load_partial(n->weight + i, left);
            vec each = inv_std * (grad_normed - mean_grad - normed * mean_grad_normed);
            store_partial(grad_x + i, each, left);
            if (rng_init.threshold) each = dropout_vec(&rng, each);
            store_partial(grad_out + i, each, left);
        }
        grad_y += size, sum += size, grad_x += size, grad_out += size, stats += 2;
    }
}
