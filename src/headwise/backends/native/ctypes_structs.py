"""Structs of the native library, for ctypes: a model, batches, requests.

They mirror the headers in ``csrc``; :mod:`headwise.backends.native.functions` compares
their sizes with those that the library reports. Pointers are to memory that the caller
keeps alive.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_double, c_float, c_int64, c_uint64, c_void_p

LANES = 16
"""Floats of a vector: keys are padded to multiples of it, as in ``simd.h``."""

ALIGNMENT = 64
"""Bytes at whose multiples a packed matrix begins."""

FLOAT32, BF16, BF16X3 = 0, 1, 3
"""Number formats of a packed matrix: bf16 terms per number; three are a float32."""

ACTIVATIONS = {"none": 0, "relu": 1, "gelu": 2, "swish": 3}
"""Activations as the kernels number them."""

SELF_ATTENTION, CAUSAL_SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD = range(4)
"""Kinds of a sublayer."""


class Matrix(Structure):
    """A weight matrix [inputs, outputs] as ``pack_matrix`` packs it, and a bias."""

    _fields_ = (
        ("inputs", c_int64),
        ("outputs", c_int64),
        ("terms", c_int64),
        ("weight", c_void_p),
        ("bias", c_void_p),
    )


class MatmulOptions(Structure):
    """``matmul_opts``: activation; transposed left operand; accumulate."""

    _fields_ = (
        ("activation", c_int64),
        ("transposed", c_int64),
        ("accumulate", c_int64),
    )


class Linear(Structure):
    """A weight [outputs, inputs], a bias, and the buffers of their gradients."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("grad_weight", c_void_p),
        ("grad_bias", c_void_p),
        ("inputs", c_int64),
        ("outputs", c_int64),
    )


