/* Random steps of beam search, compared with a search among all continuations. */
#include "beam_step.h"
#include "driver.h"

#include <stdlib.h>

/* The next of the continuations of a sentence that are not taken yet: the best, of equal ones the
 * first. */
static int64_t next_best(const float *totals, const char *taken, int64_t count) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++)
        if (!taken[i] && (best < 0 || totals[i] > totals[best])) best = i;
    return best;
}

/* Scores of the best tokens, best first; some are equal, and some impossible. */
static float *sorted_scores(int64_t rows, int64_t top) {
    float *scores = random_floats(rows * top, 4);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < top; i++) {
            float *x = scores + row * top + i;
            if (happens(30)) *x = (float)(int)*x;
            if (i && (*x > x[-1] || happens(10))) *x = x[-1];
            if (happens(3)) *x = -INFINITY;
        }
    return scores;
}

void beam_shape(void) {
    beam_request r = {.sentences = draw(0, 4), .beam = draw(1, 6), .top = draw(1, 12)};
    r.width = happens(20) ? 1 : r.beam;
    r.length = draw(1, 8);
    r.capacity = r.length + draw(0, 3);
    r.end = draw(0, 5);
    int64_t rows = r.sentences * r.width, alive = r.sentences * r.beam, count = r.width * r.top;
    describe("sentences %ld, width %ld, top %ld, beam %ld, length %ld of %ld", (long)r.sentences,
             (long)r.width, (long)r.top, (long)r.beam, (long)r.length, (long)r.capacity);
    float *totals = random_floats(rows, 3);
    for (int64_t i = 0; i < rows; i++)
        if (happens(10)) totals[i] = -INFINITY;
    r.limits = random_integers(r.sentences, r.length, r.length + 2);
    r.totals = totals;
    r.scores = sorted_scores(rows, r.top);
    r.tokens = random_integers(rows * r.top, 0, 9);
    r.generated = random_integers(rows * r.capacity, 0, 9);
    r.alive_parents = integers(alive);
    r.alive_tokens = integers(alive);
    r.alive_generated = integers(alive * r.capacity);
    r.alive_totals = floats(alive);
    r.completed = guarded(alive * (int64_t)sizeof *r.completed, 8);
    r.completed_totals = floats(alive);
    int64_t completed = beam_step(&r), done = 0;

    for (int64_t s = 0; s < r.sentences; s++) {
        float sums[72];
        char taken[72] = {0};
        int64_t kept = 0;
        for (int64_t i = 0; i < count; i++)
            sums[i] = r.totals[s * r.width + i / r.top] + r.scores[s * count + i];
        for (int64_t i = 0; i < 2 * r.beam && i < count; i++) {
            int64_t best = next_best(sums, taken, count), parent = s * r.width + best / r.top;
            int64_t token = r.tokens[s * count + best], is_end = token == r.end;
            taken[best] = 1;
            if (sums[best] == -INFINITY) break;
            if (i < r.beam && (is_end || r.limits[s] == r.length)) {
                const int64_t *to = r.completed[done];
                if (done == completed || to[0] != s || to[1] != parent || to[2] != token ||
                    to[3] != is_end || r.completed_totals[done] != sums[best])
                    fail("another hypothesis is complete in sentence %ld", (long)s);
                done++;
            }
            if (is_end || kept == r.beam) continue;
            int64_t to = s * r.beam + kept++;
            if (r.alive_parents[to] != parent || r.alive_tokens[to] != token ||
                r.alive_totals[to] != sums[best])
                fail("another hypothesis is alive in sentence %ld", (long)s);
            const int64_t *generated = r.alive_generated + to * r.capacity;
            if (memcmp(generated, r.generated + parent * r.capacity, (r.length - 1) * 8) ||
                generated[r.length - 1] != token)
                fail("other tokens are alive in sentence %ld", (long)s);
        }
        for (; kept < r.beam; kept++)
            if (r.alive_totals[s * r.beam + kept] != -INFINITY)
                fail("sentence %ld has too many hypotheses", (long)s);
        for (int64_t i = s * r.beam; i < (s + 1) * r.beam; i++)
            if (r.alive_parents[i] / r.width != s) fail("a parent is of another sentence");
    }
    if (done != completed)
        fail("%ld hypotheses are complete instead of %ld", (long)completed, (long)done);
    add_bytes(r.alive_parents, alive * 8);
    add_bytes(r.alive_tokens, alive * 8);
    add_floats(r.alive_totals, alive);
    add_bytes(r.completed, completed * (int64_t)sizeof *r.completed);
    add_floats(r.completed_totals, completed);
    for (int64_t i = 0; i < alive; i++)
        add_bytes(r.alive_generated + i * r.capacity, r.length * 8);
}
