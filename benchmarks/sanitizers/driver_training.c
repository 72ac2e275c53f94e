/* Random models and batches: the loss and all gradients. */
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

static trainable_norm random_norm(int64_t size) {
    return (trainable_norm){random_floats(size, 1), random_floats(size, 1), gradient(size),
                            gradient(size), 1e-5f};
}

static attention_box random_attention(const train_model *m, int64_t biased) {
    int64_t keys = m->heads * m->d_k, values = m->heads * m->d_v;
    return (attention_box){
        random_linear(m->d_model, keys, biased), random_linear(m->d_model, keys, biased),
        random_linear(m->d_model, values, biased), random_linear(values, m->d_model, biased),
        random_norm(m->d_model)};
}

static block random_block(const train_model *m, int64_t is_decoder, int64_t biased) {
    block b = {.self = random_attention(m, biased)};
    if (is_decoder) b.cross = random_attention(m, biased);
    b.expand = random_linear(m->d_model, m->d_ff, 1);
    b.project = random_linear(m->d_ff, m->d_model, 1);
    b.norm = random_norm(m->d_model);
    return b;
}

/* Positions may be learned, and stand beside the embedding instead of being added to it. */
static embedding random_embedding(const train_model *m, int64_t vocabulary, int64_t longest) {
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

static train_model random_model(int64_t vocabulary, int64_t longest) {
    train_model m = {.encoder_layers = draw(0, 2), .decoder_layers = draw(0, 2)};
    int64_t biased = happens(30);
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
    m.smoothing = happens(60) ? 0.1f : 0;
    m.source_embedding = random_embedding(&m, vocabulary, longest);
    m.target_embedding = random_embedding(&m, vocabulary, longest);
    if (m.pre_norm) m.encoder_norm = random_norm(m.d_model);
    if (m.pre_norm) m.decoder_norm = random_norm(m.d_model);
    m.output = random_linear(m.d_model, vocabulary, biased);
    block *encoder = guarded(m.encoder_layers * (int64_t)sizeof(block), 8);
    block *decoder = guarded(m.decoder_layers * (int64_t)sizeof(block), 8);
    for (int64_t i = 0; i < m.encoder_layers; i++) encoder[i] = random_block(&m, 0, biased);
    for (int64_t i = 0; i < m.decoder_layers; i++) decoder[i] = random_block(&m, 1, biased);
    m.encoder = encoder;
    m.decoder = decoder;
    return m;
}

static int64_t *random_starts(int64_t sentences, int64_t longest) {
    int64_t *starts = integers(sentences + 1);
    starts[0] = 0;
    for (int64_t n = 0; n < sentences; n++) starts[n + 1] = starts[n] + draw(1, longest);
    return starts;
}

void training_shape(void) {
    int64_t longest = happens(10) ? 150 : draw(1, 40), sentences = draw(1, 6);
    int64_t vocabulary = one_of(vocabularies, COUNT(vocabularies));
    num_told = 0;
    train_model m = random_model(vocabulary, longest);
    describe("layers %ld + %ld, d_model %ld, heads %ld, d_k %ld, d_v %ld, d_ff %ld, terms %ld, "
             "pre-norm %ld, activation %ld, dropout %g, %g and %g, smoothing %g, vocabulary %ld, "
             "%ld sentences of at most %ld, widths %ld and %ld, learned %ld and %ld",
             (long)m.encoder_layers, (long)m.decoder_layers, (long)m.d_model, (long)m.heads,
             (long)m.d_k, (long)m.d_v, (long)m.d_ff, (long)m.terms, (long)m.pre_norm,
             (long)m.activation, m.dropout, m.attention_dropout, m.feed_forward_dropout,
             m.smoothing, (long)vocabulary, (long)sentences, (long)longest,
             (long)m.source_embedding.width, (long)m.target_embedding.width,
             (long)m.source_embedding.position_width, (long)m.target_embedding.position_width);
    train_batch batch = {.sentences = sentences, .seed = (uint64_t)draw(0, 1 << 30)};
    batch.source_starts = random_starts(sentences, longest);
    batch.target_starts = random_starts(sentences, longest);
    int64_t sources = batch.source_starts[sentences], targets = batch.target_starts[sentences];
    batch.source = random_integers(sources, 0, vocabulary - 1);
    batch.target_in = random_integers(targets, 0, vocabulary - 1);
    batch.target_out = random_integers(targets, 0, vocabulary - 1);
    double loss = forward_backward(&m, &batch, guarded(train_scratch_bytes(&m, &batch), 64));
    if (!isfinite(loss)) fail("the loss is not finite");
    add_double(loss);
    for (int64_t i = 0; i < num_told; i++) {
        for (int64_t j = 0; j < told[i].count; j++)
            if (!isfinite(told[i].gradient[j])) fail("gradient %ld is not finite", (long)i);
        add_floats(told[i].gradient, told[i].count);
    }
}
