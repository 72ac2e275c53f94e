/* Random models and batches: the loss, or an encoder's output, and all gradients. */
#include "driver.h"
#include "train.h"

static const int64_t widths[] = {1, 3, 8, 16, 24, 30, 32, 40, 64, 100, 128};
static const int64_t head_widths[] = {1, 5, 7, 8, 16, 20, 32, 33, 64};
static const int64_t vocabularies[] = {2, 5, 16, 37, 100, 255, 257, 1024, 1030, 2100};

/* Gradients are accumulated: they begin with numbers that are not 0, and are told at the end. */
typedef struct {
    float *gradient;
    int64_t count;
} told_gradient;

static told_gradient told[256];
static int64_t num_told;

static float *gradient(int64_t count) {
    told[num_told].count = count;
    return told[num_told++].gradient = random_floats(count, 0.01f);
}

static linear random_linear(int64_t in, int64_t out, int64_t biased) {
    linear l = {.in = in, .out = out};
    l.weight = random_floats(in * out, 2 / sqrtf(in));
    l.grad_weight = gradient(in * out);
    if (biased) l.bias = random_floats(out, 1);
    if (biased) l.grad_bias = gradient(out);
    return l;
}

static layer_norm random_norm(int64_t size) {
    return (layer_norm){random_floats(size, 1), random_floats(size, 1), gradient(size),
                        gradient(size), 1e-5f};
}

static sublayer random_attention(const transformer *m, int64_t kind, int64_t biased) {
    int64_t keys = keys_width(m), values = values_width(m);
    return (sublayer){.kind = kind,
                      .queries = random_linear(m->d_model, keys, biased),
                      .keys = random_linear(m->d_model, keys, biased),
                      .values = random_linear(m->d_model, values, biased),
                      .output = random_linear(values, m->d_model, biased),
                      .norm = random_norm(m->d_model)};
}

static sublayer random_feed_forward(const transformer *m) {
    return (sublayer){.kind = FEED_FORWARD,
                      .expand = random_linear(m->d_model, m->d_ff, 1),
                      .project = random_linear(m->d_ff, m->d_model, 1),
                      .norm = random_norm(m->d_model)};
}

/* Positions may be learned, and stand beside the embedding instead of being added to it. */
static embedding random_embedding(const transformer *m, int64_t vocabulary, int64_t longest) {
    int64_t beside = m->d_model > 1 && happens(25), learned = happens(40);
    int64_t width = beside ? draw(1, m->d_model - 1) : m->d_model;
    embedding e = {.width = width, .scale = sqrtf(width)};
    e.table = random_floats(vocabulary * width, 1 / sqrtf(width));
    e.grad_table = gradient(vocabulary * width);
    e.positions = random_floats(longest * m->d_model, 1);
    if (learned) e.position_width = beside ? m->d_model - width : m->d_model;
    if (learned) e.grad_positions = gradient(longest * e.position_width);
    if (happens(30)) e.norm = random_norm(m->d_model);
    return e;
}

/* kinds: the sublayers of a layer. */
static stack random_stack(const transformer *m, int64_t layers, const int64_t *kinds, int64_t count,
                          int64_t biased) {
    sublayer *table = guarded(layers * count * (int64_t)sizeof(sublayer), 8);
    for (int64_t i = 0; i < layers * count; i++)
        table[i] = kinds[i % count] == FEED_FORWARD
                       ? random_feed_forward(m)
                       : random_attention(m, kinds[i % count], biased);
    return (stack){.num_sublayers = layers * count, .sublayers = table};
}

static const int64_t encoder_layer[] = {SELF_ATTENTION, FEED_FORWARD};
static const int64_t decoder_layer[] = {CAUSAL_SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD};
static const int64_t decoder_only_layer[] = {CAUSAL_SELF_ATTENTION, FEED_FORWARD};

/* Some models have only one of the stacks. */
static transformer random_model(int64_t vocabulary, int64_t longest) {
    transformer m = {0};
    int64_t encoder_layers = draw(0, 2), decoder_layers = draw(0, 2);
    int64_t biased = happens(30), encoder_only = happens(20), decoder_only = happens(20);
    m.d_model = one_of(widths, COUNT(widths));
    m.heads = draw(1, 3);
    m.d_k = one_of(head_widths, COUNT(head_widths));
    m.d_v = happens(60) ? m.d_k : one_of(head_widths, COUNT(head_widths));
    m.d_ff = one_of(widths, COUNT(widths));
    m.terms = happens(40) ? BF16 : BF16X3;
    m.pre_norm = happens(40);
    m.activation = draw(RELU, SWISH);
    m.dropout = happens(50) ? 0.3f : 0;
    m.attention_dropout = happens(40) ? 0.2f : 0;
    m.feed_forward_dropout = happens(40) ? 0.1f : 0;
    int64_t encodes = encoder_only && happens(50); /* its loss is computed elsewhere */
    if (!encodes) m.output = random_linear(m.d_model, vocabulary, biased);
    if (decoder_only) m.window = happens(40) ? draw(1, longest) : 0;
    if (encoder_only || !decoder_only) {
        m.encoder = random_stack(&m, encoder_layers, encoder_layer, COUNT(encoder_layer), biased);
        m.encoder.embedding = random_embedding(&m, vocabulary, longest);
        m.encoder.rotations = random_rotations(longest, m.d_k);
        if (m.pre_norm) m.encoder.norm = random_norm(m.d_model);
    }
    if (encoder_only) return m;
    if (decoder_only)
        m.decoder =
            random_stack(&m, decoder_layers, decoder_only_layer, COUNT(decoder_only_layer), biased);
    else
        m.decoder = random_stack(&m, decoder_layers, decoder_layer, COUNT(decoder_layer), biased);
    m.decoder.embedding = random_embedding(&m, vocabulary, longest);
    m.decoder.rotations = random_rotations(longest, m.d_k);
    if (m.pre_norm) m.decoder.norm = random_norm(m.d_model);
    return m;
}

