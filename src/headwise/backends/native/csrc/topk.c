/* Top-k of each row of scores, and their log-probabilities: a sorted list of `count` tokens for
 * each row, [rows, count], and the log-sum-exp so far.
 *
 * Reference: the PyTorch path of topk_tokens in decoding/topk.py; tests/decoding/
 * test_topk_native.py holds them equal. */
#include "topk.h"

#define GROUP (4 * LANES) /* scores that are skipped together if their maximum is too small */

INLINE int64_t contains(int64_t token, const int64_t *forbidden, int64_t size) {
    for (int64_t i = 0; i < size; i++)
        if (forbidden[i] == token) return 1;
    return 0;
}

INLINE float max_of(const float *x, int64_t size) {
    float max_score = x[0];
    if (size == GROUP) {
        vec a = vec_max(load(x), load(x + LANES));
        vec b = vec_max(load(x + 2 * LANES), load(x + 3 * LANES));
        return reduce_max(vec_max(a, b));
    }
    for (int64_t i = 1; i < size; i++) max_score = x[i] > max_score ? x[i] : max_score;
    return max_score;
}

static float sum_exp(const float *x, int64_t size, float max_score) {
    vec total = {0}, more = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= size; i += 2 * LANES) {
        total += vec_exp(load(x + i) - max_score);
        more += vec_exp(load(x + i + LANES) - max_score);
    }
    for (; i < size; i += LANES)
        total += mask_tail(vec_exp(load_partial(x + i, size - i) - max_score), size - i, 0);
    return reduce_sum(total + more);
}

static int64_t has_nan(const float *x, int64_t size) {
    ivec nan = {0};
    int64_t i = 0, found = 0;
    for (; i + LANES <= size; i += LANES) {
        vec each = load(x + i);
        nan |= each != each;
    }
    for (; i < size; i++) found |= x[i] != x[i];
    for (int64_t lane = 0; lane < LANES; lane++) found |= nan[lane];
    return found;
}

void topk_begin(const topk_rows *k) {
    float sum_exp = k->unscored ? 1 : 0; /* so that its logarithm is finite */
    for (int64_t row = 0; row < k->rows; row++)
        k->states[row] = (topk_state){-INFINITY, sum_exp, 0};
}

void topk_update(const topk_rows *k, const float *scores, int64_t ld, int64_t first, int64_t size) {
    int64_t count = k->count, *tokens = k->tokens;
    float *values = k->values;
    topk_state *states = k->states;
    float group_max[VOCAB_BLOCK / GROUP];
    for (int64_t row = 0; row < k->rows; row++, values += count, tokens += count, states++) {
        const float *x = scores + row * ld;
        float max_score = -INFINITY;
        int64_t found = states->found;
        for (int64_t g = 0; g * GROUP < size; g++) {
            int64_t left = size - g * GROUP;
            group_max[g] = max_of(x + g * GROUP, left < GROUP ? left : GROUP);
            max_score = group_max[g] > max_score ? group_max[g] : max_score;
        }
        if (max_score > states->max_score) {
            if (!k->unscored) states->sum_exp *= scalar_exp(states->max_score - max_score);
            states->max_score = max_score;
        }
        if (k->unscored)
            states->sum_exp = has_nan(x, size) ? NAN : states->sum_exp;
        else if (max_score > -INFINITY)
            states->sum_exp += sum_exp(x, size, states->max_score);
        else
            for (int64_t i = 0; i < size; i++)
                if (x[i] != x[i]) states->sum_exp = NAN;
        for (int64_t g = 0; g * GROUP < size; g++) {
            if (found == count && !(group_max[g] > values[count - 1])) continue;
            int64_t end = (g + 1) * GROUP < size ? (g + 1) * GROUP : size;
            for (int64_t i = g * GROUP; i < end; i++) {
                if (found == count && !(x[i] > values[count - 1])) continue;
                if (contains(first + i, k->forbidden, k->num_forbidden)) continue;
                int64_t place = found < count ? found++ : count - 1;
                for (; place && x[i] > values[place - 1]; place--) {
                    values[place] = values[place - 1];
                    tokens[place] = tokens[place - 1];
                }
                values[place] = x[i];
                tokens[place] = first + i;
            }
        }
        states->found = found;
    }
}

int64_t topk_finish(const topk_rows *k) {
    int64_t count = k->count, *tokens = k->tokens;
    const topk_state *states = k->states;
    float *values = k->values;
    for (int64_t row = 0; row < k->rows; row++, values += count, tokens += count, states++) {
        float max_score = states->max_score, log_sum = scalar_log(states->sum_exp);
        int64_t found = states->found;
        if (!isfinite(max_score + log_sum)) return 0;
        for (int64_t i = 0; i < found; i++) {
            float log_p = (values[i] - max_score) - log_sum;
            values[i] = k->unscored && log_p > -INFINITY ? NAN : log_p;
        }
        for (int64_t i = 0; found < count; i++, found++) {
            values[found] = -INFINITY;
            tokens[found] = k->forbidden[i];
        }
    }
    return 1;
}

EXPORT int64_t topk(const topk_rows *k, const float *scores, int64_t size) {
    topk_begin(k);
    for (int64_t row = 0; row < k->rows; row++) {
        topk_rows one = *k;
        one.rows = 1;
        one.values += row * k->count;
        one.tokens += row * k->count;
        one.states += row;
        for (int64_t first = 0; first < size; first += VOCAB_BLOCK) {
            int64_t block = size - first < VOCAB_BLOCK ? size - first : VOCAB_BLOCK;
            topk_update(&one, scores + row * size + first, size, first, block);
        }
    }
    return topk_finish(k);
}
