/* Encoder, and incremental decoder with a KV cache: the inference path of the native backend.
 *
 * Reference: Transformer.start and Transformer.step in model/transformer.py; the same in PyTorch
 * is backends/pytorch/decoder.py; tests/backends/native/test_decoder.py holds them equal. The
 * structs mirror ctypes_structs.py.
 *
 * Sizes: D model width, H heads, K and C channels of a head's key and value, T source positions
 * of all sentences together, S those of one, B rows (hypotheses). */
#include "arena.h"
#include "attention.h"

#define OVERWRITE ((matmul_opts){0})
#define ENCODE_GROUP_ROWS 384 /* source positions */

typedef struct {
    matrix qkv; /* queries, keys and values [H K, H K, H C]; of cross-attention the queries alone */
    matrix kv;  /* keys and values of the encoder's output */
    matrix output;
    layer_norm norm;
} attention;

typedef struct {
    attention self, cross;
    matrix expand, project;
    layer_norm norm;
} layer;

typedef struct {
    const float *table;           /* [V, E]: embeddings */
    const float *positions;       /* [num_positions, D]: position encodings */
    int64_t num_positions, width; /* E: the other D - E channels hold the position encoding alone */
    float scale;
    layer_norm norm;
} embedding;

typedef struct {
    int64_t encoder_layers, decoder_layers, d_model, heads, d_k, d_v, d_ff;
    int64_t pre_norm, activation;
    embedding source_embedding, target_embedding;
    layer_norm encoder_norm, decoder_norm;
    matrix output;
    const layer *encoder, *decoder;
} transformer;

/* Keys and values of the sources for cross-attention, for each layer and sentence: keys
 * transposed, [H, K, pad_to_lanes(S)], and values [H, S, C]. */
typedef struct {
    const int64_t *starts;      /* [N + 1] in positions */
    const int64_t *key_offsets; /* [N] where the keys of a sentence begin, in numbers */
    char *const *keys;          /* [layers] */
    char *const *values;        /* [layers] */
} cross_kv;

/* Return the top-k instead of all scores: the best tokens [B, count] and their log-probabilities;
 * with several steps the best token of each [max_steps, B], until `min_ended` rows have written
 * `end`. */
typedef struct {
    int64_t count, num_forbidden;
    const int64_t *forbidden;
    int64_t *tokens;
    int64_t max_steps, end, min_ended;
} topk_request;

/* For Python, which mirrors them in this order. */
EXPORT const int64_t decoder_struct_bytes[] = {
    sizeof(matrix),      sizeof(matmul_opts), sizeof(layer_norm),   sizeof(attention),
    sizeof(layer),       sizeof(embedding),   sizeof(transformer),  sizeof(cross_kv),
    sizeof(topk_request), sizeof(topk_state),
};

static int64_t kv_width(const transformer *m) { return m->heads * (m->d_k + m->d_v); }

/* Activations are float32; the KV cache has the precision of the weights. */
static attention_shape shape_of(const transformer *m, int64_t bf16) {
    return (attention_shape){m->heads, m->d_k, m->d_v, bf16};
}

static void normalize(const layer_norm *n, const float *x, int64_t size, float *y) {
    vec total = {0};
    int64_t i;
    float sum = 0, squares = 0;
    if (!n->weight) {
        if (x != y) memcpy(y, x, size * 4);
        return;
    }
    for (i = 0; i + LANES <= size; i += LANES) total += load(x + i);
    for (; i < size; i++) sum += x[i];
    float mean = (reduce_sum(total) + sum) / size;
    total = (vec){0};
    for (i = 0; i + LANES <= size; i += LANES) {
        vec centered = load(x + i) - mean;
        total += centered * centered;
    }
    for (; i < size; i++) squares = fused(x[i] - mean, x[i] - mean, squares);
    float inv_std = 1 / sqrtf((reduce_sum(total) + squares) / size + n->eps);
    for (i = 0; i + LANES <= size; i += LANES)
        store(y + i, (load(x + i) - mean) * inv_std * load(n->weight + i) + load(n->bias + i));
    for (; i < size; i++) y[i] = (x[i] - mean) * inv_std * n->weight[i] + n->bias[i];
}

static void normalize_rows(const layer_norm *n, const float *x, int64_t rows, int64_t size,
                           float *y) {
    for (int64_t row = 0; row < rows; row++) normalize(n, x + row * size, size, y + row * size);
}

static void add_rows(float *x, const float *y, int64_t size) {
    for (int64_t i = 0; i < size; i++) x[i] += y[i];
}

