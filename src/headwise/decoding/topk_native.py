"""``topk_tokens`` by a C kernel, for logits in CPU memory.

Letters used for sizes: R rows of the batch, V vocabulary, K tokens kept for each row.
"""

from __future__ import annotations

from ctypes import byref

import numpy as np
import torch
from torch import Tensor

from headwise.backends.native.ctypes_structs import TOPK_STATE_BYTES, TopKRows
from headwise.backends.native.functions import kernels
from headwise.backends.native.library import why_unavailable
from headwise.errors import NumericsError

MAX_K = 64
"""Largest k of the kernel, which keeps the best tokens sorted while it scans."""


def has_native_topk(logits: Tensor, k: int) -> bool:
    """Return whether the kernel can take the top ``k`` of these logits [R V].

    The first call in a process loads the native library.
    """
    return (
        logits.device.type == "cpu"
        and logits.dtype == torch.float32
        and logits.is_contiguous()
        and 0 < k <= MAX_K
        and len(logits) > 0
        and why_unavailable() is None
    )


def native_topk(
    logits: Tensor, k: int, forbidden: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Return ln p and ids [R K], as ``topk_tokens`` does.

    Raises ``NumericsError`` if logits are NaN or infinite.
    """
    rows, vocab_size = logits.shape
    k = min(k, vocab_size)
    forbidden_ids = np.array(
        [each for each in forbidden if each < vocab_size], np.int64
    )
    log_p = torch.empty(rows, k)
    tokens = torch.empty(rows, k, dtype=torch.int64)
    scratch = np.empty(rows * TOPK_STATE_BYTES, dtype=np.uint8)
    topk_rows = TopKRows(
        rows=rows,
        count=k,
        num_forbidden=len(forbidden_ids),
        forbidden=forbidden_ids.ctypes.data,
        values=log_p.data_ptr(),
        tokens=tokens.data_ptr(),
        states=scratch.ctypes.data,
    )
    all_finite = kernels().topk(byref(topk_rows), logits.data_ptr(), vocab_size)
    if not all_finite:
        raise NumericsError.of_scores()
    return log_p, tokens
