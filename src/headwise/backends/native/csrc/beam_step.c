/* One step of beam search, after the top-k of each hypothesis: the best continuations of each
 * sentence, those of them that are complete, and those that stay alive. beam_step.h has the layout.
 *
 * Reference: extend_hypotheses and select_alive in decoding/beam_step.py; tests/decoding/
 * test_beam_step_native.py holds them equal, ties included. */
#include "beam_step.h"

/* A hypothesis and one more token. */
typedef struct {
    float total;
    int64_t parent, token; /* parent: of the W */
} continuation;

/* The `count` best continuations of sentence s, best first: the tokens of each hypothesis are
 * sorted, so they are merged. Ties go to the earlier parent, then to its earlier token. */
static void merge_continuations(const beam_request *r, int64_t s, int64_t count,
                                continuation *best) {
    int64_t next[r->width];
    memset(next, 0, sizeof next);
    for (int64_t i = 0; i < count; i++) {
        best[i] = (continuation){-INFINITY, 0, 0};
        int64_t from = -1;
        for (int64_t w = 0; w < r->width; w++) {
            if (next[w] == r->top) continue;
            int64_t row = s * r->width + w;
            float total = r->totals[row] + r->scores[row * r->top + next[w]];
            if (from >= 0 && !(total > best[i].total)) continue;
            best[i] = (continuation){total, w, r->tokens[row * r->top + next[w]]};
            from = w;
        }
        if (from >= 0) next[from]++;
    }
}

static void keep_alive(const beam_request *r, int64_t s, int64_t rank, continuation c, float total) {
    int64_t parent = s * r->width + c.parent, to = s * r->beam + rank;
    r->alive_parents[to] = parent;
    r->alive_tokens[to] = c.token;
    r->alive_totals[to] = total;
    int64_t *generated = r->alive_generated + to * r->capacity;
    memcpy(generated, r->generated + parent * r->capacity, (r->length - 1) * 8);
    generated[r->length - 1] = c.token;
}

EXPORT int64_t beam_step(const beam_request *r) {
    int64_t num_completed = 0, count = 2 * r->beam;
    continuation best[count];
    for (int64_t s = 0; s < r->sentences; s++) {
        merge_continuations(r, s, count, best);
        int64_t alive = 0, first = 0;
        for (int64_t i = 0; i < count; i++) {
            int64_t exists = best[i].total > -INFINITY, is_end = best[i].token == r->end;
            if (i < r->beam && exists && (is_end || r->limits[s] == r->length)) {
                int64_t *to = r->completed[num_completed];
                to[0] = s, to[1] = s * r->width + best[i].parent, to[2] = best[i].token;
                to[3] = is_end;
                r->completed_totals[num_completed++] = best[i].total;
            }
            if (!exists || is_end || alive == r->beam) continue;
            if (!alive) first = i;
            keep_alive(r, s, alive++, best[i], best[i].total);
        }
        while (alive < r->beam) keep_alive(r, s, alive++, best[first], -INFINITY);
    }
    return num_completed;
}
