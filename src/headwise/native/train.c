/* A batch through both stacks of Figure 1, forth to its loss and back to all gradients.
 *
 * Sentences stand one behind the other, without padding. Sizes: D model width, H heads, K and
 * C channels of a head's key and value, F inner width, R rows: positions of all sentences.
 */
#include "train.h"

/* A matrix for both ways. */
typedef struct {
    product forth, back;
} both;

/* What is kept of an attention box: who asked, what was asked, and how it went. */
typedef struct {
    both asked, remember, join;
    float *questions, *memory, *weights, *heads, *total, *stats, *y;
} kept_box;

typedef struct {
    const float *x;
    kept_box own, source;
    both widen, narrow;
    float *inner, *total, *stats, *y;
} kept_layer;

typedef struct {
    float *out, *to_x, *to_out, *to_inner, *to_questions, *to_heads, *to_memory, *to_encoded;
    float *right, *spare, *logs;
    both scores;
    kept_layer *encoder, *decoder;
    const float *encoded, *written;
} kept;

/* Memory that is handed out piece by piece; without a base, only counted. */
typedef struct {
    char *base;
    int64_t used;
} arena;

static void *take(arena *a, int64_t bytes) {
    void *piece = a->base ? a->base + a->used : 0;
    a->used += (bytes + 63) / 64 * 64;
    return piece;
}

static float *floats(arena *a, int64_t count) { return take(a, count * 4); }

INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t rows_of(const int64_t *starts, int64_t sentences) { return starts[sentences]; }

static int64_t longest_of(const int64_t *starts, int64_t sentences) {
    int64_t longest = 1;
    for (int64_t n = 0; n < sentences; n++) longest = most(longest, starts[n + 1] - starts[n]);
    return longest;
}

/* Lay out matrices that are applied to the same vectors as one. */
static both joined(const pupil *p, const linear *const boxes[], int64_t count, arena *a) {
    int64_t in = boxes[0]->in, out = 0;
    for (int64_t i = 0; i < count; i++) out += boxes[i]->out;
    both b = {{.in = in, .out = out, .half = p->half}, {.in = out, .out = in, .half = p->half}};
    void *forth = take(a, product_size(in, out, p->half));
    void *back = take(a, product_size(out, in, p->half));
    float *weight = count > 1 ? floats(a, in * out) : 0;
    float *bias = boxes[0]->bias ? floats(a, out) : 0;
    if (!a->base) return b;
    for (int64_t i = 0, at = 0; i < count; at += boxes[i++]->out) {
        if (weight) memcpy(weight + at * in, boxes[i]->weight, boxes[i]->out * in * 4);
        if (bias) memcpy(bias + at, boxes[i]->bias, boxes[i]->out * 4);
    }
    product_pack(weight ? weight : boxes[0]->weight, in, out, p->half, forth);
    product_lay_out(weight ? weight : boxes[0]->weight, in, out, in, p->half, back);
    b.forth.weight = forth;
    b.forth.bias = bias;
    b.back.weight = back;
    return b;
}

static int64_t weights_of(const pupil *p, const lesson *l, const int64_t *asking,
                          const int64_t *asked) {
    int64_t size = 0;
    for (int64_t n = 0; n < l->sentences; n++)
        size += (asking[n + 1] - asking[n]) * filled(asked[n + 1] - asked[n]);
    return size * p->heads;
}

static kept_box keep_box(const pupil *p, const lesson *l, const attention_box *b,
                         const int64_t *asking, const int64_t *asked, arena *a) {
    kept_box k;
    int64_t rows = rows_of(asking, l->sentences), own = asking == asked;
    int64_t keys = p->heads * p->key, values = p->heads * p->value;
    const linear *const all_three[] = {&b->queries, &b->keys, &b->values};
    const linear *const join[] = {&b->join};
    k.asked = joined(p, all_three, own ? 3 : 1, a);
    if (!own) k.remember = joined(p, all_three + 1, 2, a);
    k.join = joined(p, join, 1, a);
    k.questions = floats(a, rows * (own ? 2 * keys + values : keys));
    k.memory = own ? 0 : floats(a, rows_of(asked, l->sentences) * (keys + values));
    k.weights = floats(a, weights_of(p, l, asking, asked));
    k.heads = floats(a, rows * values);
    k.total = floats(a, rows * p->model);
    k.stats = floats(a, rows * 2);
    k.y = floats(a, rows * p->model);
    return k;
}

