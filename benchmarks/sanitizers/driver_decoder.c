/* Random models: sources are encoded, and decoded greedily, by beams and with all scores; prompts of
 * a decoder alone are prefilled. */
#include "driver.h"
#include "inference.h"

#include <pthread.h>
#include <stdlib.h>

#define MAX_STEPS 14
#define MAX_ROWS 12
#define MAX_TOPK 5

static const int64_t widths[] = {1, 3, 8, 16, 24, 30, 32, 40, 64};
static const int64_t head_widths[] = {1, 5, 7, 8, 16, 20, 32, 33, 64};
static const int64_t vocabularies[] = {2, 5, 16, 37, 100, 1000, 1024, 1030, 2100};

static matrix random_matrix(int64_t in, int64_t out, int64_t terms, int64_t biased) {
    float *weight = random_floats(in * out, 2 / sqrtf(in));
    void *packed = guarded(packed_bytes(in, out, terms), 64);
    pack_transposed(weight, in, out, terms, packed);
    return (matrix){in, out, terms, packed, biased ? random_floats(out, 1) : 0};
}

static layer_norm random_norm(int64_t size) {
    return (layer_norm){
        .weight = random_floats(size, 1), .bias = random_floats(size, 1), .eps = 1e-5f};
}

/* Number formats of a stack's matrices, and of those that are applied to sources. */
typedef struct {
    int64_t own, source, biased;
} formats;

static sublayer random_attention(const transformer *m, int64_t kind, formats f) {
    int64_t d = m->d_model, keys = keys_width(m), values = values_width(m);
    int64_t is_cross = kind == CROSS_ATTENTION;
    sublayer l = {.kind = kind};
    l.packed.qkv = random_matrix(d, is_cross ? keys : 2 * keys + values, f.own, f.biased);
    if (is_cross) l.packed.kv = random_matrix(d, keys + values, f.source, f.biased);
    l.packed.output = random_matrix(values, d, f.own, f.biased);
    l.norm = random_norm(d);
    return l;
}

static sublayer random_feed_forward(const transformer *m, formats f) {
    sublayer l = {.kind = FEED_FORWARD};
    l.packed.expand = random_matrix(m->d_model, m->d_ff, f.own, 1);
    l.packed.project = random_matrix(m->d_ff, m->d_model, f.own, 1);
    l.norm = random_norm(m->d_model);
    return l;
}

static embedding random_embedding(const transformer *m, int64_t vocabulary, int64_t positions) {
    int64_t width = happens(70) ? m->d_model : draw(1, m->d_model);
    embedding e = {.num_positions = positions, .width = width, .scale = sqrtf(width)};
    e.table = random_floats(vocabulary * width, 1 / sqrtf(width));
    e.positions = random_floats(positions * m->d_model, 1);
    if (happens(30)) e.norm = random_norm(m->d_model);
    return e;
}

static stack random_stack(const transformer *m, int64_t layers, int64_t is_decoder, formats f) {
    int64_t in_a_layer = is_decoder ? 3 : 2, count = layers * in_a_layer, i = 0;
    sublayer *table = guarded(count * (int64_t)sizeof(sublayer), 8);
    while (i < count) {
        table[i++] = random_attention(m, is_decoder ? CAUSAL_SELF_ATTENTION : SELF_ATTENTION, f);
        if (is_decoder) table[i++] = random_attention(m, CROSS_ATTENTION, f);
        table[i++] = random_feed_forward(m, f);
    }
    return (stack){.num_sublayers = count, .sublayers = table};
}

