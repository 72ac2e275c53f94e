/* Random shapes of matmul, packing and top-k, compared with sums in float64. */
#include "driver.h"
#include "topk.h"

#include <stdlib.h>

static const int64_t sizes[] = {1, 2, 3, 5, 7, 15, 16, 17, 24, 31, 32, 33, 47, 48, 63, 64, 65, 96};
static const int64_t depths[] = {100, 128, 255, 257, 511, 513, 530, 1030};
static const int64_t row_counts[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                     12, 13, 16, 17, 18, 23, 24, 25, 31, 32, 33, 50};
static const int64_t many_rows[] = {192, 193, 200, 257, 300, 385};
static const int64_t formats[] = {FLOAT32, BF16, BF16X3};

static float rounded_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, 4);
    return x;
}

static double activated(double x, int64_t activation) {
    if (activation == RELU) return x > 0 ? x : 0;
    if (activation == GELU) return 0.5 * x * (1 + erf(x * 0.70710678118654752));
    if (activation == SWISH) return x / (1 + exp(-x));
    return x;
}

void matmul_shape(void) {
    int64_t is_large = happens(4), terms = one_of(formats, COUNT(formats));
    int64_t in = happens(80) ? one_of(sizes, COUNT(sizes)) : one_of(depths, COUNT(depths));
    int64_t out = one_of(sizes, COUNT(sizes)) + 100 * happens(10);
    int64_t rows = one_of(row_counts, COUNT(row_counts));
    if (is_large) rows = one_of(many_rows, COUNT(many_rows));
    matmul_opts opts = {draw(NO_ACTIVATION, SWISH), happens(50), 0};
    if (!opts.activation) opts.accumulate = happens(50);
    int64_t from_matrix = happens(50), ldw = (from_matrix ? out : in) + draw(0, 3) * from_matrix;
    int64_t ldx = (opts.transposed ? rows : in) + draw(0, 3), ldy = out + draw(0, 3);
    describe("in %ld, out %ld, rows %ld, terms %ld, activation %ld, transposed %ld, accumulate %ld",
             (long)in, (long)out, (long)rows, (long)terms, (long)opts.activation,
             (long)opts.transposed, (long)opts.accumulate);

    float *weight = random_floats((from_matrix ? (in - 1) * ldw + out : in * out), 1);
    float *bias = happens(60) ? random_floats(out, 1) : 0;
    int64_t last = opts.transposed ? rows : in, lines = opts.transposed ? in : rows;
    float *x = random_floats(lines ? (lines - 1) * ldx + last : 0, 1);
    int64_t y_floats = rows ? (rows - 1) * ldy + out : 0;
    float *before = random_floats(y_floats, 1), *y = floats(y_floats);
    if (y_floats) memcpy(y, before, y_floats * 4);
    void *packed = guarded(packed_bytes(in, out, terms), 64);
    if (from_matrix)
        pack_matrix(weight, ldw, in, out, terms, packed);
    else
        pack_transposed(weight, in, out, terms, packed);
    matrix m = {in, out, terms, packed, bias};
    matmul(&m, x, ldx, rows, y, ldy, opts, guarded(matmul_scratch_bytes(in, rows), 64));

    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = out; i < ldy && row + 1 < rows; i++)
            if (y[row * ldy + i] != before[row * ldy + i]) fail("wrote beside row %ld", (long)row);
        for (int64_t i = 0; i < out; i++) {
            double sum = bias ? bias[i] : 0, size = fabs(sum);
            for (int64_t k = 0; k < in; k++) {
                float a = opts.transposed ? x[k * ldx + row] : x[row * ldx + k];
                float b = from_matrix ? weight[k * ldw + i] : weight[i * ldw + k];
                if (terms == BF16) a = rounded_to_bf16(a), b = rounded_to_bf16(b);
                sum += (double)a * b;
                size += fabs((double)a * b);
            }
            double wanted = activated(sum, opts.activation), found = y[row * ldy + i];
            if (opts.accumulate) wanted += before[row * ldy + i], size += 1;
            double bound = (8 + in) * 6e-8 * size + (terms == BF16X3) * 5e-7 * size + 1e-6;
            if (!(fabs(found - wanted) <= bound))
                fail("row %ld, column %ld: %.9g instead of %.9g", (long)row, (long)i, found,
                     wanted);
        }
        add_floats(y + row * ldy, out);
    }
    if (!rows) return;
    int64_t row = draw(0, rows - 1); /* the batch never changes a row, not in its last bit */
    float *alone = floats(out);
    memcpy(alone, before + row * ldy, out * 4);
    matmul(&m, x + (opts.transposed ? row : row * ldx), ldx, 1, alone, out, opts,
           guarded(matmul_scratch_bytes(in, 1), 64));
    if (memcmp(alone, y + row * ldy, out * 4)) fail("row %ld has other bits alone", (long)row);
}

