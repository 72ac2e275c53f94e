/* What stands between the matmuls of a training step, forward and backward: dropout, residual
 * connections, layer normalization and activations. All of it goes through [rows, size] row by row;
 * saved statistics are [rows, 2].
 *
 * Reference: model/add_and_norm.py and model/feed_forward.py; tests/backends/native/
 * test_training.py holds gradients equal to autograd's, with the same dropout masks. */
#include "train.h"

void dropout(dropout_rng *rng, float *x, int64_t size) {
    if (!rng->threshold) return;
    for (int64_t i = 0; i < size; i += LANES)
        store_partial(x + i, dropout_vec(rng, load_partial(x + i, size - i)), size - i);
}

/* sum = x + dropout(out), of one row; returns its sums, lane by lane. */
INLINE vec add_dropped(const float *x, const float *out, int64_t size, dropout_rng *rng,
                       float *sum) {
    vec row_sum = {0};
    for (int64_t i = 0; i < size; i += LANES) {
        vec dropped = load_partial(out + i, size - i);
        if (rng->threshold) dropped = dropout_vec(rng, dropped);
        vec each = load_partial(x + i, size - i) + dropped;
        store_partial(sum + i, each, size - i);
        row_sum += each;
    }
    return row_sum;
}

/* y = norm(x), of one row, given its sums. */
INLINE void normalize_row(const layer_norm *n, const float *x, int64_t size, vec row_sum,
                          float *stats, float *y) {
    vec squares = {0};
    float mean = reduce_sum(row_sum) / size;
    for (int64_t i = 0; i < size; i += LANES) {
        vec centered = load_partial(x + i, size - i) - mean;
        if (size - i < LANES) centered = mask_tail(centered, size - i, 0);
        squares += centered * centered;
    }
    float inv_std = 1 / sqrtf(reduce_sum(squares) / size + n->eps);
    scale_normalized(n, x, size, mean, inv_std, y);
    stats[0] = mean;
    stats[1] = inv_std;
}

/* Accumulate the gradients of weight and bias from one row; returns the mean of the gradient of
 * the normalized row, and of its product with that row. */
typedef struct {
    float grad, grad_normed;
} row_means;

INLINE row_means norm_gradients(const layer_norm *n, const float *grad_y, const float *x,
                                int64_t size, const float *stats) {
    float mean = stats[0], inv_std = stats[1];
    vec sum_grad = {0}, sum_grad_normed = {0};
    for (int64_t i = 0; i < size; i += LANES) {
        int64_t left = size - i;
        vec normed = (load_partial(x + i, left) - mean) * inv_std,
            grad = load_partial(grad_y + i, left);
        vec grad_normed = grad * load_partial(n->weight + i, left);
        store_partial(n->grad_weight + i, load_partial(n->grad_weight + i, left) + grad * normed,
                      left);
        store_partial(n->grad_bias + i, load_partial(n->grad_bias + i, left) + grad, left);
        sum_grad += grad_normed;
        sum_grad_normed += grad_normed * normed;
    }
    return (row_means){reduce_sum(sum_grad) / size, reduce_sum(sum_grad_normed) / size};
}

/* The gradient of 16 numbers of x from column i on. */
INLINE vec norm_input_gradient(const layer_norm *n, const float *grad_y, const float *x,
                               int64_t i, int64_t size, const float *stats, row_means means) {
    int64_t left = size - i;
    vec normed = (load_partial(x + i, left) - stats[0]) * stats[1];
    vec grad_normed = load_partial(grad_y + i, left) * load_partial(n->weight + i, left);
    return stats[1] * (grad_normed - means.grad - normed * means.grad_normed);
}

INLINE void add_and_norm_inline(const layer_norm *n, shape s, dropout_rng rng, const float *x,
                                const float *out, saved_norm saved, float *y) {
    float *sum = saved.x, *stats = saved.stats;
    for (int64_t row = 0; row < s.rows; row++) {
        vec row_sum = add_dropped(x, out, s.size, &rng, sum);
        normalize_row(n, sum, s.size, row_sum, stats, y);
        x += s.size, out += s.size, sum += s.size, y += s.size, stats += 2;
    }
}