/* Embed tokens; positions: the position of each, or NULL for `at` in all rows. */
static void embed(const transformer *m, const embedding *e, const int64_t *tokens, int64_t rows,
                  const int64_t *positions, int64_t at, float *x) {
    for (int64_t row = 0; row < rows; row++, x += m->d_model) {
        const float *from = e->table + tokens[row] * e->width;
        const float *position_vector =
            e->positions + (positions ? positions[row] : at) * m->d_model;
        for (int64_t i = 0; i < e->width; i++) x[i] = from[i] * e->scale + position_vector[i];
        for (int64_t i = e->width; i < m->d_model; i++) x[i] = position_vector[i];
        normalize(&e->norm, x, m->d_model, x);
    }
}

typedef struct {
    float *x, *input, *result, *qkv, *heads, *hidden, *weights, *keys, *scores;
    const void **kv_rows;
    void *matmul_scratch, *states;
} buffers;

/* longest: positions of the longest source or output. */
static buffers alloc_buffers(const transformer *m, int64_t rows, int64_t longest, arena *a) {
    buffers b;
    int64_t heads = m->heads * m->d_v, widest = m->d_ff > m->d_model ? m->d_ff : m->d_model;
    b.x = alloc_floats(a, rows * m->d_model);
    b.input = alloc_floats(a, rows * m->d_model);
    b.result = alloc_floats(a, rows * m->d_model);
    b.qkv = alloc_floats(a, rows * (kv_width(m) + m->heads * m->d_k));
    b.heads = alloc_floats(a, rows * heads);
    b.hidden = alloc_floats(a, rows * m->d_ff);
    b.weights = alloc_floats(a, pad_to_lanes(longest));
    b.keys = alloc_floats(a, pad_to_lanes(longest) * m->d_k);
    b.scores = alloc_floats(a, rows * VOCAB_BLOCK);
    b.kv_rows = alloc(a, longest * sizeof(void *));
    b.states = alloc(a, rows * sizeof(topk_state));
    b.matmul_scratch = alloc(a, matmul_scratch_bytes(widest > heads ? widest : heads, rows));
    return b;
}

/* Scratch floats of a step. */
EXPORT int64_t step_scratch_floats(const transformer *m, int64_t rows, int64_t longest) {
    arena a = {0};
    alloc_buffers(m, rows, longest, &a);
    return a.used / 4 + ARENA_SLACK;
}

/* Input of a sublayer: x, normalized first in pre-norm models. */
static const float *block_input(const transformer *m, const layer_norm *n, int64_t rows,
                                buffers *b) {
    if (!m->pre_norm) return b->x;
    normalize_rows(n, b->x, rows, m->d_model, b->input);
    return b->input;
}

static void add_residual(const transformer *m, const layer_norm *n, const matrix *box,
                         const float *out, int64_t rows, buffers *b) {
    matmul(box, out, box->in, rows, b->result, m->d_model, OVERWRITE, b->matmul_scratch);
    add_rows(b->x, b->result, rows * m->d_model);
    if (!m->pre_norm) normalize_rows(n, b->x, rows, m->d_model, b->x);
}

static void feed_forward(const transformer *m, const layer *l, int64_t rows, buffers *b) {
    const float *input = block_input(m, &l->norm, rows, b);
    matmul(&l->expand, input, m->d_model, rows, b->hidden, m->d_ff,
           (matmul_opts){.activation = m->activation}, b->matmul_scratch);
    add_residual(m, &l->norm, &l->project, b->hidden, rows, b);
}

