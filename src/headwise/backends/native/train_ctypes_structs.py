"""What kernels that learn are handed: the structures of ``train.h`` and ``train.c``."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_double, c_float, c_int64, c_uint64, c_void_p
from functools import cache

from headwise.backends.native.compiler import library


class Linear(Structure):
    """A matrix, a bias, and where their gradients are added."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("to_weight", c_void_p),
        ("to_bias", c_void_p),
        ("inputs", c_int64),
        ("outputs", c_int64),
    )


class LearnedNorm(Structure):
    """A layer norm and its gradients."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("to_weight", c_void_p),
        ("to_bias", c_void_p),
        ("eps", c_float),
    )


class AttentionBox(Structure):
    """An attention box and the norm around it."""

    _fields_ = (
        ("queries", Linear),
        ("keys", Linear),
        ("values", Linear),
        ("join", Linear),
        ("around", LearnedNorm),
    )


class Block(Structure):
    """A block of either stack; the encoder's has one attention box only."""

    _fields_ = (
        ("own", AttentionBox),
        ("source", AttentionBox),
        ("widen", Linear),
        ("narrow", Linear),
        ("around", LearnedNorm),
    )


class Foot(Structure):
    """Embeddings and positions."""

    _fields_ = (
        ("table", c_void_p),
        ("to_table", c_void_p),
        ("places", c_void_p),
        ("scale", c_float),
    )


class Pupil(Structure):
    """A whole model that learns."""

    _fields_ = (
        ("encoder_layers", c_int64),
        ("decoder_layers", c_int64),
        ("model", c_int64),
        ("heads", c_int64),
        ("key", c_int64),
        ("value", c_int64),
        ("inner", c_int64),
        ("parts", c_int64),
        ("dropout", c_float),
        ("smoothing", c_float),
        ("reading", Foot),
        ("writing", Foot),
        ("scores", Linear),
        ("encoder", POINTER(Block)),
        ("decoder", POINTER(Block)),
    )


class Lesson(Structure):
    """Sentences, one behind the other, and what chance depends on."""

    _fields_ = (
        ("sentences", c_int64),
        ("source", c_void_p),
        ("source_starts", c_void_p),
        ("target_in", c_void_p),
        ("target_out", c_void_p),
        ("target_starts", c_void_p),
        ("seed", c_uint64),
    )


@cache
def learning_kernels() -> ctypes.CDLL:
    """Return the library with the types of the functions that learn.

    Raises ``NoKernelsError`` where there is none.
    """
    found = library()
    pupil, lesson = POINTER(Pupil), POINTER(Lesson)
    found.lesson_bytes.restype = c_int64
    found.lesson_bytes.argtypes = (pupil, lesson)
    found.learn.restype = c_double
    found.learn.argtypes = (pupil, lesson, c_void_p)
    return found
