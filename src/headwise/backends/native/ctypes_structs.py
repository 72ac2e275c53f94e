"""What the kernels are handed: the structures of ``kernels.h`` and ``decoder.c``.

Addresses are those of numbers that the caller keeps alive.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_float, c_int64, c_void_p
from functools import cache

from headwise.backends.native.compiler import library

LANES = 16
"""Positions to multiples of which keys are filled up; as in ``kernels.h``."""

ALIGNED = 64
"""Bytes at whose multiples a matrix that was laid out begins."""

ROUNDED, WHOLE = 1, 3
"""bfloat16 parts of a number: the first is it rounded, all three are a float32."""

BENDS = {"none": 0, "relu": 1, "gelu": 2, "swish": 3}
"""Activations as the kernels number them."""


class Product(Structure):
    """A matrix as ``product_pack`` lays it out, and a bias."""

    _fields_ = (
        ("inputs", c_int64),
        ("outputs", c_int64),
        ("parts", c_int64),
        ("weight", c_void_p),
        ("bias", c_void_p),
    )


class Manner(Structure):
    """What is done with a product."""

    _fields_ = (("bend", c_int64), ("turned", c_int64), ("add", c_int64))


class Norm(Structure):
    """A layer norm; without weights it leaves everything as it is."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_float))


class Attention(Structure):
    """The products of an attention box, and the norm around it."""

    _fields_ = (
        ("asked", Product),
        ("remember", Product),
        ("join", Product),
        ("around", Norm),
    )


class Layer(Structure):
    """A block of either stack; the encoder's has one attention box only."""

    _fields_ = (
        ("own", Attention),
        ("source", Attention),
        ("widen", Product),
        ("narrow", Product),
        ("around", Norm),
    )


class Entry(Structure):
    """The foot of a stack: embeddings and positions."""

    _fields_ = (
        ("table", c_void_p),
        ("places", c_void_p),
        ("positions", c_int64),
        ("width", c_int64),
        ("scale", c_float),
        ("around", Norm),
    )


class Stacks(Structure):
    """A whole model."""

    _fields_ = (
        ("encoder_layers", c_int64),
        ("decoder_layers", c_int64),
        ("model", c_int64),
        ("heads", c_int64),
        ("key", c_int64),
        ("value", c_int64),
        ("inner", c_int64),
        ("pre", c_int64),
        ("bend", c_int64),
        ("reading", Entry),
        ("writing", Entry),
        ("encoder_last", Norm),
        ("decoder_last", Norm),
        ("scores", Product),
        ("encoder", POINTER(Layer)),
        ("decoder", POINTER(Layer)),
    )


class SourceMemory(Structure):
    """What the decoder asks of the sources."""

    _fields_ = (
        ("starts", c_void_p),
        ("keys_at", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
    )


class Wanted(Structure):
    """The best tokens of each row, instead of all scores; of several steps, one."""

    _fields_ = (
        ("count", c_int64),
        ("num_refused", c_int64),
        ("refused", c_void_p),
        ("tokens", c_void_p),
        ("most", c_int64),
        ("end", c_int64),
        ("enough", c_int64),
    )


TALLY_BYTES = 16
"""What ``best_of_rows`` needs for each row besides."""

_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "product_size": (c_int64, (c_int64,) * 3),
    "product_pack": (None, (c_void_p, c_int64, c_int64, c_int64, c_void_p)),
    "product_lay_out": (None, (c_void_p, *(c_int64,) * 4, c_void_p)),
    "product_spare": (c_int64, (c_int64,) * 2),
    "product_apply": (
        None,
        (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int64, Manner, c_void_p),
    ),
    "encode_floats": (c_int64, (c_void_p, c_int64)),
    "spare_floats": (c_int64, (c_void_p, c_int64, c_int64)),
    "encode": (
        None,
        (c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_void_p),
    ),
    "write_on": (
        c_int64,
        (
            *(c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
            *(c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p),
        ),
    ),
    "best_of_rows": (
        c_int64,
        (
            *(c_void_p, c_int64, c_int64, c_int64, c_void_p, c_int64),
            *(c_void_p, c_void_p, c_void_p),
        ),
    ),
}


@cache
def kernels() -> ctypes.CDLL:
    """Return the library with the types of its functions.

    Raises ``NoKernelsError`` where there is none.
    """
    return typed(library())


def typed(found: ctypes.CDLL) -> ctypes.CDLL:
    """Say of a library which types its functions take and return."""
    for name, (returned, arguments) in _SIGNATURES.items():
        function = getattr(found, name)
        function.restype = returned
        function.argtypes = arguments
    return found