/* Run sentences `from` to `to` through the encoder's layers; fill their cross-attention cache. */
static void encode_group(const transformer *m, const int64_t *tokens, const int64_t *positions,
                         const cross_kv *cross, int64_t from, int64_t to, int64_t longest,
                         float *scratch) {
    int64_t begin = cross->starts[from], rows = cross->starts[to] - begin;
    int64_t width = m->heads * m->d_k, heads = m->heads * m->d_v, qkv_width = 2 * width + heads;
    attention_shape activations = shape_of(m, 0), cache = shape_of(m, m->output.terms == BF16);
    arena a = {align_to_64(scratch), 0};
    buffers b = alloc_buffers(m, rows, longest, &a);
    embed(m, &m->source_embedding, tokens + begin, rows, positions + begin, 0, b.x);
    for (int64_t i = 0; i < m->encoder_layers; i++) {
        const layer *l = m->encoder + i;
        const float *input = block_input(m, &l->self.norm, rows, &b);
        matmul(&l->self.qkv, input, m->d_model, rows, b.qkv, qkv_width, OVERWRITE,
               b.matmul_scratch);
        for (int64_t n = from; n < to; n++) {
            int64_t first = cross->starts[n] - begin;
            int64_t size = cross->starts[n + 1] - begin - first;
            for (int64_t h = 0; h < m->heads; h++) {
                const float *queries = b.qkv + first * qkv_width + h * m->d_k;
                const float *values = b.qkv + first * qkv_width + 2 * width + h * m->d_v;
                transpose_keys(queries + width, qkv_width, size, m->d_k, b.keys);
                for (int64_t s = 0; s < size; s++)
                    attend_query(&activations, queries + s * qkv_width, b.keys, values, qkv_width,
                                 size, b.weights, b.heads + (first + s) * heads + h * m->d_v);
            }
        }
        add_residual(m, &l->self.norm, &l->self.output, b.heads, rows, &b);
        feed_forward(m, l, rows, &b);
    }
    normalize_rows(&m->encoder_norm, b.x, rows, m->d_model, b.x);
    for (int64_t i = 0; i < m->decoder_layers; i++) {
        const matrix *kv = &m->decoder[i].cross.kv;
        matmul(kv, b.x, m->d_model, rows, b.qkv, kv_width(m), OVERWRITE, b.matmul_scratch);
        for (int64_t n = from; n < to; n++) {
            int64_t first = cross->starts[n] - begin;
            int64_t size = cross->starts[n + 1] - begin - first;
            char *keys = cross->keys[i] + cross->key_offsets[n] * element_bytes(&cache);
            char *values = cross->values[i] + (begin + first) * heads * element_bytes(&cache);
            for (int64_t h = 0; h < m->heads; h++) {
                const float *from = b.qkv + first * kv_width(m) + h * m->d_k;
                int64_t many = m->d_k * pad_to_lanes(size);
                transpose_keys(from, kv_width(m), size, m->d_k, b.keys);
                store_kv(&cache, b.keys, many, keys + h * many * element_bytes(&cache));
                from = b.qkv + first * kv_width(m) + width + h * m->d_v;
                for (int64_t s = 0; s < size; s++)
                    store_kv(&cache, from + s * kv_width(m), m->d_v,
                             values + (h * size + s) * m->d_v * element_bytes(&cache));
            }
        }
    }
    end_arena(&a);
}

/* Encode N sentences, packed without padding; `positions` holds the position of each token. A
 * group of sentences at a time runs through all layers, so that activations stay in cache. */
EXPORT void encode(const transformer *m, const int64_t *tokens, const int64_t *positions, int64_t count,
            const cross_kv *cross, int64_t longest, float *scratch) {
    for (int64_t from = 0, to; from < count; from = to) {
        to = from + 1;
        while (to < count && cross->starts[to + 1] - cross->starts[from] <= ENCODE_GROUP_ROWS) to++;
        encode_group(m, tokens, positions, cross, from, to, longest, scratch);
    }
}

/* Scratch floats of encode. */
EXPORT int64_t encode_scratch_floats(const transformer *m, int64_t longest) {
    return step_scratch_floats(m, longest > ENCODE_GROUP_ROWS ? longest : ENCODE_GROUP_ROWS,
                               longest);
}

/* Decode one token in each of B rows at `position`: returns scores [B, V], or their top-k, for
 * which the scores never stand in memory all at once. Returns 0 if a score is NaN or infinite.
 *
 * kv_blocks [position + 1]: the KV cache of each position, [layers, rows at that step, H K + H C];
 * the last is written now. rows_at [position + 1]: rows at each step. ancestors [B, ld]: the row
 * that each row descends from at each step. longest: positions of sources and output, this one
 * included. */