static kept_layer keep_layer(const pupil *p, const lesson *l, const block *b, int64_t writes,
                             arena *a) {
    const int64_t *own = writes ? l->target_starts : l->source_starts;
    int64_t rows = rows_of(own, l->sentences);
    const linear *const widen[] = {&b->widen}, *const narrow[] = {&b->narrow};
    kept_layer k = {0};
    k.own = keep_box(p, l, &b->own, own, own, a);
    if (writes) k.source = keep_box(p, l, &b->source, own, l->source_starts, a);
    k.widen = joined(p, widen, 1, a);
    k.narrow = joined(p, narrow, 1, a);
    k.inner = floats(a, rows * p->inner);
    k.total = floats(a, rows * p->model);
    k.stats = floats(a, rows * 2);
    k.y = floats(a, rows * p->model);
    return k;
}

/* Set aside what a lesson needs. */
static void keep(const pupil *p, const lesson *l, arena *a, kept *k) {
    int64_t sources = rows_of(l->source_starts, l->sentences);
    int64_t targets = rows_of(l->target_starts, l->sentences);
    int64_t rows = most(sources, targets), keys = p->heads * p->key;
    int64_t values = p->heads * p->value, asked = 2 * keys + values;
    int64_t longest = most(longest_of(l->source_starts, l->sentences),
                           longest_of(l->target_starts, l->sentences));
    int64_t widest = most(most(p->model, p->inner), asked);
    k->out = floats(a, rows * p->model);
    k->to_x = floats(a, rows * p->model);
    k->to_out = floats(a, rows * p->model);
    k->to_inner = floats(a, rows * p->inner);
    k->to_questions = floats(a, rows * asked);
    k->to_heads = floats(a, rows * values);
    k->to_memory = floats(a, sources * (keys + values));
    k->to_encoded = floats(a, sources * p->model);
    k->right = take(a, product_size(rows, widest, p->half));
    int64_t spare = most(product_spare(widest, rows), product_spare(rows, widest));
    spare = most(spare, 4 * loss_spare(p->model, p->half));
    k->spare = take(a, most(spare, 4 * attend_spare(longest, p->key, p->value)));
    k->logs = floats(a, targets);
    const linear *const scores[] = {&p->scores};
    both *laid = &k->scores;
    laid->forth = (product){.in = p->model, .out = p->scores.out, .half = p->half};
    void *weight = take(a, product_size(p->model, p->scores.out, p->half));
    if (a->base) {
        product_pack(scores[0]->weight, p->model, p->scores.out, p->half, weight);
        laid->forth.weight = weight;
        laid->forth.bias = p->scores.bias;
    }
    kept_layer *encoder = take(a, p->encoder_layers * sizeof(kept_layer));
    kept_layer *decoder = take(a, p->decoder_layers * sizeof(kept_layer));
    for (int64_t i = 0; i < p->encoder_layers; i++) {
        kept_layer each = keep_layer(p, l, p->encoder + i, 0, a);
        if (encoder) encoder[i] = each;
    }
    for (int64_t i = 0; i < p->decoder_layers; i++) {
        kept_layer each = keep_layer(p, l, p->decoder + i, 1, a);
        if (decoder) decoder[i] = each;
    }
    k->encoder = encoder;
    k->decoder = decoder;
    k->encoded = floats(a, sources * p->model);
    k->written = floats(a, targets * p->model);
}

/* Where chance falls, by a number of its own for each place of the model. */
static chance at(const pupil *p, const lesson *l, int64_t writes, int64_t layer, int64_t box) {
    return chance_of(l->seed, (layer * 4 + box) * 2 + writes, p->dropout);
}

static void enter(const pupil *p, const lesson *l, const foot *f, const int64_t *tokens,
                  const int64_t *starts, int64_t writes, float *x) {
    chance c = at(p, l, writes, 0, 0);
    for (int64_t n = 0; n < l->sentences; n++)
        for (int64_t row = starts[n]; row < starts[n + 1]; row++, x += p->model) {
            const float *from = f->table + tokens[row] * p->model;
            const float *place = f->places + (row - starts[n]) * p->model;
            for (int64_t i = 0; i < p->model; i++) x[i] = from[i] * f->scale + place[i];
            silence(&c, x, p->model);
        }
}

static void enter_back(const pupil *p, const lesson *l, const foot *f, const int64_t *tokens,
                       const int64_t *starts, int64_t writes, float *to_x) {
    chance c = at(p, l, writes, 0, 0);
    for (int64_t row = 0; row < rows_of(starts, l->sentences); row++, to_x += p->model) {
        float *to = f->to_table + tokens[row] * p->model;
        silence(&c, to_x, p->model);
        for (int64_t i = 0; i < p->model; i++) to[i] += to_x[i] * f->scale;
    }
}

