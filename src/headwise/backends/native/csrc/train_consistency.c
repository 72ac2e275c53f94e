/* The scores of a position in two passes: their cross-entropies, the divergences between them, and
 * the gradients of all that, in two walks over the vocabulary. With scores x and y of the passes,
 * L(x) = ln sum e^x, p = e^(x - L(x)) and q = e^(y - L(y)):
 *
 *     KL(p || q) = sum p (x - y) - L(x) + L(y)
 *     its gradient of x: p (ln p - ln q - KL(p || q)); of y: q - p
 *
 * Identical scores have a divergence of exactly 0, and no gradient of it.
 *
 * Reference: two_pass_loss in consistency.py; tests/backends/native/test_consistency.py holds
 * loss and gradients equal to autograd's. */
#include "train_loss.h"

pass_weights weigh_passes(consistency c) {
    if (c.form == ONE_WAY) return (pass_weights){{1, 0}, {c.weight, 0}};
    return (pass_weights){{0.5f, 0.5f}, {c.weight / 2, c.weight / 2}};
}

/* Take up what a block of the vocabulary adds to a pass; the new maximum is in the statistics. */
INLINE void add_block(row_stats *s, float before, vec sum_exp, vec sum_difference, vec sum_scores) {
    float kept = scalar_exp(before - s->max_score);
    s->sum_exp = s->sum_exp * kept + reduce_sum(sum_exp);
    s->sum_difference = s->sum_difference * kept + reduce_sum(sum_difference);
    s->sum_scores += reduce_sum(sum_scores);
}

void update_passes(row_stats stats[2], const float *x, const float *y, int64_t token, int64_t size,
                   int64_t target) {
    vec none = broadcast(-INFINITY), best_x = none, best_y = none, sum_x = {0}, sum_y = {0};
    for (int64_t i = 0; i < size; i += LANES) {
        int64_t left = size - i;
        vec a = load_partial(x + i, left), b = load_partial(y + i, left);
        sum_x += a;
        sum_y += b;
        best_x = vec_max(left < LANES ? mask_tail(a, left, -INFINITY) : a, best_x);
        best_y = vec_max(left < LANES ? mask_tail(b, left, -INFINITY) : b, best_y);
    }
    float before_x = stats[0].max_score, before_y = stats[1].max_score;
    float largest_x = reduce_max(best_x), largest_y = reduce_max(best_y);
    if (largest_x > before_x) stats[0].max_score = largest_x;
    if (largest_y > before_y) stats[1].max_score = largest_y;
    if (target >= token && target < token + size) {
        stats[0].target_score = x[target - token];
        stats[1].target_score = y[target - token];
    }
    float max_x = stats[0].max_score, max_y = stats[1].max_score;
    vec exp_x = {0}, exp_y = {0}, lead_x = {0}, lead_y = {0};
    for (int64_t i = 0; i < size; i += LANES) {
        int64_t left = size - i;
        vec a = load_partial(x + i, left), b = load_partial(y + i, left);
        vec e = vec_exp(a - max_x), f = vec_exp(b - max_y);
        if (left < LANES) {
            e = mask_tail(e, left, 0);
            f = mask_tail(f, left, 0);
        }
        exp_x += e;
        exp_y += f;
        lead_x += e * (a - b);
        lead_y += f * (b - a);
    }
    add_block(stats, before_x, exp_x, lead_x, sum_x);
    add_block(stats + 1, before_y, exp_y, lead_y, sum_y);
}

pass_sums sum_passes(const row_stats stats[2]) {
    pass_sums sums = {.logs = {log_sum(stats), log_sum(stats + 1)}};
    float lead = sums.logs[0] - sums.logs[1];
    sums.divergences[0] = stats[0].sum_difference / stats[0].sum_exp - lead;
    sums.divergences[1] = stats[1].sum_difference / stats[1].sum_exp + lead;
    return sums;
}

void passes_gradient(const pass_weights *w, const pass_sums *sums, float uniform, float *x,
                     float *y, int64_t size) {
    for (int64_t i = 0; i < size; i += LANES) {
        int64_t left = size - i;
        vec log_p = load_partial(x + i, left) - sums->logs[0];
        vec log_q = load_partial(y + i, left) - sums->logs[1];
        vec p = vec_exp(log_p), q = vec_exp(log_q), lead = log_p - log_q;
        vec toward_p = p * (lead - sums->divergences[0]);
        vec toward_q = q * (-lead - sums->divergences[1]);
        vec grad_x = w->loss[0] * (p - uniform) + w->divergence[0] * toward_p +
                     w->divergence[1] * (p - q);
        vec grad_y = w->loss[1] * (q - uniform) + w->divergence[1] * toward_q +
                     w->divergence[0] * (q - p);
        store_partial(x + i, grad_x, left);
        store_partial(y + i, grad_y, left);
    }
}
