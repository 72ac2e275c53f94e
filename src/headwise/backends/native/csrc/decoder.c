/* The stacks of Figure 1 for writing one token after another.
 *
 * Sizes: D model width, H heads, K and C channels of a head's key and value,
 * T source positions of all sentences together, S those of one, B rows.
 */
#include "attention.h"

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

/* What the decoder reads of T source positions, for each layer and sentence: keys by head
 * and channel, [H, K, filled(S)], and values [H, S, C]. */
typedef struct {
    const int64_t *starts;   /* [N + 1] in positions */
    const int64_t *keys_at;  /* [N] where the keys of a sentence begin, in numbers */
    char *const *keys;       /* [layers] */
    char *const *values;     /* [layers] */
} source_memory;

static int64_t record(const transformer *m) { return m->heads * (m->key + m->value); }

/* What passes from box to box is float32; what is remembered is as long as the weights. */
static manner_of_looking looking(const transformer *m, int64_t half) {
    return (manner_of_looking){m->heads, m->key, m->value, half};
}

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
    const void **written;
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
    r.written = (const void **)((end + 63) / 64 * 64);
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
    manner_of_looking own = looking(m, 0), kept = looking(m, m->scores.parts == ROUNDED);
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
                turn(queries + width, asked, size, m->key, r.keys);
                for (int64_t s = 0; s < size; s++)
                    look(&own, queries + s * asked, r.keys, values, asked, size, r.weights,
                         r.heads + (first + s) * heads + h * m->value);
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
            char *keys = memory->keys[i] + memory->keys_at[n] * bytes_of(&kept);
            char *values = memory->values[i] + (begin + first) * heads * bytes_of(&kept);
            for (int64_t h = 0; h < m->heads; h++) {
                const float *from = r.asked + first * record(m) + h * m->key;
                int64_t many = m->key * filled(size);
                turn(from, record(m), size, m->key, r.keys);
                write_down(&kept, r.keys, many, keys + h * many * bytes_of(&kept));
                from = r.asked + first * record(m) + width + h * m->value;
                for (int64_t s = 0; s < size; s++)
                    write_down(&kept, from + s * record(m), m->value,
                             values + (h * size + s) * m->value * bytes_of(&kept));
            }
        }
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

/* What is wanted instead of all scores: those of the best tokens [B, count], as ln p; of
 * several steps the best token [most, B], until `enough` rows have written `end`. */
typedef struct {
    int64_t count, num_refused;
    const int64_t *refused;
    int64_t *tokens;
    int64_t most, end, enough;
} wanted;

/* Write one more token in each of B rows at position `here`: scores [B, V], or the best of
 * them, which then never stand in memory all at once. Returns 0 where those are no numbers.
 *
 * written [here + 1]: where each position's records begin, [layers, rows of then]; the
 * last is written now. rows_then [here + 1]. stems [B, ld]: each row's row of then.
 * longest: of sources and what is written, here counted.
 */
static int64_t step(const transformer *m, const int64_t *tokens, int64_t rows, int64_t here,
                    char *const *written, const int64_t *rows_then, const int32_t *stems,
                    int64_t ld, const source_memory *memory, const int64_t *source_of,
                    int64_t longest, float *scores, const wanted *best, float *spare) {
    int64_t width = m->heads * m->key, heads = m->heads * m->value, wide = record(m);
    manner_of_looking kept = looking(m, m->scores.parts == ROUNDED);
    int64_t bytes = bytes_of(&kept);
    room r = lay_out(m, rows, longest, spare);
    enter(m, &m->writing, tokens, rows, 0, here, r.x);
    for (int64_t i = 0; i < m->decoder_layers; i++) {
        const layer *l = m->decoder + i;
        const float *seen = entering(m, &l->own.around, rows, &r);
        product_apply(&l->own.asked, seen, m->model, rows, r.asked, width + wide, PLAIN,
                      r.product);
        for (int64_t row = 0; row < rows; row++) {
            const float *asked = r.asked + row * (width + wide);
            char *now = written[here] + (i * rows + row) * wide * bytes;
            write_down(&kept, asked + width, wide, now);
            for (int64_t p = 0; p < here; p++)
                r.written[p] = written[p] + (i * rows_then[p] + stems[row * ld + p]) * wide * bytes;
            r.written[here] = now;
            look_back(&kept, asked, r.written, here + 1, r.weights, r.heads + row * heads);
        }
        leaving(m, &l->own.around, &l->own.join, r.heads, rows, &r);

        seen = entering(m, &l->source.around, rows, &r);
        product_apply(&l->source.asked, seen, m->model, rows, r.asked, width, PLAIN, r.product);
        for (int64_t row = 0; row < rows; row++) {
            int64_t n = source_of[row], first = memory->starts[n];
            int64_t size = memory->starts[n + 1] - first;
            const char *keys = memory->keys[i] + memory->keys_at[n] * bytes;
            const char *values = memory->values[i] + first * heads * bytes;
            for (int64_t h = 0; h < m->heads; h++)
                look(&kept, r.asked + row * width + h * m->key,
                     keys + h * m->key * filled(size) * bytes,
                     values + h * size * m->value * bytes, m->value, size, r.weights,
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

/* The same, again and again with what was found best. Returns the steps that were taken, 0
 * where scores are no numbers. written and rows_then: [here + most]. */
int64_t write_on(const transformer *m, const int64_t *tokens, int64_t rows, int64_t here,
                 char *const *written, const int64_t *rows_then, const int32_t *stems,
                 int64_t ld, const source_memory *memory, const int64_t *source_of,
                 int64_t longest, float *scores, const wanted *best, float *spare) {
    if (!best || best->most == 1)
        return step(m, tokens, rows, here, written, rows_then, stems, ld, memory, source_of,
                    longest, scores, best, spare);
    for (int64_t taken = 0; taken < best->most; taken++) {
        wanted now = *best;
        int64_t ended = 0;
        now.tokens += taken * rows;
        if (!step(m, taken ? now.tokens - rows : tokens, rows, here + taken, written, rows_then,
                  stems, ld, memory, source_of, longest, scores + taken * rows, &now, spare))
            return 0;
        for (int64_t row = 0; row < rows; row++) /* those that ended before write on */
            for (int64_t before = taken; before >= 0 && tokens[row] != best->end; before--)
                if (best->tokens[before * rows + row] == best->end) {
                    ended++;
                    break;
                }
        if (ended >= best->enough) return taken + 1;
    }
    return best->most;
}