/* `longest` source positions at most. */
static transformer random_model(int64_t vocabulary, int64_t longest) {
    transformer m = {0};
    int64_t encoder_layers = draw(0, 2), decoder_layers = draw(0, 2);
    int64_t biased = happens(30), is_bf16 = happens(40);
    m.d_model = one_of(widths, COUNT(widths));
    m.heads = draw(1, 3);
    m.d_k = one_of(head_widths, COUNT(head_widths));
    m.d_v = happens(60) ? m.d_k : one_of(head_widths, COUNT(head_widths));
    m.d_ff = one_of(widths, COUNT(widths)) + 100 * happens(10);
    m.pre_norm = happens(40);
    m.activation = draw(RELU, SWISH);
    m.terms = is_bf16 ? BF16 : FLOAT32;
    formats source = {is_bf16 ? BF16 : BF16X3, is_bf16 ? BF16 : BF16X3, biased};
    formats target = {m.terms, source.own, biased};
    m.encoder = random_stack(&m, encoder_layers, 0, source);
    m.decoder = random_stack(&m, decoder_layers, 1, target);
    m.encoder.embedding = random_embedding(&m, vocabulary, longest);
    m.decoder.embedding = random_embedding(&m, vocabulary, MAX_STEPS);
    m.encoder.rotations = random_rotations(longest, m.d_k);
    m.decoder.rotations = random_rotations(MAX_STEPS, m.d_k);
    if (m.pre_norm) m.encoder.norm = random_norm(m.d_model);
    if (m.pre_norm) m.decoder.norm = random_norm(m.d_model);
    m.packed_output = random_matrix(m.d_model, vocabulary, m.terms, biased);
    return m;
}

/* Sublayers of each kind of attention in the decoder: one in each layer. */
static int64_t decoder_layers(const transformer *m) { return m->decoder.num_sublayers / 3; }

/* Sources, and what has been decoded of each row. */
typedef struct {
    const transformer *model;
    cross_kv cross;
    int64_t sources, longest, rows, position, vocabulary;
    int64_t source_of[MAX_ROWS], rows_at[MAX_STEPS];
    int32_t ancestors[MAX_ROWS][MAX_STEPS];
    char *kv_blocks[MAX_STEPS];
} decoding;

static int64_t cache_bytes(const transformer *m) { return m->terms == BF16 ? 2 : 4; }

static decoding begin(const transformer *m, int64_t vocabulary, int64_t sources, int64_t longest) {
    decoding d = {.model = m, .sources = sources, .rows = sources, .vocabulary = vocabulary};
    int64_t *starts = integers(sources + 1), *offsets = integers(sources), keys = 0;
    starts[0] = 0;
    d.longest = 1;
    for (int64_t n = 0; n < sources; n++) {
        int64_t size = draw(0, longest);
        starts[n + 1] = starts[n] + size;
        offsets[n] = keys;
        keys += pad_to_lanes(size) * m->heads * m->d_k;
        d.longest = size > d.longest ? size : d.longest;
        d.source_of[n] = n;
    }
    int64_t total = starts[sources], values = total * m->heads * m->d_v, bytes = cache_bytes(m);
    char **key_blocks = guarded(decoder_layers(m) * (int64_t)sizeof(char *), 8);
    char **value_blocks = guarded(decoder_layers(m) * (int64_t)sizeof(char *), 8);
    for (int64_t i = 0; i < decoder_layers(m); i++) {
        key_blocks[i] = guarded(keys * bytes, bytes);
        value_blocks[i] = guarded(values * bytes, bytes);
    }
    d.cross = (cross_kv){starts, offsets, key_blocks, value_blocks};
    int64_t *tokens = random_integers(total, 0, vocabulary - 1), *positions = integers(total);
    for (int64_t n = 0; n < sources; n++)
        for (int64_t s = starts[n]; s < starts[n + 1]; s++) positions[s] = s - starts[n];
    int64_t wanted = happens(50) ? total * m->d_model : 0;
    encode_request request = {.sentences = sources,
                              .tokens = tokens,
                              .positions = positions,
                              .cross = &d.cross,
                              .encoded = wanted ? floats(wanted) : 0,
                              .longest = d.longest};
    encode(m, &request, floats(encode_scratch_floats(m, d.longest)));
    if (wanted) add_floats(request.encoded, wanted);
    for (int64_t i = 0; i < decoder_layers(m); i++) {
        add_bytes(key_blocks[i], keys * bytes);
        add_bytes(value_blocks[i], values * bytes);
    }
    return d;
}

