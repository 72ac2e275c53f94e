"""Structs and functions of the native inference kernels, for ctypes.

They mirror ``csrc/kernels.h`` and ``csrc/decoder.c``. Pointers are to memory that the
caller keeps alive. Sizes and order are tested by whatever calls the kernels:
``tests/backends/native/test_matmul.py`` and ``test_decoder.py``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_float, c_int64, c_void_p
from functools import cache

from headwise.backends.native.library import NativeLibraryError, library

LANES = 16
"""Floats of a vector: keys are padded to multiples of it, as in ``kernels.h``."""

ALIGNMENT = 64
"""Bytes at whose multiples a packed matrix begins."""

FLOAT32, BF16, BF16X3 = 0, 1, 3
"""Number formats of a packed matrix: bf16 terms per number; three are a float32."""

ACTIVATIONS = {"none": 0, "relu": 1, "gelu": 2, "swish": 3}
"""Activations as the kernels number them."""


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


class LayerNorm(Structure):
    """Layer normalization; without weights it is the identity."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_float))


class Attention(Structure):
    """The matrices of an attention sublayer, and the norm of its Add & Norm."""

    _fields_ = (
        ("qkv", Matrix),
        ("kv", Matrix),
        ("output", Matrix),
        ("norm", LayerNorm),
    )


class Layer(Structure):
    """A block of either stack; the encoder's has no cross-attention."""

    _fields_ = (
        ("self_attention", Attention),
        ("cross_attention", Attention),
        ("expand", Matrix),
        ("project", Matrix),
        ("norm", LayerNorm),
    )


class Embedding(Structure):
    """The foot of a stack: token embeddings and position encodings."""

    _fields_ = (
        ("table", c_void_p),
        ("positions", c_void_p),
        ("num_positions", c_int64),
        ("width", c_int64),
        ("scale", c_float),
        ("norm", LayerNorm),
    )


class Model(Structure):
    """A whole model: ``transformer`` in ``decoder.c``."""

    _fields_ = (
        ("encoder_layers", c_int64),
        ("decoder_layers", c_int64),
        ("d_model", c_int64),
        ("heads", c_int64),
        ("d_k", c_int64),
        ("d_v", c_int64),
        ("d_ff", c_int64),
        ("pre_norm", c_int64),
        ("activation", c_int64),
        ("source_embedding", Embedding),
        ("target_embedding", Embedding),
        ("encoder_norm", LayerNorm),
        ("decoder_norm", LayerNorm),
        ("output", Matrix),
        ("encoder", POINTER(Layer)),
        ("decoder", POINTER(Layer)),
    )


class CrossKV(Structure):
    """Keys and values of the sources, for cross-attention."""

    _fields_ = (
        ("starts", c_void_p),
        ("key_offsets", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
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
    )


class TopKState(Structure):
    """Running top-k of a row; ``topk`` needs one for each as scratch."""

    _fields_ = (("max_score", c_float), ("sum_exp", c_float), ("found", c_int64))


class BeamRequest(Structure):
    """``beam_request`` in ``csrc/beam_step.c``: one step of beam search."""

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


TOPK_STATE_BYTES = ctypes.sizeof(TopKState)
"""Scratch that ``topk`` needs for each row."""

_STRUCTS = (
    *(Matrix, MatmulOptions, LayerNorm, Attention, Layer, Embedding, Model, CrossKV),
    *(TopKRequest, TopKState),
)
"""In the order of ``decoder_struct_bytes`` in ``csrc/decoder.c``."""

_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "packed_bytes": (c_int64, (c_int64,) * 3),
    "pack_transposed": (None, (c_void_p, c_int64, c_int64, c_int64, c_void_p)),
    "pack_matrix": (None, (c_void_p, *(c_int64,) * 4, c_void_p)),
    "matmul_scratch_bytes": (c_int64, (c_int64,) * 2),
    "matmul": (
        None,
        (
            *(c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int64),
            *(MatmulOptions, c_void_p),
        ),
    ),
    "encode_scratch_floats": (c_int64, (c_void_p, c_int64)),
    "step_scratch_floats": (c_int64, (c_void_p, c_int64, c_int64)),
    "encode": (
        None,
        (c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_void_p),
    ),
    "decode_steps": (
        c_int64,
        (
            *(c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p),
            *(c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p),
        ),
    ),
    "beam_step": (c_int64, (POINTER(BeamRequest),)),
    "topk": (
        c_int64,
        (
            *(c_void_p, c_int64, c_int64, c_int64, c_void_p, c_int64),
            *(c_void_p, c_void_p, c_void_p),
        ),
    ),
}


@cache
def kernels() -> ctypes.CDLL:
    """Return the library with typed functions.

    Raises ``NativeLibraryError`` where there is none.
    """
    return typed(library())


def typed(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """Set argument and return types of a library's functions."""
    check_sizes(loaded, "decoder_struct_bytes", _STRUCTS)
    check_sizes(loaded, "beam_struct_bytes", (BeamRequest,))
    for name, (returned, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = returned
        function.argtypes = arguments
    return loaded


def check_sizes(
    loaded: ctypes.CDLL, table: str, structs: Sequence[type[Structure]]
) -> None:
    """Compare the sizes of structs here with those that the library reports.

    Raises ``NativeLibraryError`` for a library of another version.
    """
    sizes = (c_int64 * len(structs)).in_dll(loaded, table)
    for struct, size in zip(structs, sizes, strict=True):
        if ctypes.sizeof(struct) != size:
            raise NativeLibraryError(
                f"the native library is of another version of headwise: its "
                f"{struct.__name__} has {size} bytes, not {ctypes.sizeof(struct)}; "
                "installing headwise again would help"
            )
