/* A batch through both stacks of Figure 1, forth to its loss and back to all gradients.
 *
 * Sentences stand one behind the other, without padding. Some of them go all the way before
 * the next do: what is kept of a whole batch would go through memory again and again. Sizes:
 * D model width, H heads, K and C channels of a head's key and value, F inner width, R rows:
 * positions of all sentences of a group.
 */
#include "train.h"

#define GROUP_ROWS 256 /* positions of each side that are learned from together */

/* What is kept of an attention box: who asked, what was asked, and how it went. */
typedef struct {
    float *questions, *memory, *weights, *heads, *total, *stats, *y;
} kept_box;

typedef struct {
    const float *x;
    kept_box own, source;
    float *inner, *total, *stats, *y;
} kept_layer;

/* What is kept of a group of sentences. */
typedef struct {
    float *out, *to_x, *to_out, *to_inner, *to_questions, *to_heads, *to_memory, *to_encoded;
    float *right, *spare;
    kept_layer *encoder, *decoder;
    const float *encoded, *written;
} kept;

INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Positions of some sentences; the first need not begin at 0. */
static int64_t rows_of(const int64_t *starts, int64_t sentences) {
    return starts[sentences] - starts[0];
}

static int64_t longest_of(const int64_t *starts, int64_t sentences) {
    int64_t longest = 1;
    for (int64_t n = 0; n < sentences; n++) longest = most(longest, starts[n + 1] - starts[n]);
    return longest;
}

static int64_t weights_of(const pupil *p, const lesson *l, const int64_t *asking,
                          const int64_t *asked) {
    int64_t size = 0;
    for (int64_t n = 0; n < l->sentences; n++)
        size += (asking[n + 1] - asking[n]) * filled(asked[n + 1] - asked[n]);
    return size * p->heads;
}

static kept_box keep_box(const pupil *p, const lesson *l, const int64_t *asking,
                         const int64_t *asked, arena *a) {
    kept_box k;
    int64_t rows = rows_of(asking, l->sentences), own = asking == asked;
    int64_t keys = p->heads * p->key, values = p->heads * p->value;
    k.questions = floats(a, rows * (own ? 2 * keys + values : keys));
    k.memory = own ? 0 : floats(a, rows_of(asked, l->sentences) * (keys + values));
    k.weights = floats(a, weights_of(p, l, asking, asked));
    k.heads = floats(a, rows * values);
    k.total = floats(a, rows * p->model);
    k.stats = floats(a, rows * 2);
    k.y = floats(a, rows * p->model);
    return k;
}

static kept_layer *keep_layers(const pupil *p, const lesson *l, int64_t layers, int64_t writes,
                               arena *a) {
    const int64_t *own = writes ? l->target_starts : l->source_starts;
    int64_t rows = rows_of(own, l->sentences);
    kept_layer *all = take(a, layers * sizeof(kept_layer));
    for (int64_t i = 0; i < layers; i++) {
        kept_layer k = {0};
        k.own = keep_box(p, l, own, own, a);
        if (writes) k.source = keep_box(p, l, own, l->source_starts, a);
        k.inner = floats(a, rows * p->inner);
        k.total = floats(a, rows * p->model);
        k.stats = floats(a, rows * 2);
        k.y = floats(a, rows * p->model);
        if (a->base) all[i] = k;
    }
    return all;
}

