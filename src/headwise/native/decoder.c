/* The stacks of Figure 1 for writing one token after another.
 *
 * Sizes: D model width, H heads, K and C channels of a head's key and value,
 * T source positions of all sentences together, S those of one, B rows.
 */
#include "kernels.h"

#include <math.h>

#define PLAIN ((manner){0})
#define READ_AT_A_TIME 384 /* source positions */

typedef struct {
    product asked; /* queries, keys and values [H K, H K, H C]; of a source: queries */
    product remember; /* keys and values of what the encoder read */
    product join;
    norm around;
} attention;

typedef struct {
    attention own, source;
    product widen, narrow;
    norm around;
} layer;

typedef struct {
    const float *table; /* [V, E]: embeddings */
    const float *places; /* [positions, D] */
    int64_t positions, width; /* E: the other D - E channels tell the position alone */
    float scale;
    norm around;
} entry;

typedef struct {
    int64_t encoder_layers, decoder_layers, model, heads, key, value, inner;
    int64_t pre, bend;
    entry reading, writing;
    norm encoder_last, decoder_last;
    product scores;
    const layer *encoder, *decoder;
} transformer;

/* What the decoder reads of T source positions, for each layer: keys by head and channel,
 * [H, K, filled(S)] for each sentence, and values [T, H C]. */
typedef struct {
    const int64_t *starts;   /* [N + 1] in positions */
    const int64_t *keys_at;  /* [N] where the keys of a sentence begin, in floats */
    float *const *keys;      /* [layers] */
    float *const *values;    /* [layers] */
} source_memory;

static int64_t record(const transformer *m) { return m->heads * (m->key + m->value); }

static void normed(const norm *n, const float *x, int64_t size, float *y) {
    vec total = {0};
    int64_t i;
    float sum = 0, squares = 0;
    if (!n->weight) {
        if (x != y) memcpy(y, x, size * 4);
        return;
    }
    for (i = 0; i + LANES <= size; i += LANES) total += load(x + i);
    for (; i < size; i++) sum += x[i];
    float mean = (sum_of(total) + sum) / size;
    total = (vec){0};
    for (i = 0; i + LANES <= size; i += LANES) {
        vec away = load(x + i) - mean;
        total += away * away;
    }
    for (; i < size; i++) squares += (x[i] - mean) * (x[i] - mean);
    float by = 1 / sqrtf((sum_of(total) + squares) / size + n->eps);
    for (i = 0; i + LANES <= size; i += LANES)
        store(y + i, (load(x + i) - mean) * by * load(n->weight + i) + load(n->bias + i));
    for (; i < size; i++) y[i] = (x[i] - mean) * by * n->weight[i] + n->bias[i];
}

static void normed_rows(const norm *n, const float *x, int64_t rows, int64_t size, float *y) {
    for (int64_t row = 0; row < rows; row++) normed(n, x + row * size, size, y + row * size);
}

static void add_rows(float *x, const float *y, int64_t size) {
    for (int64_t i = 0; i < size; i++) x[i] += y[i];
}

/* Tokens to vectors; where: the position of each, or NULL for `at` in all. */
static void enter(const transformer *m, const entry *e, const int64_t *tokens, int64_t rows,
                  const int64_t *where, int64_t at, float *x) {
    for (int64_t row = 0; row < rows; row++, x += m->model) {
        const float *from = e->table + tokens[row] * e->width;
        const float *place = e->places + (where ? where[row] : at) * m->model;
        for (int64_t i = 0; i < e->width; i++) x[i] = from[i] * e->scale + place[i];
        for (int64_t i = e->width; i < m->model; i++) x[i] = place[i];
        normed(&e->around, x, m->model, x);
    }
}

/* Scores [filled(size)] to e^(x - largest); returns the sum of the first `size`. */
INLINE float exponents(float *x, int64_t size) {
    vec most = all(-INFINITY), total = {0};
    for (int64_t i = size; i < filled(size); i++) x[i] = -INFINITY;
    for (int64_t i = 0; i < size; i += LANES) most = larger(load(x + i), most);
    float largest = largest_of(most);
    for (int64_t i = 0; i < size; i += LANES) {
        vec each = exp_of(load(x + i) - largest);
        store(x + i, each);
        total += each; /* beyond the size, e^-87 each: nothing beside the largest, 1 */
    }
    return sum_of(total);
}