static int64_t decode_step(const transformer *m, const int64_t *tokens, int64_t rows,
                           int64_t position, char *const *kv_blocks, const int64_t *rows_at,
                           const int32_t *ancestors, int64_t ld, const cross_kv *cross,
                           const int64_t *source_of, int64_t longest, float *scores,
                           const topk_request *best, float *scratch) {
    int64_t width = m->heads * m->d_k, heads = m->heads * m->d_v, kv_row = kv_width(m);
    attention_shape cache = shape_of(m, m->output.terms == BF16);
    int64_t bytes = element_bytes(&cache);
    arena a = {align_to_64(scratch), 0};
    buffers b = alloc_buffers(m, rows, longest, &a);
    embed(m, &m->target_embedding, tokens, rows, 0, position, b.x);
    for (int64_t i = 0; i < m->decoder_layers; i++) {
        const layer *l = m->decoder + i;
        const float *input = block_input(m, &l->self.norm, rows, &b);
        matmul(&l->self.qkv, input, m->d_model, rows, b.qkv, width + kv_row, OVERWRITE,
               b.matmul_scratch);
        for (int64_t row = 0; row < rows; row++) {
            const float *qkv = b.qkv + row * (width + kv_row);
            char *entry = kv_blocks[position] + (i * rows + row) * kv_row * bytes;
            store_kv(&cache, qkv + width, kv_row, entry);
            for (int64_t p = 0; p < position; p++)
                b.kv_rows[p] =
                    kv_blocks[p] + (i * rows_at[p] + ancestors[row * ld + p]) * kv_row * bytes;
            b.kv_rows[position] = entry;
            self_attention(&cache, qkv, b.kv_rows, position + 1, b.weights, b.heads + row * heads);
        }
        add_residual(m, &l->self.norm, &l->self.output, b.heads, rows, &b);

        input = block_input(m, &l->cross.norm, rows, &b);
        matmul(&l->cross.qkv, input, m->d_model, rows, b.qkv, width, OVERWRITE, b.matmul_scratch);
        for (int64_t row = 0; row < rows; row++) {
            int64_t n = source_of[row], first = cross->starts[n];
            int64_t size = cross->starts[n + 1] - first;
            const char *keys = cross->keys[i] + cross->key_offsets[n] * bytes;
            const char *values = cross->values[i] + first * heads * bytes;
            for (int64_t h = 0; h < m->heads; h++)
                attend_query(&cache, b.qkv + row * width + h * m->d_k,
                             keys + h * m->d_k * pad_to_lanes(size) * bytes,
                             values + h * size * m->d_v * bytes, m->d_v, size, b.weights,
                             b.heads + row * heads + h * m->d_v);
        }
        add_residual(m, &l->cross.norm, &l->cross.output, b.heads, rows, &b);
        feed_forward(m, l, rows, &b);
    }
    normalize_rows(&m->decoder_norm, b.x, rows, m->d_model, b.x);
    if (!best) {
        matmul(&m->output, b.x, m->d_model, rows, scores, m->output.out, OVERWRITE,
               b.matmul_scratch);
        end_arena(&a);
        return 1;
    }
    topk_state *states = (topk_state *)b.states;
    for (int64_t row = 0; row < rows; row++) states[row] = (topk_state){-INFINITY, 0, 0};
    for (int64_t first = 0; first < m->output.out; first += VOCAB_BLOCK) {
        matrix part = matrix_columns(&m->output, first, VOCAB_BLOCK);
        matmul(&part, b.x, m->d_model, rows, b.scores, VOCAB_BLOCK, OVERWRITE, b.matmul_scratch);
        topk_update(b.scores, VOCAB_BLOCK, rows, first, part.out, best->count, best->forbidden,
                    best->num_forbidden, scores, best->tokens, states);
    }
    int64_t is_finite =
        topk_finish(rows, best->count, best->forbidden, scores, best->tokens, states);
    end_arena(&a);
    return is_finite;
}

/* Decode greedily for up to max_steps steps, feeding each best token back. Returns the number of
 * steps taken, 0 if a score is NaN or infinite. kv_blocks and rows_at: [position + max_steps]. */
EXPORT int64_t decode_steps(const transformer *m, const int64_t *tokens, int64_t rows, int64_t position,
                     char *const *kv_blocks, const int64_t *rows_at, const int32_t *ancestors,
                     int64_t ld, const cross_kv *cross, const int64_t *source_of, int64_t longest,
                     float *scores, const topk_request *best, float *scratch) {
    if (!best || best->max_steps == 1)
        return decode_step(m, tokens, rows, position, kv_blocks, rows_at, ancestors, ld, cross,
                           source_of, longest, scores, best, scratch);
    for (int64_t steps = 0; steps < best->max_steps; steps++) {
        topk_request request = *best;
        int64_t num_ended = 0;
        request.tokens += steps * rows;
        if (!decode_step(m, steps ? request.tokens - rows : tokens, rows, position + steps,
                         kv_blocks, rows_at, ancestors, ld, cross, source_of, longest,
                         scores + steps * rows, &request, scratch))
            return 0;
        for (int64_t row = 0; row < rows; row++) /* rows that ended earlier are decoded on */
            for (int64_t before = steps; before >= 0 && tokens[row] != best->end; before--)
                if (best->tokens[before * rows + row] == best->end) {
                    num_ended++;
                    break;
                }
        if (num_ended >= best->min_ended) return steps + 1;
    }
    return best->max_steps;
}