/* Decode up to max_steps tokens in each row; the state stays where it was. */
static int64_t decode(decoding *d, const int64_t *tokens, float *scores, topk_request *request) {
    const transformer *m = d->model;
    int64_t more = request ? request->max_steps : 1, ld = d->position + more;
    int64_t kv_row = m->heads * (m->d_k + m->d_v), bytes = cache_bytes(m);
    char **blocks = guarded(ld * (int64_t)sizeof(char *), 8);
    int64_t *rows_at = integers(ld), *source_of = integers(d->rows);
    int32_t *ancestors = guarded(d->rows * ld * 4, 4);
    for (int64_t p = d->position; p < ld; p++) {
        d->kv_blocks[p] = guarded(decoder_layers(m) * d->rows * kv_row * bytes, bytes);
        d->rows_at[p] = d->rows;
    }
    memcpy(blocks, d->kv_blocks, ld * sizeof(char *));
    memcpy(rows_at, d->rows_at, ld * 8);
    memcpy(source_of, d->source_of, d->rows * 8);
    for (int64_t row = 0; row < d->rows; row++)
        for (int64_t p = 0; p < ld; p++)
            ancestors[row * ld + p] = p < d->position ? d->ancestors[row][p] : (int32_t)row;
    int64_t longest = d->longest > ld ? d->longest : ld;
    decode_request step = {.tokens = tokens,
                           .rows = d->rows,
                           .position = d->position,
                           .kv_blocks = blocks,
                           .rows_at = rows_at,
                           .ancestors = ancestors,
                           .ld = ld,
                           .cross = &d->cross,
                           .source_of = source_of,
                           .longest = longest};
    return decode_steps(m, &step, scores, request,
                        floats(step_scratch_floats(m, d->rows, longest)));
}

static void advance(decoding *d, int64_t steps) {
    for (int64_t i = 0; i < steps; i++, d->position++)
        for (int64_t row = 0; row < d->rows; row++) d->ancestors[row][d->position] = (int32_t)row;
}

/* Keep some of the rows, repeats allowed, as a beam does. */
static void select_rows(decoding *d, int64_t rows) {
    decoding before = *d;
    d->rows = rows;
    for (int64_t row = 0; row < rows; row++) {
        int64_t kept = draw(0, before.rows - 1);
        d->source_of[row] = before.source_of[kept];
        memcpy(d->ancestors[row], before.ancestors[kept], sizeof d->ancestors[row]);
    }
}

/* All scores, and then the best of them: the same as topk finds in the scores. */
static void step(decoding *d, const int64_t *tokens) {
    int64_t vocabulary = d->vocabulary, most = vocabulary < MAX_TOPK ? vocabulary : MAX_TOPK;
    int64_t count = draw(1, most), banned = draw(0, 1);
    float *scores = floats(d->rows * vocabulary);
    int64_t *forbidden = random_integers(banned, 0, vocabulary - 1);
    if (decode(d, tokens, scores, 0) != 1) fail("scores did not come");
    add_floats(scores, d->rows * vocabulary);
    float *one = floats(d->rows * count), *other = floats(d->rows * count);
    int64_t *found = integers(d->rows * count), *expected = integers(d->rows * count);
    topk_request request = {count, banned, forbidden, found, 1, 0, 0};
    int64_t is_finite = decode(d, tokens, one, &request);
    topk_rows rows = {d->rows, count,    banned, forbidden,
                      other,   expected, guarded(d->rows * (int64_t)sizeof(topk_state), 8)};
    if (is_finite != topk(&rows, scores, vocabulary))
        fail("top-k of a step and of its scores differ about NaN");
    if (is_finite && (memcmp(one, other, d->rows * count * 4) ||
                      memcmp(found, expected, d->rows * count * 8)))
        fail("top-k of a step is not that of its scores");
    advance(d, 1);
}