INLINE head head_of(const pupil *p, const kept_box *k, int64_t own, int64_t n, int64_t h,
                    const int64_t *asking, const int64_t *asked, int64_t causal) {
    int64_t keys = p->heads * p->key, values = p->heads * p->value;
    int64_t ldq = own ? 2 * keys + values : keys, ldk = own ? ldq : keys + values;
    const float *memory = own ? k->questions + keys : k->memory;
    memory += asked[n] * ldk;
    return (head){.queries = k->questions + asking[n] * ldq + h * p->key,
                  .keys = memory + h * p->key,
                  .values = memory + keys + h * p->value,
                  .ldq = ldq, .ldk = ldk, .ldv = ldk,
                  .asking = asking[n + 1] - asking[n], .asked = asked[n + 1] - asked[n],
                  .key = p->key, .value = p->value, .causal = causal};
}

/* x asks, and `source` is asked (x itself, where both are the same). */
static void box_forth(const pupil *p, const lesson *l, const attention_box *b, kept_box *k,
                      const kept *room, const float *x, const float *source,
                      const int64_t *asking, const int64_t *asked, int64_t causal, chance c) {
    int64_t own = asking == asked, rows = rows_of(asking, l->sentences);
    int64_t values = p->heads * p->value;
    product_apply(&k->asked.forth, x, p->model, rows, k->questions, k->asked.forth.out, PLAIN,
                  room->spare);
    if (!own)
        product_apply(&k->remember.forth, source, p->model, rows_of(asked, l->sentences),
                      k->memory, k->remember.forth.out, PLAIN, room->spare);
    float *weights = k->weights;
    for (int64_t n = 0; n < l->sentences; n++)
        for (int64_t h = 0; h < p->heads; h++) {
            head each = head_of(p, k, own, n, h, asking, asked, causal);
            attend(&each, weights, k->heads + asking[n] * values + h * p->value, values,
                   room->spare);
            weights += each.asking * filled(each.asked);
        }
    product_apply(&k->join.forth, k->heads, values, rows, room->out, p->model, PLAIN, room->spare);
    add_and_norm(&b->around, x, room->out, rows, p->model, c, k->total, k->stats, k->y);
}

static void bend(float *x, int64_t size) {
    for (int64_t i = 0; i < size; i++) x[i] = x[i] < 0 ? 0 : x[i];
}

static void layer_forth(const pupil *p, const lesson *l, const block *b, kept_layer *k,
                        const kept *room, const float *x, int64_t number, int64_t writes) {
    const int64_t *own = writes ? l->target_starts : l->source_starts;
    int64_t rows = rows_of(own, l->sentences);
    k->x = x;
    box_forth(p, l, &b->own, &k->own, room, x, x, own, own, writes, at(p, l, writes, number, 1));
    const float *y = k->own.y;
    if (writes) {
        box_forth(p, l, &b->source, &k->source, room, y, room->encoded, own, l->source_starts, 0,
                  at(p, l, writes, number, 2));
        y = k->source.y;
    }
    product_apply(&k->widen.forth, y, p->model, rows, k->inner, p->inner, PLAIN, room->spare);
    bend(k->inner, rows * p->inner);
    product_apply(&k->narrow.forth, k->inner, p->inner, rows, room->out, p->model, PLAIN,
                  room->spare);
    add_and_norm(&b->around, y, room->out, rows, p->model, at(p, l, writes, number, 3), k->total,
                 k->stats, k->y);
}

/* Gradients of matrices that were applied to x [rows, in] as one, and of x. */
static void linear_back(const linear *const boxes[], int64_t count, const product *back,
                        const float *x, int64_t rows, const float *to_y, float *to_x, manner how,
                        const kept *room) {
    int64_t in = boxes[0]->in, ld = back->in;
    product_apply(back, to_y, ld, rows, to_x, in, how, room->spare);
    product seen = {.in = rows, .out = in, .half = back->half, .weight = room->right};
    product_lay_out(x, in, rows, in, back->half, room->right);
    for (int64_t i = 0; i < count; to_y += boxes[i++]->out) {
        product_apply(&seen, to_y, ld, boxes[i]->out, boxes[i]->to_weight, in, TURNED_AND_ADDED,
                      room->spare);
        if (boxes[i]->to_bias)
            for (int64_t row = 0; row < rows; row++)
                for (int64_t j = 0; j < boxes[i]->out; j++)
                    boxes[i]->to_bias[j] += to_y[row * ld + j];
    }
}

