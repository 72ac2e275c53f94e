/* The sizes of all structs that Python passes in: ctypes_structs.py mirrors them, in this order,
 * and functions.py compares them when the library is loaded. */
#include "beam_step.h"
#include "inference.h"
#include "train.h"

EXPORT const int64_t struct_bytes[] = {
    sizeof(matrix),         sizeof(matmul_opts),    sizeof(linear),       sizeof(layer_norm),
    sizeof(packed_sublayer), sizeof(sublayer),      sizeof(embedding),    sizeof(stack),
    sizeof(transformer),    sizeof(cross_kv),       sizeof(encode_request),
    sizeof(prefill_request), sizeof(decode_request), sizeof(topk_request),   sizeof(topk_state),   sizeof(topk_rows),
    sizeof(beam_request),   sizeof(ragged_tokens),  sizeof(consistency),  sizeof(train_batch),
    sizeof(batch_loss),
};