/* Several tokens at once, and then one by one: the same. */
static void decode_greedily(decoding *d, const int64_t *tokens, int64_t max_steps) {
    int64_t rows = d->rows, banned = draw(0, 1), end = draw(0, d->vocabulary - 1);
    int64_t unscored = draw(0, 1);
    int64_t *forbidden = random_integers(banned, 0, d->vocabulary - 1);
    float *log_p = floats(max_steps * rows), *single = floats(rows);
    int64_t *found = integers(max_steps * rows), *chosen = integers(rows);
    topk_request request = {1,         banned, forbidden,     found,
                            max_steps, end,    draw(1, rows), unscored};
    int64_t steps = decode(d, tokens, log_p, &request);
    add_bytes(&steps, 8);
    for (int64_t i = 0; i < steps; i++) {
        topk_request one = {1, banned, forbidden, chosen, 1, end, 0, unscored};
        if (!decode(d, i ? found + (i - 1) * rows : tokens, single, &one)) fail("no finite score");
        if (memcmp(single, log_p + i * rows, rows * 4) ||
            memcmp(chosen, found + i * rows, rows * 8))
            fail("step %ld of several is not that step alone", (long)i);
        add_floats(single, rows);
        add_bytes(chosen, rows * 8);
        advance(d, 1);
    }
}

static void decode_sources(const transformer *m, int64_t vocabulary, int64_t sources,
                           int64_t longest) {
    decoding d = begin(m, vocabulary, sources, longest);
    while (d.position < MAX_STEPS - 6 && sources) {
        int64_t *tokens = random_integers(d.rows, 0, vocabulary - 1);
        if (happens(50))
            step(&d, tokens);
        else
            decode_greedily(&d, tokens, draw(1, 6));
        select_rows(&d, draw(1, MAX_ROWS));
    }
}

static void describe_model(const transformer *m, int64_t vocabulary, int64_t sources,
                           int64_t longest) {
    describe("layers %ld + %ld, d_model %ld, heads %ld, d_k %ld, d_v %ld, d_ff %ld, pre-norm %ld, "
             "activation %ld, terms %ld, widths %ld and %ld, rotary %d and %d, vocabulary %ld, "
             "sources %ld of at most %ld",
             (long)m->encoder.num_sublayers / 2, (long)decoder_layers(m), (long)m->d_model,
             (long)m->heads, (long)m->d_k, (long)m->d_v, (long)m->d_ff, (long)m->pre_norm,
             (long)m->activation,
             (long)m->terms, (long)m->encoder.embedding.width,
             (long)m->decoder.embedding.width, m->encoder.rotations != 0,
             m->decoder.rotations != 0, (long)vocabulary, (long)sources, (long)longest);
}

void decoder_shape(void) {
    int64_t longest = happens(5) ? 230 : draw(1, 40), sources = happens(4) ? 0 : draw(1, 4);
    int64_t vocabulary = one_of(vocabularies, COUNT(vocabularies));
    transformer m = random_model(vocabulary, longest);
    describe_model(&m, vocabulary, sources, longest);
    decode_sources(&m, vocabulary, sources, longest);
}

/* The KV cache of `count` positions: a block of memory for each. */
static char **new_blocks(const transformer *m, int64_t layers, int64_t rows, int64_t count) {
    int64_t kv_row = m->heads * (m->d_k + m->d_v);
    char **blocks = guarded(count * (int64_t)sizeof(char *), 8);
    for (int64_t p = 0; p < count; p++)
        blocks[p] = guarded(layers * rows * kv_row * cache_bytes(m), cache_bytes(m));
    return blocks;
}

/* One token of each row, whose text begins after `padding`: the scores of the next one. */
static void step_alone(const transformer *m, const int64_t *tokens, int64_t rows, int64_t position,
                       const int64_t *padding, char **blocks, float *scores) {
    int64_t ld = position + 1, *rows_at = integers(ld);
    int32_t *ancestors = guarded(rows * ld * 4, 4);
    for (int64_t p = 0; p < ld; p++) rows_at[p] = rows;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t p = 0; p < ld; p++) ancestors[row * ld + p] = (int32_t)row;
    decode_request step = {.tokens = tokens,
                           .rows = rows,
                           .position = position,
                           .kv_blocks = blocks,
                           .rows_at = rows_at,
                           .ancestors = ancestors,
                           .ld = ld,
                           .padding = padding,
                           .longest = ld};
    if (decode_steps(m, &step, scores, 0, floats(step_scratch_floats(m, rows, ld))) != 1)
        fail("scores did not come");
}