/* to_x comes as the gradient of y and goes as that of x. */
static void box_back(const pupil *p, const lesson *l, const attention_box *b, const kept_box *k,
                     const kept *room, const float *x, const float *source,
                     const int64_t *asking, const int64_t *asked, int64_t causal, chance c) {
    int64_t own = asking == asked, rows = rows_of(asking, l->sentences);
    int64_t keys = p->heads * p->key, values = p->heads * p->value;
    const linear *const all_three[] = {&b->queries, &b->keys, &b->values};
    const linear *const join[] = {&b->join};
    add_and_norm_back(&b->around, room->to_x, rows, p->model, c, k->total, k->stats, room->to_x,
                      room->to_out);
    linear_back(join, 1, &k->join.back, k->heads, rows, room->to_out, room->to_heads, PLAIN, room);
    const float *weights = k->weights;
    for (int64_t n = 0; n < l->sentences; n++)
        for (int64_t h = 0; h < p->heads; h++) {
            head each = head_of(p, k, own, n, h, asking, asked, causal);
            float *to_memory = own ? room->to_questions + keys : room->to_memory;
            to_memory += asked[n] * each.ldk;
            attend_back(&each, weights, room->to_heads + asking[n] * values + h * p->value,
                        values, room->to_questions + asking[n] * each.ldq + h * p->key,
                        to_memory + h * p->key, to_memory + keys + h * p->value, room->spare);
            weights += each.asking * filled(each.asked);
        }
    linear_back(all_three, own ? 3 : 1, &k->asked.back, x, rows, room->to_questions, room->to_x,
                ADDED, room);
    if (!own)
        linear_back(all_three + 1, 2, &k->remember.back, source,
                    rows_of(asked, l->sentences), room->to_memory, room->to_encoded, ADDED, room);
}

static void layer_back(const pupil *p, const lesson *l, const block *b, const kept_layer *k,
                       const kept *room, int64_t number, int64_t writes) {
    const int64_t *own = writes ? l->target_starts : l->source_starts;
    int64_t rows = rows_of(own, l->sentences);
    const float *y = writes ? k->source.y : k->own.y;
    const linear *const widen[] = {&b->widen}, *const narrow[] = {&b->narrow};
    add_and_norm_back(&b->around, room->to_x, rows, p->model, at(p, l, writes, number, 3),
                      k->total, k->stats, room->to_x, room->to_out);
    linear_back(narrow, 1, &k->narrow.back, k->inner, rows, room->to_out, room->to_inner, PLAIN,
                room);
    for (int64_t i = 0; i < rows * p->inner; i++)
        room->to_inner[i] = k->inner[i] > 0 ? room->to_inner[i] : 0;
    linear_back(widen, 1, &k->widen.back, y, rows, room->to_inner, room->to_x, ADDED, room);
    if (writes)
        box_back(p, l, &b->source, &k->source, room, k->own.y, room->encoded, own,
                 l->source_starts, 0, at(p, l, writes, number, 2));
    box_back(p, l, &b->own, &k->own, room, k->x, k->x, own, own, writes,
             at(p, l, writes, number, 1));
}

/* Bytes that a lesson needs from the first half to the end of the second. */
int64_t lesson_bytes(const pupil *p, const lesson *l) {
    arena a = {0};
    kept counted;
    take(&a, sizeof(kept));
    keep(p, l, &a, &counted);
    return a.used;
}

/* The first half: returns the summed loss. memory: lesson_bytes, aligned to 64. */
double learn_forth(const pupil *p, const lesson *l, void *memory) {
    arena a = {memory, 0};
    kept *k = take(&a, sizeof(kept));
    keep(p, l, &a, k);
    const float *x = k->encoded;
    enter(p, l, &p->reading, l->source, l->source_starts, 0, (float *)x);
    for (int64_t i = 0; i < p->encoder_layers; i++) {
        layer_forth(p, l, p->encoder + i, k->encoder + i, k, x, i + 1, 0);
        x = k->encoder[i].y;
    }
    k->encoded = x;
    x = k->written;
    enter(p, l, &p->writing, l->target_in, l->target_starts, 1, (float *)x);
    for (int64_t i = 0; i < p->decoder_layers; i++) {
        layer_forth(p, l, p->decoder + i, k->decoder + i, k, x, i + 1, 1);
        x = k->decoder[i].y;
    }
    k->written = x;
    return loss_of(&k->scores.forth, x, rows_of(l->target_starts, l->sentences), l->target_out,
                   p->smoothing, k->logs, k->spare);
}

/* The second half: adds the gradients of the loss times scale. */
void learn_back(const pupil *p, const lesson *l, void *memory, float scale) {
    kept *k = memory;
    loss_back(&p->scores, &k->scores.forth, k->written, rows_of(l->target_starts, l->sentences),
              l->target_out, p->smoothing, k->logs, scale, k->to_x, k->spare);
    memset(k->to_encoded, 0, rows_of(l->source_starts, l->sentences) * p->model * 4);
    for (int64_t i = p->decoder_layers; i--;)
        layer_back(p, l, p->decoder + i, k->decoder + i, k, i + 1, 1);
    enter_back(p, l, &p->writing, l->target_in, l->target_starts, 1, k->to_x);
    kept of_sources = *k;
    of_sources.to_x = k->to_encoded;
    for (int64_t i = p->encoder_layers; i--;)
        layer_back(p, l, p->encoder + i, k->encoder + i, &of_sources, i + 1, 0);
    enter_back(p, l, &p->reading, l->source, l->source_starts, 0, of_sources.to_x);
}