/* Both ways to pack give the same bytes. */
void pack_shape(void) {
    int64_t in = one_of(sizes, COUNT(sizes)) + 512 * happens(10);
    int64_t out = one_of(sizes, COUNT(sizes)), terms = one_of(formats, COUNT(formats));
    int64_t ld = out + draw(0, 5), bytes = packed_bytes(in, out, terms);
    describe("in %ld, out %ld, ld %ld, terms %ld", (long)in, (long)out, (long)ld, (long)terms);
    float *from = random_floats((in - 1) * ld + out, 1), *transposed = floats(in * out);
    for (int64_t k = 0; k < in; k++)
        for (int64_t i = 0; i < out; i++) transposed[i * in + k] = from[k * ld + i];
    void *one = guarded(bytes, 64), *other = guarded(bytes, 64);
    pack_matrix(from, ld, in, out, terms, one);
    pack_transposed(transposed, in, out, terms, other);
    if (memcmp(one, other, bytes)) fail("two ways to pack differ");
    add_bytes(one, bytes);
}

static int64_t contains_token(const int64_t *tokens, int64_t count, int64_t token) {
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] == token) return 1;
    return 0;
}

/* The log-sum-exp of a row, in two parts: beside a large maximum the other would be lost. */
typedef struct {
    double most, log_sum;
} row_sum;

static row_sum sum_of_row(const float *x, int64_t size) {
    double sum = 0, most = -INFINITY;
    for (int64_t i = 0; i < size; i++) most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < size; i++) sum += exp(x[i] - most);
    return (row_sum){most, log(sum)};
}

void topk_shape(void) {
    static const int64_t vocabularies[] = {1,   2,    5,    15,   16,   17,   63,  64, 65,
                                           127, 1000, 1023, 1024, 1025, 1040, 1100, 2048, 2500};
    int64_t rows = draw(0, 5), size = one_of(vocabularies, COUNT(vocabularies));
    int64_t count = draw(1, size < 12 ? size : 12), num_forbidden = draw(0, size < 5 ? size : 5);
    int64_t ties = happens(30), odd = happens(15), is_finite = 1;
    describe("rows %ld, size %ld, count %ld, forbidden %ld, ties %ld, odd %ld", (long)rows,
             (long)size, (long)count, (long)num_forbidden, (long)ties, (long)odd);
    float *scores = random_floats(rows * size, happens(20) ? 100 : 4);
    for (int64_t i = 0; ties && i < rows * size; i++) scores[i] = (float)(int)scores[i];
    static const float odd_numbers[] = {NAN, INFINITY, -INFINITY, -INFINITY, 1e30f, -1e30f};
    for (int64_t i = 0; odd && i < 3 && rows; i++)
        scores[draw(0, rows * size - 1)] = odd_numbers[draw(0, COUNT(odd_numbers) - 1)];
    int64_t *forbidden = integers(num_forbidden);
    for (int64_t i = 0; i < num_forbidden; i++)
        do forbidden[i] = draw(0, size - 1);
        while (contains_token(forbidden, i, forbidden[i]));
    float *values = floats(rows * count);
    int64_t *tokens = integers(rows * count);
    topk_rows request = {rows,   count,  num_forbidden, forbidden,
                         values, tokens, guarded(rows * (int64_t)sizeof(topk_state), 8)};
    int64_t told = topk(&request, scores, size);

    float *unscored_values = floats(rows * count);
    int64_t *same_tokens = integers(rows * count);
    topk_rows unscored = request;
    unscored.values = unscored_values;
    unscored.tokens = same_tokens;
    unscored.unscored = 1;
    if (topk(&unscored, scores, size) != told) fail("without a softmax others are finite");
    if (told && memcmp(tokens, same_tokens, rows * count * 8))
        fail("without a softmax other tokens are the best");
    for (int64_t i = 0; told && i < rows * count; i++)
        if (values[i] == -INFINITY ? unscored_values[i] != -INFINITY : !isnan(unscored_values[i]))
            fail("a value without a softmax is a number");

    row_sum sums[5];
    for (int64_t row = 0; row < rows; row++) {
        sums[row] = sum_of_row(scores + row * size, size);
        is_finite &= isfinite(sums[row].most + sums[row].log_sum);
    }
    if (told != is_finite) fail("says %ld of finite scores", (long)told);
    add_bytes(&told, 8);
    if (!told) return;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < count; i++) {
            const float *x = scores + row * size;
            const int64_t *chosen = tokens + row * count;
            int64_t best = -1;
            for (int64_t t = 0; t < size; t++)
                if (!contains_token(forbidden, num_forbidden, t) && !contains_token(chosen, i, t) &&
                    (best < 0 || x[t] > x[best]))
                    best = t;
            double wanted = best < 0 ? -INFINITY : x[best] - sums[row].most - sums[row].log_sum;
            float found = values[row * count + i];
            if (best >= 0 ? chosen[i] != best
                          : !contains_token(forbidden, num_forbidden, chosen[i]))
                fail("token %ld instead of %ld", (long)chosen[i], (long)best);
            if (found != wanted && !(fabs(found - wanted) <= 1e-5 * (1 + fabs(wanted))))
                fail("ln p is %.9g instead of %.9g", found, wanted);
        }
    add_floats(values, rows * count);
    add_bytes(tokens, rows * count * 8);
}
