/* Top-k of rows of scores that come in blocks of the vocabulary, with log-probabilities.
 *
 * The structs mirror ctypes_structs.py. */
#ifndef HEADWISE_TOPK_H
#define HEADWISE_TOPK_H

#include "kernels.h"

/* Running top-k of a row of scores, with the log-sum-exp so far. */
typedef struct {
    float max_score, sum_exp;
    int64_t found;
} topk_state;

/* The top-k of each of some rows: best first; ties go to the lower token. */
typedef struct {
    int64_t rows, count, num_forbidden;
    const int64_t *forbidden; /* tokens that are skipped */
    float *values;            /* [rows, count]: scores, after topk_finish log-probabilities */
    int64_t *tokens;          /* [rows, count] */
    topk_state *states;       /* [rows]: scratch */
    int64_t unscored;         /* leave out the softmax: values are NaN, or -inf */
} topk_rows;

void topk_begin(const topk_rows *k);

/* Continue with `size` more scores of each row [rows, ld]; the first belongs to token `first`. */
void topk_update(const topk_rows *k, const float *scores, int64_t ld, int64_t first, int64_t size);

/* Turn the values into log-probabilities; pad with forbidden tokens at -inf if too few tokens were
 * allowed. Returns 0 if a score is NaN or infinite. */
int64_t topk_finish(const topk_rows *k);

/* All of it, for scores [rows, size] that stand in memory. */
int64_t topk(const topk_rows *k, const float *scores, int64_t size);

#endif