/* Set aside what a group needs. */
static kept keep(const pupil *p, const lesson *l, arena *a) {
    kept k;
    int64_t sources = rows_of(l->source_starts, l->sentences);
    int64_t targets = rows_of(l->target_starts, l->sentences);
    int64_t rows = most(sources, targets), keys = p->heads * p->key;
    int64_t values = p->heads * p->value, asked = 2 * keys + values;
    int64_t longest = most(longest_of(l->source_starts, l->sentences),
                           longest_of(l->target_starts, l->sentences));
    int64_t widest = most(most(p->model, p->inner), asked);
    k.out = floats(a, rows * p->model);
    k.to_x = floats(a, rows * p->model);
    k.to_out = floats(a, rows * p->model);
    k.to_inner = floats(a, rows * p->inner);
    k.to_questions = floats(a, rows * asked);
    k.to_heads = floats(a, rows * values);
    k.to_memory = floats(a, sources * (keys + values));
    k.to_encoded = floats(a, sources * p->model);
    k.right = take(a, product_size(rows, widest, p->parts));
    int64_t spare = most(product_spare(widest, rows), product_spare(rows, widest));
    spare = most(spare, 4 * loss_spare(p->model, p->scores.out, targets, p->parts));
    k.spare = take(a, most(spare, 4 * attend_spare(longest, p->key, p->value)));
    k.encoder = keep_layers(p, l, p->encoder_layers, 0, a);
    k.decoder = keep_layers(p, l, p->decoder_layers, 1, a);
    k.encoded = floats(a, sources * p->model);
    k.written = floats(a, targets * p->model);
    return k;
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
    for (int64_t row = starts[0]; row < starts[l->sentences]; row++, to_x += p->model) {
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
    memory += (asked[n] - asked[0]) * ldk;
    return (head){.queries = k->questions + (asking[n] - asking[0]) * ldq + h * p->key,
                  .keys = memory + h * p->key,
                  .values = memory + keys + h * p->value,
                  .ldq = ldq, .ldk = ldk, .ldv = ldk,
                  .asking = asking[n + 1] - asking[n], .asked = asked[n + 1] - asked[n],
                  .key = p->key, .value = p->value, .causal = causal};
}

/* x asks, and `source` is asked (x itself, where both are the same). */
static void box_forth(const pupil *p, const lesson *l, const attention_box *b,
                      const laid_box *laid, kept_box *k, const kept *room, const float *x,
                      const float *source, const int64_t *asking, const int64_t *asked,
                      int64_t causal, chance c) {
    int64_t own = asking == asked, rows = rows_of(asking, l->sentences);
    int64_t values = p->heads * p->value;
    product_apply(&laid->asked.forth, x, p->model, rows, k->questions, laid->asked.forth.out,
                  PLAIN, room->spare);
    if (!own)
        product_apply(&laid->remember.forth, source, p->model, rows_of(asked, l->sentences),
                      k->memory, laid->remember.forth.out, PLAIN, room->spare);
    float *weights = k->weights;
    for (int64_t n = 0; n < l->sentences; n++)
        for (int64_t h = 0; h < p->heads; h++) {
            head each = head_of(p, k, own, n, h, asking, asked, causal);
            attend(&each, weights, k->heads + (asking[n] - asking[0]) * values + h * p->value,
                   values, room->spare);
            weights += each.asking * filled(each.asked);
        }
    product_apply(&laid->join.forth, k->heads, values, rows, room->out, p->model, PLAIN,
                  room->spare);
    add_and_norm(&b->around, x, room->out, rows, p->model, c, k->total, k->stats, k->y);
}

static void layer_forth(const pupil *p, const lesson *l, const block *b, const laid_block *laid,
                        kept_layer *k, const kept *room, const float *x, int64_t number,
                        int64_t writes) {
    const int64_t *own = writes ? l->target_starts : l->source_starts;
    int64_t rows = rows_of(own, l->sentences);
    k->x = x;
    box_forth(p, l, &b->own, &laid->own, &k->own, room, x, x, own, own, writes,
              at(p, l, writes, number, 1));
    const float *y = k->own.y;
    if (writes) {
        box_forth(p, l, &b->source, &laid->source, &k->source, room, y, room->encoded, own,
                  l->source_starts, 0, at(p, l, writes, number, 2));
        y = k->source.y;
    }
    product_apply(&laid->widen.forth, y, p->model, rows, k->inner, p->inner,
                  (manner){.bend = RELU}, room->spare);
    product_apply(&laid->narrow.forth, k->inner, p->inner, rows, room->out, p->model, PLAIN,
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
    product seen = {.in = rows, .out = in, .parts = back->parts, .weight = room->right};
    product_lay_out(x, in, rows, in, back->parts, room->right);
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
static void box_back(const pupil *p, const lesson *l, const attention_box *b,
                     const laid_box *laid, const kept_box *k, const kept *room, const float *x,
                     const float *source, const int64_t *asking, const int64_t *asked,
                     int64_t causal, chance c) {
    int64_t own = asking == asked, rows = rows_of(asking, l->sentences);
    int64_t keys = p->heads * p->key, values = p->heads * p->value;
    const linear *const all_three[] = {&b->queries, &b->keys, &b->values};
    const linear *const join[] = {&b->join};
    add_and_norm_back(&b->around, room->to_x, rows, p->model, c, k->total, k->stats, room->to_x,
                      room->to_out);
    linear_back(join, 1, &laid->join.back, k->heads, rows, room->to_out, room->to_heads, PLAIN,
                room);
    const float *weights = k->weights;
    for (int64_t n = 0; n < l->sentences; n++)
        for (int64_t h = 0; h < p->heads; h++) {
            head each = head_of(p, k, own, n, h, asking, asked, causal);
            float *to_memory = own ? room->to_questions + keys : room->to_memory;
            int64_t row = asking[n] - asking[0];
            to_memory += (asked[n] - asked[0]) * each.ldk;
            attend_back(&each, weights, room->to_heads + row * values + h * p->value, values,
                        room->to_questions + row * each.ldq + h * p->key,
                        to_memory + h * p->key, to_memory + keys + h * p->value, room->spare);
            weights += each.asking * filled(each.asked);
        }
    linear_back(all_three, own ? 3 : 1, &laid->asked.back, x, rows, room->to_questions, room->to_x,
                ADDED, room);
    if (!own)
        linear_back(all_three + 1, 2, &laid->remember.back, source,
                    rows_of(asked, l->sentences), room->to_memory, room->to_encoded, ADDED, room);
}

static void layer_back(const pupil *p, const lesson *l, const block *b, const laid_block *laid,
                       const kept_layer *k, const kept *room, int64_t number, int64_t writes) {
    const int64_t *own = writes ? l->target_starts : l->source_starts;
    int64_t rows = rows_of(own, l->sentences);
    const float *y = writes ? k->source.y : k->own.y;
    const linear *const widen[] = {&b->widen}, *const narrow[] = {&b->narrow};
    add_and_norm_back(&b->around, room->to_x, rows, p->model, at(p, l, writes, number, 3),
                      k->total, k->stats, room->to_x, room->to_out);
    linear_back(narrow, 1, &laid->narrow.back, k->inner, rows, room->to_out, room->to_inner, PLAIN,
                room);
    for (int64_t i = 0; i < rows * p->inner; i++)
        room->to_inner[i] = k->inner[i] > 0 ? room->to_inner[i] : 0;
    linear_back(widen, 1, &laid->widen.back, y, rows, room->to_inner, room->to_x, ADDED, room);
    if (writes)
        box_back(p, l, &b->source, &laid->source, &k->source, room, k->own.y, room->encoded, own,
                 l->source_starts, 0, at(p, l, writes, number, 2));
    box_back(p, l, &b->own, &laid->own, &k->own, room, k->x, k->x, own, own, writes,
             at(p, l, writes, number, 1));
}

/* A group of sentences: forth, and back at once. */
static double learn_group(const pupil *p, const lesson *l, const laid_model *m, arena a) {
    kept k = keep(p, l, &a);
    int64_t sources = rows_of(l->source_starts, l->sentences);
    int64_t targets = rows_of(l->target_starts, l->sentences);
    const float *x = k.encoded;
    enter(p, l, &p->reading, l->source, l->source_starts, 0, (float *)x);
    for (int64_t i = 0; i < p->encoder_layers; i++) {
        layer_forth(p, l, p->encoder + i, m->encoder + i, k.encoder + i, &k, x, i + 1, 0);
        x = k.encoder[i].y;
    }
    k.encoded = x;
    x = k.written;
    enter(p, l, &p->writing, l->target_in, l->target_starts, 1, (float *)x);
    for (int64_t i = 0; i < p->decoder_layers; i++) {
        layer_forth(p, l, p->decoder + i, m->decoder + i, k.decoder + i, &k, x, i + 1, 1);
        x = k.decoder[i].y;
    }
    double loss = loss_and_back(&p->scores, &m->scores, m->back, x, targets,
                                l->target_out + l->target_starts[0], p->smoothing, k.to_x,
                                k.spare);
    memset(k.to_encoded, 0, sources * p->model * 4);
    for (int64_t i = p->decoder_layers; i--;)
        layer_back(p, l, p->decoder + i, m->decoder + i, k.decoder + i, &k, i + 1, 1);
    enter_back(p, l, &p->writing, l->target_in, l->target_starts, 1, k.to_x);
    k.to_x = k.to_encoded;
    for (int64_t i = p->encoder_layers; i--;)
        layer_back(p, l, p->encoder + i, m->encoder + i, k.encoder + i, &k, i + 1, 0);
    enter_back(p, l, &p->reading, l->source, l->source_starts, 0, k.to_x);
    return loss;
}

/* The sentences from `first` on that are learned from together: as many as stay near. */
static lesson group_of(const pupil *p, const lesson *l, int64_t first) {
    int64_t room = most(GROUP_ROWS, 2 * p->model), last = first + 1;
    const int64_t *sources = l->source_starts, *targets = l->target_starts;
    while (last < l->sentences && sources[last + 1] - sources[first] <= room &&
           targets[last + 1] - targets[first] <= room)
        last++;
    lesson group = *l;
    group.sentences = last - first;
    group.source_starts += first;
    group.target_starts += first;
    group.seed = mixed(l->seed + first);
    return group;
}

/* Bytes that a lesson needs. */
int64_t lesson_bytes(const pupil *p, const lesson *l) {
    int64_t largest = 0;
    arena all = {0};
    lay_out(p, &all);
    for (int64_t n = 0; n < l->sentences;) {
        arena own = {0};
        lesson group = group_of(p, l, n);
        keep(p, &group, &own);
        largest = most(largest, own.used);
        n += group.sentences;
    }
    return all.used + largest;
}

/* Return the summed loss, and add its gradients. memory: lesson_bytes, aligned to 64. */
double learn(const pupil *p, const lesson *l, void *memory) {
    arena a = {memory, 0};
    laid_model m = lay_out(p, &a);
    double loss = 0;
    for (int64_t n = 0; n < l->sentences;) {
        lesson group = group_of(p, l, n);
        loss += learn_group(p, &group, &m, a);
        n += group.sentences;
    }
    return loss;
}