static int64_t *random_starts(int64_t sentences, int64_t longest) {
    int64_t *starts = integers(sentences + 1);
    starts[0] = 0;
    for (int64_t n = 0; n < sentences; n++) starts[n + 1] = starts[n] + draw(1, longest);
    return starts;
}

static ragged_tokens random_tokens(int64_t sentences, int64_t longest, int64_t vocabulary) {
    int64_t *starts = random_starts(sentences, longest);
    return (ragged_tokens){random_integers(starts[sentences], 0, vocabulary - 1), starts};
}

/* Each sentence twice, with tokens of their own: the two passes of a doubled batch. */
static ragged_tokens doubled(ragged_tokens single, int64_t sentences, int64_t vocabulary) {
    int64_t *starts = guarded((2 * sentences + 1) * (int64_t)sizeof(int64_t), 8);
    starts[0] = 0;
    for (int64_t n = 0; n < 2 * sentences; n++)
        starts[n + 1] = starts[n] + single.starts[n / 2 + 1] - single.starts[n / 2];
    return (ragged_tokens){random_integers(starts[2 * sentences], 0, vocabulary - 1), starts};
}

/* The same labels in both passes; some do not count. */
static const int64_t *doubled_targets(const int64_t *starts, int64_t sentences,
                                      int64_t vocabulary) {
    int64_t *targets = random_integers(starts[sentences], -1, vocabulary - 1);
    for (int64_t n = 0; n < sentences; n += 2)
        memcpy(targets + starts[n + 1], targets + starts[n],
               (starts[n + 1] - starts[n]) * sizeof(int64_t));
    return targets;
}

/* Both passes of an encoder alone, the second of them with random gradients of its output. */
static void encode_and_back(const transformer *m, const train_batch *batch) {
    int64_t size = batch->source.starts[batch->sentences] * m->d_model;
    void *memory = guarded(encoder_train_bytes(m, batch), 64);
    float *encoded = floats(size);
    encoder_forward(m, batch, encoded, memory);
    add_floats(encoded, size);
    encoder_backward(m, batch, random_floats(size, 1), memory);
}

void training_shape(void) {
    int64_t longest = happens(25) ? 150 : draw(1, 40), sentences = draw(1, 6);
    int64_t vocabulary = one_of(vocabularies, COUNT(vocabularies));
    num_told = 0;
    transformer m = random_model(vocabulary, longest);
    train_batch batch = {.sentences = sentences, .seed = (uint64_t)draw(0, 1 << 30)};
    batch.smoothing = happens(60) ? 0.1f : 0;
    if (m.output.weight && happens(40))
        batch.consistency = (consistency){happens(50) ? ONE_WAY : BOTH_WAYS, 2.5f};
    describe("sublayers %ld + %ld, d_model %ld, heads %ld, d_k %ld, d_v %ld, d_ff %ld, terms %ld, "
             "pre-norm %ld, activation %ld, dropout %g, %g and %g, smoothing %g, vocabulary %ld, "
             "%ld sentences of at most %ld, widths %ld and %ld, learned %ld and %ld, "
             "rotary %d and %d, form %ld",
             (long)m.encoder.num_sublayers, (long)m.decoder.num_sublayers, (long)m.d_model,
             (long)m.heads, (long)m.d_k, (long)m.d_v, (long)m.d_ff, (long)m.terms, (long)m.pre_norm,
             (long)m.activation, m.dropout, m.attention_dropout, m.feed_forward_dropout,
             batch.smoothing, (long)vocabulary, (long)sentences, (long)longest,
             (long)m.encoder.embedding.width, (long)m.decoder.embedding.width,
             (long)m.encoder.embedding.position_width, (long)m.decoder.embedding.position_width,
             m.encoder.rotations != 0, m.decoder.rotations != 0, (long)batch.consistency.form);
    if (has_stack(&m.encoder)) batch.source = random_tokens(sentences, longest, vocabulary);
    if (has_stack(&m.decoder)) batch.decoder_input = random_tokens(sentences, longest, vocabulary);
    if (batch.consistency.form) {
        if (has_stack(&m.encoder)) batch.source = doubled(batch.source, sentences, vocabulary);
        if (has_stack(&m.decoder))
            batch.decoder_input = doubled(batch.decoder_input, sentences, vocabulary);
        batch.sentences = sentences *= 2;
    }
    const ragged_tokens *last = has_stack(&m.decoder) ? &batch.decoder_input : &batch.source;
    batch.targets = batch.consistency.form
                        ? doubled_targets(last->starts, sentences, vocabulary)
                        : random_integers(last->starts[sentences], 0, vocabulary - 1);
    if (m.output.weight) {
        batch_loss loss =
            forward_backward(&m, &batch, guarded(train_scratch_bytes(&m, &batch), 64));
        if (!isfinite(loss.total) || !isfinite(loss.divergence)) fail("the loss is not finite");
        add_double(loss.total);
        add_double(loss.divergence);
    } else
        encode_and_back(&m, &batch);
    for (int64_t i = 0; i < num_told; i++) {
        for (int64_t j = 0; j < told[i].count; j++)
            if (!isfinite(told[i].gradient[j])) fail("gradient %ld is not finite", (long)i);
        add_floats(told[i].gradient, told[i].count);
    }
}