class LayerNorm(Structure):
    """Layer normalization; without weights it is the identity."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("grad_weight", c_void_p),
        ("grad_bias", c_void_p),
        ("eps", c_float),
    )


class PackedSublayer(Structure):
    """Packed matrices of a sublayer, those of equal inputs joined."""

    _fields_ = (
        ("qkv", Matrix),
        ("kv", Matrix),
        ("output", Matrix),
        ("expand", Matrix),
        ("project", Matrix),
    )


class Sublayer(Structure):
    """Attention or feed-forward: linears in training, packed matrices in inference."""

    _fields_ = (
        ("kind", c_int64),
        ("queries", Linear),
        ("keys", Linear),
        ("values", Linear),
        ("output", Linear),
        ("expand", Linear),
        ("project", Linear),
        ("norm", LayerNorm),
        ("packed", PackedSublayer),
    )


class Embedding(Structure):
    """Token embeddings and position encodings, with gradients in training."""

    _fields_ = (
        ("table", c_void_p),
        ("grad_table", c_void_p),
        ("positions", c_void_p),
        ("grad_positions", c_void_p),
        ("num_positions", c_int64),
        ("width", c_int64),
        ("position_width", c_int64),
        ("scale", c_float),
        ("norm", LayerNorm),
    )


class Stack(Structure):
    """An embedding, sublayers in the order in which they run, and a norm."""

    _fields_ = (
        ("embedding", Embedding),
        ("num_sublayers", c_int64),
        ("sublayers", POINTER(Sublayer)),
        ("rotations", c_void_p),
        ("norm", LayerNorm),
    )


class Model(Structure):
    """A whole model: ``transformer`` in ``model.h``. A stack of zeros is none."""

    _fields_ = (
        ("d_model", c_int64),
        ("heads", c_int64),
        ("d_k", c_int64),
        ("d_v", c_int64),
        ("d_ff", c_int64),
        ("pre_norm", c_int64),
        ("activation", c_int64),
        ("terms", c_int64),
        ("window", c_int64),
        ("dropout", c_float),
        ("attention_dropout", c_float),
        ("feed_forward_dropout", c_float),
        ("encoder", Stack),
        ("decoder", Stack),
        ("output", Linear),
        ("packed_output", Matrix),
    )


class CrossKV(Structure):
    """Keys and values of the sources, for cross-attention."""

    _fields_ = (
        ("starts", c_void_p),
        ("key_offsets", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
    )


class EncodeRequest(Structure):
    """Sources without padding, and where their vectors, or keys and values, go."""

    _fields_ = (
        ("sentences", c_int64),
        ("tokens", c_void_p),
        ("positions", c_void_p),
        ("cross", POINTER(CrossKV)),
        ("encoded", c_void_p),
        ("longest", c_int64),
    )


class PrefillRequest(Structure):
    """Texts before the first step, without padding, and the KV cache they go to."""

    _fields_ = (
        ("tokens", c_void_p),
        ("starts", c_void_p),
        ("rows", c_int64),
        ("end", c_int64),
        ("kv_blocks", c_void_p),
    )


class DecodeRequest(Structure):
    """A token for each row, and the KV cache of the positions before it."""

    _fields_ = (
        ("tokens", c_void_p),
        ("rows", c_int64),
        ("position", c_int64),
        ("kv_blocks", c_void_p),
        ("rows_at", c_void_p),
        ("ancestors", c_void_p),
        ("ld", c_int64),
        ("cross", POINTER(CrossKV)),
        ("source_of", c_void_p),
        ("padding", c_void_p),
        ("longest", c_int64),
    )


class TopKRequest(Structure):
    """Top-k of each row instead of all scores; over several steps, k = 1."""

    _fields_ = (
        ("count", c_int64),
        ("num_forbidden", c_int64),
        ("forbidden", c_void_p),
        ("tokens", c_void_p),
        ("max_steps", c_int64),
        ("end", c_int64),
        ("min_ended", c_int64),
        ("unscored", c_int64),
    )


class TopKState(Structure):
    """Running top-k of a row; ``topk`` needs one for each as scratch."""

    _fields_ = (("max_score", c_float), ("sum_exp", c_float), ("found", c_int64))


class TopKRows(Structure):
    """The top-k of rows of scores that stand in memory: ``topk_rows`` in ``topk.h``."""

    _fields_ = (
        ("rows", c_int64),
        ("count", c_int64),
        ("num_forbidden", c_int64),
        ("forbidden", c_void_p),
        ("values", c_void_p),
        ("tokens", c_void_p),
        ("states", c_void_p),
        ("unscored", c_int64),
    )


class BeamRequest(Structure):
    """``beam_request`` in ``beam_step.h``: one step of beam search."""

    _fields_ = (
        ("sentences", c_int64),
        ("width", c_int64),
        ("top", c_int64),
        ("beam", c_int64),
        ("end", c_int64),
        ("length", c_int64),
        ("capacity", c_int64),
        ("limits", c_void_p),
        ("totals", c_void_p),
        ("scores", c_void_p),
        ("tokens", c_void_p),
        ("generated", c_void_p),
        ("alive_parents", c_void_p),
        ("alive_tokens", c_void_p),
        ("alive_generated", c_void_p),
        ("alive_totals", c_void_p),
        ("completed", c_void_p),
        ("completed_totals", c_void_p),
    )


class RaggedTokens(Structure):
    """``ragged_tokens``: tokens without padding, and where each sentence starts."""

    _fields_ = (("tokens", c_void_p), ("starts", c_void_p))


class Consistency(Structure):
    """``consistency``: how the two passes of a doubled batch are held together."""

    _fields_ = (("form", c_int64), ("weight", c_float))


SINGLE_PASS, ONE_WAY, BOTH_WAYS = range(3)
"""Forms of ``Consistency``, as ``train.h`` numbers them."""


class BatchLoss(Structure):
    """``batch_loss``: the summed loss, and the divergence between passes in it."""

    _fields_ = (("total", c_double), ("divergence", c_double))


class TrainBatch(Structure):
    """Sentences without padding, the loss's smoothing, and the seed of dropout."""

    _fields_ = (
        ("sentences", c_int64),
        ("source", RaggedTokens),
        ("decoder_input", RaggedTokens),
        ("targets", c_void_p),
        ("smoothing", c_float),
        ("seed", c_uint64),
        ("consistency", Consistency),
    )


TOPK_STATE_BYTES = ctypes.sizeof(TopKState)
"""Scratch that ``topk`` needs for each row."""

STRUCTS = (
    *(Matrix, MatmulOptions, Linear, LayerNorm, PackedSublayer, Sublayer, Embedding),
    *(Stack, Model, CrossKV, EncodeRequest, PrefillRequest, DecodeRequest, TopKRequest),
    *(TopKState, TopKRows, BeamRequest, RaggedTokens, Consistency, TrainBatch),
    BatchLoss,
)
"""In the order of ``struct_bytes`` in ``csrc/struct_sizes.c``."""
