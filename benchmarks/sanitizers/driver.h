/* What the parts of the driver share: random shapes and numbers, guarded memory, checksums.
 *
 * Each shape is run twice, with memory filled by zeros and by NaN before: whoever reads what was
 * not written gives two results. All of it is per thread. */
#ifndef SANITIZERS_DRIVER_H
#define SANITIZERS_DRIVER_H

#include <stdint.h>

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

/* Random integers in a range, ends included; one of a table; true in some of 100 cases. */
int64_t draw(int64_t low, int64_t high);
int64_t one_of(const int64_t *table, int64_t count);
int64_t happens(int64_t percent);
void seed_draws(uint64_t seed);

/* Memory of exactly so many bytes between two gaps, filled with garbage. It is given back, and its
 * gaps are looked at, by free_guarded. */
void *guarded(int64_t bytes, int64_t alignment);
void free_guarded(void);

/* Floats, aligned as floats have to be and no better. Random ones are in [-scale, scale). */
float *floats(int64_t count);
float *zeros(int64_t count);
float *random_floats(int64_t count, float scale);
int64_t *integers(int64_t count);
int64_t *random_integers(int64_t count, int64_t low, int64_t high);

/* A table of rotary positions of heads of width d_k, or NULL: always where that is odd. */
float *random_rotations(int64_t positions, int64_t d_k);

/* Add results to the checksum and to the measure, a sum of absolute values: it tells whether
 * two results are near, where they cannot have the same bits. */
void add_floats(const float *x, int64_t count);
void add_to_measure(const float *x, int64_t count);
void add_bytes(const void *x, int64_t bytes);
void add_double(double x);

/* Describe the shape that runs, for its line of output. */
__attribute__((format(printf, 1, 2))) void describe(const char *format, ...);

/* Say what is wrong with the shape that runs, and end the program. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

/* Random shapes of the exported functions. */
void matmul_shape(void);
void pack_shape(void);
void topk_shape(void);
void beam_shape(void);
void decoder_shape(void);
void prefill_shape(void);
void training_shape(void);

/* Two threads share a model and decode each with a state of its own. */
void decode_in_threads(int64_t rounds);

#endif
