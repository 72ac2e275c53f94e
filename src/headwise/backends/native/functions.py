"""Functions of the native library, with their types for ctypes.

What they compute is said in the headers in ``csrc``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_int64, c_void_p
from functools import cache

from headwise.backends.native.ctypes_structs import (
    STRUCTS,
    BatchLoss,
    BeamRequest,
    DecodeRequest,
    EncodeRequest,
    MatmulOptions,
    Model,
    PrefillRequest,
    TopKRequest,
    TopKRows,
    TrainBatch,
)
from headwise.backends.native.library import NativeLibraryError, library

_MODEL, _BATCH = POINTER(Model), POINTER(TrainBatch)

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
    "encode_scratch_floats": (c_int64, (_MODEL, c_int64)),
    "encode": (None, (_MODEL, POINTER(EncodeRequest), c_void_p)),
    "prefill": (None, (_MODEL, POINTER(PrefillRequest), c_void_p)),
    "prefill_rows": (c_int64, (POINTER(PrefillRequest),)),
    "step_scratch_floats": (c_int64, (_MODEL, c_int64, c_int64)),
    "decode_steps": (
        c_int64,
        (_MODEL, POINTER(DecodeRequest), c_void_p, POINTER(TopKRequest), c_void_p),
    ),
    "beam_step": (c_int64, (POINTER(BeamRequest),)),
    "topk": (c_int64, (POINTER(TopKRows), c_void_p, c_int64)),
    "train_scratch_bytes": (c_int64, (_MODEL, _BATCH)),
    "forward_backward": (BatchLoss, (_MODEL, _BATCH, c_void_p)),
    "encoder_train_bytes": (c_int64, (_MODEL, _BATCH)),
    "encoder_forward": (None, (_MODEL, _BATCH, c_void_p, c_void_p)),
    "encoder_backward": (None, (_MODEL, _BATCH, c_void_p, c_void_p)),
}


@cache
def kernels() -> ctypes.CDLL:
    """Return the library with typed functions.

    Raises ``NativeLibraryError`` where there is none.
    """
    return typed(library())


def typed(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """Set argument and return types of a library's functions.

    Raises ``NativeLibraryError`` for a library of another version.
    """
    check_sizes(loaded, STRUCTS)
    for name, (returned, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = returned
        function.argtypes = arguments
    return loaded


def check_sizes(loaded: ctypes.CDLL, structs: Sequence[type[Structure]]) -> None:
    """Compare the sizes of structs here with those that the library reports.

    Raises ``NativeLibraryError`` for a library of another version.
    """
    sizes = (c_int64 * len(structs)).in_dll(loaded, "struct_bytes")
    for struct, size in zip(structs, sizes, strict=True):
        if ctypes.sizeof(struct) != size:
            raise NativeLibraryError(
                f"the native library is of another version of headwise: its "
                f"{struct.__name__} has {size} bytes, not {ctypes.sizeof(struct)}; "
                "installing headwise again would help"
            )
