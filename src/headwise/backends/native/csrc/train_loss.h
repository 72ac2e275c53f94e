/* Statistics of rows of scores, and what train_loss.c asks of train_consistency.c. */
#ifndef HEADWISE_TRAIN_LOSS_H
#define HEADWISE_TRAIN_LOSS_H

#include "train.h"

/* Running statistics of a row of scores. */
typedef struct {
    float max_score, sum_exp, sum_scores, target_score; /* sum_exp: of e^(score - max_score) */
    float sum_difference; /* of e^(score - max_score) times the lead over the other pass's score */
} row_stats;

/* Logarithm of the sum of e^score. */
INLINE float log_sum(const row_stats *s) { return s->max_score + scalar_log(s->sum_exp); }

/* Cross-entropy of a row with smoothed targets. */
INLINE double smoothed_loss(const row_stats *s, float log, float smoothing, int64_t out) {
    return log - (1 - smoothing) * s->target_score - smoothing / out * s->sum_scores;
}

/* Of the two passes of a position: what multiplies cross-entropies and divergences in the loss. */
typedef struct {
    float loss[2], divergence[2]; /* divergence: KL(first || second), KL(second || first) */
} pass_weights;

pass_weights weigh_passes(consistency c);

/* Update the statistics of a position with the scores x and y, in its two passes, of the tokens
 * from `token` on. The scores stay as they are. */
void update_passes(row_stats stats[2], const float *x, const float *y, int64_t token, int64_t size,
                   int64_t target);

/* What the gradients of a position's scores depend on: in each pass, the logarithm of the sum of
 * e^score, and the divergence from it to the other. */
typedef struct {
    float logs[2], divergences[2];
} pass_sums;

pass_sums sum_passes(const row_stats stats[2]);

/* Turn scores into their gradients, but for what the target itself adds. */
void passes_gradient(const pass_weights *w, const pass_sums *sums, float uniform, float *x,
                     float *y, int64_t size);

#endif
