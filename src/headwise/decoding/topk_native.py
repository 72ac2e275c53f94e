"""``best_tokens`` by a compiled kernel, for scores that a CPU holds.

Letters used for sizes: R rows of the batch, V vocabulary, K tokens kept for each row.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from headwise.backends.native.compiler import why_unavailable
from headwise.backends.native.ctypes_structs import TOPK_STATE_BYTES, kernels
from headwise.errors import NumericsError

MOST = 64
"""Tokens of a row up to which they are kept in order while they are found."""


def can_choose(logits: Tensor, count: int) -> bool:
    """Tell whether the kernel can be asked for ``count`` tokens of these scores [R V].

    The first call of all may compile the kernels.
    """
    return (
        logits.device.type == "cpu"
        and logits.dtype == torch.float32
        and logits.is_contiguous()
        and 0 < count <= MOST
        and len(logits) > 0
        and why_unavailable() is None
    )


def chosen(
    logits: Tensor, count: int, forbidden: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Return ln p and tokens [R K] as ``best_tokens`` does."""
    rows, size = logits.shape
    count = min(count, size)
    refused = np.array([each for each in forbidden if each < size], dtype=np.int64)
    values = torch.empty(rows, count)
    tokens = torch.empty(rows, count, dtype=torch.int64)
    spare = np.empty(rows * TOPK_STATE_BYTES, dtype=np.uint8)
    done = kernels().topk(
        logits.data_ptr(),
        rows,
        size,
        count,
        refused.ctypes.data,
        len(refused),
        values.data_ptr(),
        tokens.data_ptr(),
        spare.ctypes.data,
    )
    if not done:
        raise NumericsError.of_scores()
    return values, tokens