/* One query of one head on keys [K, filled(S)] and values [S, ldv]: out [C]. */
INLINE void look(const float *query, float scale, const float *keys, const float *values,
                 int64_t ldv, int64_t size, int64_t key, int64_t value, float *weights,
                 float *out) {
    int64_t wide = filled(size);
    if (!size) { /* what may look at nothing gets zeros */
        memset(out, 0, value * 4);
        return;
    }
    for (int64_t s = 0; s < wide; s += LANES) {
        vec even = {0}, odd = {0};
        int64_t k = 0;
        for (; k + 2 <= key; k += 2) {
            even += load(keys + k * wide + s) * query[k];
            odd += load(keys + (k + 1) * wide + s) * query[k + 1];
        }
        if (k < key) even += load(keys + k * wide + s) * query[k];
        store(weights + s, (even + odd) * scale);
    }
    float share = 1 / exponents(weights, size);
    int64_t c = 0;
    for (; c + 2 * LANES <= value; c += 2 * LANES) {
        vec first = {0}, second = {0};
        for (int64_t s = 0; s < size; s++) {
            first += load(values + s * ldv + c) * weights[s];
            second += load(values + s * ldv + c + LANES) * weights[s];
        }
        store(out + c, first * share);
        store(out + c + LANES, second * share);
    }
    for (; c < value; c++) {
        float total = 0;
        for (int64_t s = 0; s < size; s++) total += weights[s] * values[s * ldv + c];
        out[c] = total * share;
    }
}

static void look_by_size(const float *query, float scale, const float *keys,
                         const float *values, int64_t ldv, int64_t size, int64_t key,
                         int64_t value, float *weights, float *out) {
    if (key == 32 && value == 32)
        look(query, scale, keys, values, ldv, size, 32, 32, weights, out);
    else if (key == 64 && value == 64)
        look(query, scale, keys, values, ldv, size, 64, 64, weights, out);
    else
        look(query, scale, keys, values, ldv, size, key, value, weights, out);
}

/* Keys [S, ldk], a head's channels beginning at each row, to [K, filled(S)]. */
static void turned(const float *from, int64_t ldk, int64_t size, int64_t key, float *to) {
    int64_t wide = filled(size);
    for (int64_t k = 0; k < key; k++) {
        for (int64_t s = 0; s < size; s++) to[k * wide + s] = from[s * ldk + k];
        for (int64_t s = size; s < wide; s++) to[k * wide + s] = 0;
    }
}

/* Floats that may be needed on the way; longest: positions of a sentence or output. */
int64_t spare_floats(const transformer *m, int64_t rows, int64_t longest) {
    int64_t widest = m->inner > m->model ? m->inner : m->model;
    int64_t heads = m->heads * m->value;
    int64_t asked = record(m) + m->heads * m->key;
    widest = widest > heads ? widest : heads;
    int64_t each = 3 * m->model + asked + heads + m->inner + AT_A_TIME + 4;
    return rows * each + filled(longest) * (m->key + 4) + product_spare(widest, rows) / 4 + 1024;
}

typedef struct {
    float *x, *seen, *asked, *heads, *inner, *weights, *keys, *scores;
    const float **written;
    void *product, *tallies;
} room;

static room lay_out(const transformer *m, int64_t rows, int64_t longest, float *spare) {
    room r;
    r.x = spare;
    r.seen = r.x + rows * m->model;
    r.asked = r.seen + 2 * rows * m->model;
    r.heads = r.asked + rows * (record(m) + m->heads * m->key);
    r.inner = r.heads + rows * m->heads * m->value;
    r.weights = r.inner + rows * m->inner;
    r.keys = r.weights + filled(longest) + LANES;
    r.scores = r.keys + filled(longest) * m->key;
    uintptr_t end = (uintptr_t)(r.scores + rows * AT_A_TIME);
    r.written = (const float **)((end + 63) / 64 * 64);
    end = (uintptr_t)(r.written + longest);
    r.tallies = (void *)((end + 63) / 64 * 64);
    end = (uintptr_t)r.tallies + rows * sizeof(tally);
    r.product = (void *)((end + 63) / 64 * 64);
    return r;
}

/* What a box sees of x, and the sum behind it. */
static const float *entering(const transformer *m, const norm *n, int64_t rows, room *r) {
    if (!m->pre) return r->x;
    normed_rows(n, r->x, rows, m->model, r->seen);
    return r->seen;
}

static void leaving(const transformer *m, const norm *n, const product *box, const float *out,
                    int64_t rows, room *r) {
    float *result = r->seen + rows * m->model;
    product_apply(box, out, box->in, rows, result, m->model, PLAIN, r->product);
    add_rows(r->x, result, rows * m->model);
    if (!m->pre) normed_rows(n, r->x, rows, m->model, r->x);
}