void add_and_norm(const layer_norm *n, shape s, dropout_rng rng, const float *x, const float *out,
                  saved_norm saved, float *y) {
    if (s.size == 128)
        add_and_norm_inline(n, (shape){s.rows, 128}, rng, x, out, saved, y);
    else if (s.size == 512)
        add_and_norm_inline(n, (shape){s.rows, 512}, rng, x, out, saved, y);
    else
        add_and_norm_inline(n, s, rng, x, out, saved, y);
}

void add_and_norm_backward(const layer_norm *n, shape s, dropout_rng rng, saved_norm saved,
                           const float *grad_y, float *grad_x, float *grad_out) {
    int64_t size = s.size;
    const float *sum = saved.x, *stats = saved.stats;
    for (int64_t row = 0; row < s.rows; row++) {
        row_means means = norm_gradients(n, grad_y, sum, size, stats);
        for (int64_t i = 0; i < size; i += LANES) {
            vec each = norm_input_gradient(n, grad_y, sum, i, size, stats, means);
            store_partial(grad_x + i, each, size - i);
            if (rng.threshold) each = dropout_vec(&rng, each);
            store_partial(grad_out + i, each, size - i);
        }
        grad_y += size, sum += size, grad_x += size, grad_out += size, stats += 2;
    }
}

void add_residual(shape s, dropout_rng rng, const float *x, const float *out, float *y) {
    for (int64_t row = 0; row < s.rows; row++, x += s.size, out += s.size, y += s.size)
        add_dropped(x, out, s.size, &rng, y);
}

void add_residual_backward(shape s, dropout_rng rng, const float *grad_y, float *grad_out) {
    memcpy(grad_out, grad_y, s.rows * s.size * 4);
    for (int64_t row = 0; row < s.rows; row++) dropout(&rng, grad_out + row * s.size, s.size);
}

void norm(const layer_norm *n, shape s, const float *x, float *stats, float *y) {
    for (int64_t row = 0; row < s.rows; row++, x += s.size, y += s.size, stats += 2) {
        vec row_sum = {0};
        for (int64_t i = 0; i < s.size; i += LANES) row_sum += load_partial(x + i, s.size - i);
        normalize_row(n, x, s.size, row_sum, stats, y);
    }
}

void norm_backward(const layer_norm *n, shape s, const float *x, const float *stats,
                   const float *grad_y, float *grad_x, int64_t accumulate) {
    int64_t size = s.size;
    for (int64_t row = 0; row < s.rows; row++) {
        row_means means = norm_gradients(n, grad_y, x, size, stats);
        for (int64_t i = 0; i < size; i += LANES) {
            vec each = norm_input_gradient(n, grad_y, x, i, size, stats, means);
            if (accumulate) each += load_partial(grad_x + i, size - i);
            store_partial(grad_x + i, each, size - i);
        }
        grad_y += size, x += size, grad_x += size, stats += 2;
    }
}

void activation_forward(const float *x, int64_t size, int64_t activation, float *y) {
    for (int64_t i = 0; i < size; i += LANES)
        store_partial(y + i, activate(load_partial(x + i, size - i), activation), size - i);
}

INLINE vec activation_slope(vec x, int64_t activation) {
    if (activation == GELU) {
        vec density = 0.39894228f * vec_exp(-0.5f * x * x);
        return 0.5f * (1 + vec_erf(x * 0.70710678f)) + x * density;
    }
    vec sigmoid = 1 / (1 + vec_exp(vec_min(broadcast(88), -x)));
    return sigmoid * (1 + x * (1 - sigmoid));
}

void activation_backward(const float *x, int64_t size, int64_t activation, float *grad) {
    if (activation == RELU) {
        for (int64_t i = 0; i < size; i++) grad[i] = x[i] > 0 ? grad[i] : 0;
        return;
    }
    for (int64_t i = 0; i < size; i += LANES) {
        vec slope = activation_slope(load_partial(x + i, size - i), activation);
        store_partial(grad + i, slope * load_partial(grad + i, size - i), size - i);
    }
}