/* Prompts of a decoder alone: all tokens at once, and one by one in a row of its own, give the same
 * scores of the next token. */
void prefill_shape(void) {
    int64_t is_long = happens(5), longest = is_long ? 230 : draw(1, 40); /* two groups */
    int64_t rows = is_long ? 2 : draw(1, 4), layers = draw(1, 2);
    int64_t vocabulary = one_of(vocabularies, COUNT(vocabularies));
    transformer m = random_model(vocabulary, 1);
    formats own = {m.terms, m.terms, happens(30)};
    sublayer *table = guarded(2 * layers * (int64_t)sizeof(sublayer), 8);
    for (int64_t i = 0; i < layers; i++) {
        table[2 * i] = random_attention(&m, CAUSAL_SELF_ATTENTION, own);
        table[2 * i + 1] = random_feed_forward(&m, own);
    }
    m.encoder = (stack){0};
    m.decoder.num_sublayers = 2 * layers;
    m.decoder.sublayers = table;
    m.decoder.embedding = random_embedding(&m, vocabulary, longest + 1);
    m.decoder.rotations = random_rotations(longest + 1, m.d_k);
    m.window = happens(40) ? draw(1, longest) : 0;
    describe("layers %ld, d_model %ld, heads %ld, d_k %ld, d_v %ld, d_ff %ld, terms %ld, window %ld, "
             "rotary %d, vocabulary %ld, %ld prompts of at most %ld",
             (long)layers, (long)m.d_model, (long)m.heads, (long)m.d_k, (long)m.d_v, (long)m.d_ff,
             (long)m.terms, (long)m.window, m.decoder.rotations != 0, (long)vocabulary, (long)rows,
             (long)longest);
    int64_t *starts = integers(rows + 1), *padding = integers(rows);
    starts[0] = 0;
    for (int64_t n = 0; n < rows; n++) {
        padding[n] = n ? draw(0, is_long ? 10 : longest) : 0;
        starts[n + 1] = starts[n] + longest - padding[n];
    }
    int64_t *tokens = random_integers(starts[rows], 0, vocabulary - 1);
    int64_t *last = random_integers(rows, 0, vocabulary - 1);
    char **blocks = new_blocks(&m, layers, rows, longest + 1);
    prefill_request request = {tokens, starts, rows, longest, blocks};
    prefill(&m, &request, floats(step_scratch_floats(&m, prefill_rows(&request), longest)));
    float *scores = floats(rows * vocabulary), *alone = floats(vocabulary);
    step_alone(&m, last, rows, longest, padding, blocks, scores);
    add_floats(scores, rows * vocabulary);
    for (int64_t n = 0; n < rows; n++) {
        int64_t size = starts[n + 1] - starts[n], none = 0;
        char **own_blocks = new_blocks(&m, layers, 1, size + 1);
        for (int64_t p = 0; p < size; p++)
            step_alone(&m, tokens + starts[n] + p, 1, p, &none, own_blocks, alone);
        step_alone(&m, last + n, 1, size, &none, own_blocks, alone);
        if (memcmp(alone, scores + n * vocabulary, vocabulary * 4))
            fail("a prompt is not its tokens one by one");
    }
}

typedef struct {
    const transformer *model;
    int64_t seed;
} task;

static void *decode_in_thread(void *given) {
    const task *mine = given;
    for (int64_t round = 0; round < 4; round++) {
        seed_draws(mine->seed * 4 + round);
        decode_sources(mine->model, 1030, 3, 20);
        free_guarded();
    }
    return 0;
}

void decode_in_threads(int64_t rounds) {
    for (int64_t round = 0; round < rounds; round++) {
        pthread_t threads[2];
        task tasks[2];
        seed_draws(round);
        transformer m = random_model(1030, 20);
        for (int64_t i = 0; i < 2; i++) {
            tasks[i] = (task){&m, 2 * round + i};
            if (pthread_create(threads + i, 0, decode_in_thread, tasks + i)) fail("no thread");
        }
        for (int64_t i = 0; i < 2; i++) pthread_join(threads[i], 0);
        free_guarded();
    }
}