static void feed_forward(const transformer *m, const layer *l, int64_t rows, room *r) {
    const float *seen = entering(m, &l->around, rows, r);
    product_apply(&l->widen, seen, m->model, rows, r->inner, m->inner, (manner){.bend = m->bend},
                  r->product);
    leaving(m, &l->around, &l->narrow, r->inner, rows, r);
}

/* Sentences `from` to `to`, whose first position is `begin`, through the encoder's layers. */
static void encode_some(const transformer *m, const int64_t *tokens, const int64_t *where,
                        const source_memory *memory, int64_t from, int64_t to,
                        int64_t longest, float *spare) {
    int64_t begin = memory->starts[from], rows = memory->starts[to] - begin;
    int64_t width = m->heads * m->key, heads = m->heads * m->value, asked = 2 * width + heads;
    float scale = 1 / sqrtf(m->key);
    room r = lay_out(m, rows, longest, spare);
    enter(m, &m->reading, tokens + begin, rows, where + begin, 0, r.x);
    for (int64_t i = 0; i < m->encoder_layers; i++) {
        const layer *l = m->encoder + i;
        const float *seen = entering(m, &l->own.around, rows, &r);
        product_apply(&l->own.asked, seen, m->model, rows, r.asked, asked, PLAIN, r.product);
        for (int64_t n = from; n < to; n++) {
            int64_t first = memory->starts[n] - begin;
            int64_t size = memory->starts[n + 1] - begin - first;
            for (int64_t h = 0; h < m->heads; h++) {
                const float *queries = r.asked + first * asked + h * m->key;
                const float *values = r.asked + first * asked + 2 * width + h * m->value;
                turned(queries + width, asked, size, m->key, r.keys);
                for (int64_t s = 0; s < size; s++)
                    look_by_size(queries + s * asked, scale, r.keys, values, asked, size, m->key,
                                 m->value, r.weights, r.heads + (first + s) * heads + h * m->value);
            }
        }
        leaving(m, &l->own.around, &l->own.join, r.heads, rows, &r);
        feed_forward(m, l, rows, &r);
    }
    normed_rows(&m->encoder_last, r.x, rows, m->model, r.x);
    for (int64_t i = 0; i < m->decoder_layers; i++) {
        const product *remember = &m->decoder[i].source.remember;
        product_apply(remember, r.x, m->model, rows, r.asked, record(m), PLAIN, r.product);
        for (int64_t n = from; n < to; n++) {
            int64_t first = memory->starts[n] - begin;
            int64_t size = memory->starts[n + 1] - begin - first;
            float *keys = memory->keys[i] + memory->keys_at[n];
            for (int64_t h = 0; h < m->heads; h++)
                turned(r.asked + first * record(m) + h * m->key, record(m), size, m->key,
                       keys + h * m->key * filled(size));
        }
        for (int64_t s = 0; s < rows; s++)
            memcpy(memory->values[i] + (begin + s) * heads, r.asked + s * record(m) + width,
                   heads * 4);
    }
}

/* Read N sentences, one behind the other and without padding; `where` says the position of
 * each token. A few at a time go through all layers, so that they stay near the processor. */
void encode(const transformer *m, const int64_t *tokens, const int64_t *where, int64_t count,
            const source_memory *memory, int64_t longest, float *spare) {
    for (int64_t from = 0, to; from < count; from = to) {
        to = from + 1;
        while (to < count && memory->starts[to + 1] - memory->starts[from] <= READ_AT_A_TIME)
            to++;
        encode_some(m, tokens, where, memory, from, to, longest, spare);
    }
}

/* Floats of room that reading needs. */
int64_t encode_floats(const transformer *m, int64_t longest) {
    return spare_floats(m, longest > READ_AT_A_TIME ? longest : READ_AT_A_TIME, longest);
}

INLINE float dot(const float *a, const float *b, int64_t size) {
    vec total = {0};
    int64_t i = 0;
    float rest = 0;
    for (; i + LANES <= size; i += LANES) total += load(a + i) * load(b + i);
    for (; i < size; i++) rest += a[i] * b[i];
    return sum_of(total) + rest;
}

/* One row's queries on what it wrote: records of keys and values, one for each position. */
INLINE void look_back(const transformer *m, const float *query, const float *const *written,
                      int64_t size, int64_t key, int64_t value, float *weights, float *out) {
    float scale = 1 / sqrtf(key);
    for (int64_t h = 0; h < m->heads; h++, query += key, out += value) {
        for (int64_t p = 0; p < size; p++)
            weights[p] = scale * dot(query, written[p] + h * key, key);
        float share = 1 / exponents(weights, size);
        int64_t c = 0, at = m->heads * key + h * value;
        for (; c + LANES <= value; c += LANES) {
            vec total = {0};
            for (int64_t p = 0; p < size; p++) total += load(written[p] + at + c) * weights[p];
            store(out + c, total * share);
        }
        for (; c < value; c++) {
            float total = 0;
            for (int64_t p = 0; p < size; p++) total += weights[p] * written[p][at + c];
            out[c] = total * share;
        }
    }
}

