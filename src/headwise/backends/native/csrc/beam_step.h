/* One step of beam search, after the top-k of each hypothesis.
 *
 * The struct mirrors ctypes_structs.py. */
#ifndef HEADWISE_BEAM_STEP_H
#define HEADWISE_BEAM_STEP_H

#include "simd.h"

/* S sentences still searched, each with W hypotheses alive, which have `length` - 1 tokens. */
typedef struct {
    int64_t sentences, width, top, beam, end, length, capacity;
    const int64_t *limits;    /* [S]: length at which hypotheses are cut off */
    const float *totals;      /* [S, W] */
    const float *scores;      /* [S, W, top]: of the best next tokens, best first */
    const int64_t *tokens;    /* [S, W, top] */
    const int64_t *generated; /* [S, W, capacity] */
    /* What stays alive, [S, beam]: parents are rows of [S W]; a total is -inf where there is none. */
    int64_t *alive_parents, *alive_tokens, *alive_generated;
    float *alive_totals;
    /* What is complete, up to S * beam: sentence, parent, token, whether it is `end`; its total. */
    int64_t (*completed)[4];
    float *completed_totals;
} beam_request;

/* Take one step in all sentences; return how many hypotheses were completed. */
int64_t beam_step(const beam_request *r);

#endif
