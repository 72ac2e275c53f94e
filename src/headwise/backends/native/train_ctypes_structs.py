"""Structs and functions of the native training kernels, for ctypes.

They mirror ``csrc/train.h``; ``tests/backends/native/test_training.py`` calls them.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_double, c_float, c_int64, c_uint64, c_void_p
from functools import cache

from headwise.backends.native.ctypes_structs import check_sizes
from headwise.backends.native.library import library


class Linear(Structure):
    """A weight matrix, a bias, and the buffers of their gradients."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("grad_weight", c_void_p),
        ("grad_bias", c_void_p),
        ("inputs", c_int64),
        ("outputs", c_int64),
    )


class TrainableNorm(Structure):
    """Layer normalization and the buffers of its gradients."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("grad_weight", c_void_p),
        ("grad_bias", c_void_p),
        ("eps", c_float),
    )


class Attention(Structure):
    """An attention sublayer and the norm of its Add & Norm."""

    _fields_ = (
        ("queries", Linear),
        ("keys", Linear),
        ("values", Linear),
        ("output", Linear),
        ("norm", TrainableNorm),
    )


class Block(Structure):
    """A block of either stack; the encoder's has no cross-attention."""

    _fields_ = (
        ("self_attention", Attention),
        ("cross_attention", Attention),
        ("expand", Linear),
        ("project", Linear),
        ("norm", TrainableNorm),
    )


class Embedding(Structure):
    """Token embeddings with their gradient, and position encodings."""

    _fields_ = (
        ("table", c_void_p),
        ("grad_table", c_void_p),
        ("positions", c_void_p),
        ("grad_positions", c_void_p),
        ("width", c_int64),
        ("position_width", c_int64),
        ("scale", c_float),
        ("norm", TrainableNorm),
    )


class TrainModel(Structure):
    """A whole model with its gradients."""

    _fields_ = (
        ("encoder_layers", c_int64),
        ("decoder_layers", c_int64),
        ("d_model", c_int64),
        ("heads", c_int64),
        ("d_k", c_int64),
        ("d_v", c_int64),
        ("d_ff", c_int64),
        ("terms", c_int64),
        ("pre_norm", c_int64),
        ("activation", c_int64),
        ("dropout", c_float),
        ("attention_dropout", c_float),
        ("feed_forward_dropout", c_float),
        ("smoothing", c_float),
        ("source_embedding", Embedding),
        ("target_embedding", Embedding),
        ("encoder_norm", TrainableNorm),
        ("decoder_norm", TrainableNorm),
        ("output", Linear),
        ("encoder", POINTER(Block)),
        ("decoder", POINTER(Block)),
    )


class TrainBatch(Structure):
    """Sentences without padding, and the seed of dropout."""

    _fields_ = (
        ("sentences", c_int64),
        ("source", c_void_p),
        ("source_starts", c_void_p),
        ("target_in", c_void_p),
        ("target_out", c_void_p),
        ("target_starts", c_void_p),
        ("seed", c_uint64),
    )


_STRUCTS = (Linear, TrainableNorm, Attention, Block, Embedding, TrainModel, TrainBatch)
"""In the order of ``train_struct_bytes`` in ``csrc/train.c``."""


@cache
def training_kernels() -> ctypes.CDLL:
    """Return the library with the types of the training functions.

    Raises ``NativeLibraryError`` where there is none.
    """
    loaded = library()
    check_sizes(loaded, "train_struct_bytes", _STRUCTS)
    model, batch = POINTER(TrainModel), POINTER(TrainBatch)
    loaded.train_scratch_bytes.restype = c_int64
    loaded.train_scratch_bytes.argtypes = (model, batch)
    loaded.forward_backward.restype = c_double
    loaded.forward_backward.argtypes = (model, batch, c_void_p)
    return loaded