static void look_back_by_size(const transformer *m, const float *query,
                              const float *const *written, int64_t size, float *weights,
                              float *out) {
    if (m->key == 32 && m->value == 32)
        look_back(m, query, written, size, 32, 32, weights, out);
    else if (m->key == 64 && m->value == 64)
        look_back(m, query, written, size, 64, 64, weights, out);
    else
        look_back(m, query, written, size, m->key, m->value, weights, out);
}

/* What is wanted instead of all scores: those of the best tokens [B, count], as ln p. */
typedef struct {
    int64_t count, num_refused;
    const int64_t *refused;
    int64_t *tokens;
} wanted;

/* Write one more token in each of B rows at position `here`: scores [B, V], or the best of
 * them, which then never stand in memory all at once. Returns 0 where those are no numbers.
 *
 * written [here + 1]: where each position's records begin, [layers, rows of then]; the
 * last is written now. rows_then [here + 1]. stems [B, ld]: each row's row of then.
 * longest: of sources and what is written, here counted.
 */
int64_t step(const transformer *m, const int64_t *tokens, int64_t rows, int64_t here,
             float *const *written, const int64_t *rows_then, const int32_t *stems, int64_t ld,
             const source_memory *memory, const int64_t *source_of, int64_t longest, float *scores,
             const wanted *best, float *spare) {
    int64_t width = m->heads * m->key, heads = m->heads * m->value, wide = record(m);
    float scale = 1 / sqrtf(m->key);
    room r = lay_out(m, rows, longest, spare);
    enter(m, &m->writing, tokens, rows, 0, here, r.x);
    for (int64_t i = 0; i < m->decoder_layers; i++) {
        const layer *l = m->decoder + i;
        const float *seen = entering(m, &l->own.around, rows, &r);
        product_apply(&l->own.asked, seen, m->model, rows, r.asked, width + wide, PLAIN,
                      r.product);
        for (int64_t row = 0; row < rows; row++) {
            const float *asked = r.asked + row * (width + wide);
            float *now = written[here] + (i * rows + row) * wide;
            memcpy(now, asked + width, wide * 4);
            for (int64_t p = 0; p < here; p++)
                r.written[p] = written[p] + (i * rows_then[p] + stems[row * ld + p]) * wide;
            r.written[here] = now;
            look_back_by_size(m, asked, r.written, here + 1, r.weights, r.heads + row * heads);
        }
        leaving(m, &l->own.around, &l->own.join, r.heads, rows, &r);

        seen = entering(m, &l->source.around, rows, &r);
        product_apply(&l->source.asked, seen, m->model, rows, r.asked, width, PLAIN, r.product);
        for (int64_t row = 0; row < rows; row++) {
            int64_t n = source_of[row], first = memory->starts[n];
            int64_t size = memory->starts[n + 1] - first;
            for (int64_t h = 0; h < m->heads; h++)
                look_by_size(r.asked + row * width + h * m->key, scale,
                             memory->keys[i] + memory->keys_at[n] + h * m->key * filled(size),
                             memory->values[i] + first * heads + h * m->value, heads, size,
                             m->key, m->value, r.weights,
                             r.heads + row * heads + h * m->value);
        }
        leaving(m, &l->source.around, &l->source.join, r.heads, rows, &r);
        feed_forward(m, l, rows, &r);
    }
    normed_rows(&m->decoder_last, r.x, rows, m->model, r.x);
    if (!best) {
        product_apply(&m->scores, r.x, m->model, rows, scores, m->scores.out, PLAIN, r.product);
        return 1;
    }
    tally *tallies = (tally *)r.tallies;
    for (int64_t row = 0; row < rows; row++) tallies[row] = (tally){-INFINITY, 0, 0};
    for (int64_t first = 0; first < m->scores.out; first += AT_A_TIME) {
        product part = product_part(&m->scores, first, AT_A_TIME);
        product_apply(&part, r.x, m->model, rows, r.scores, AT_A_TIME, PLAIN, r.product);
        choose(r.scores, AT_A_TIME, rows, first, part.out, best->count, best->refused,
               best->num_refused, scores, best->tokens, tallies);
    }
    return chosen(rows, best->count, best->refused, scores, best->tokens, tallies);
}
