"""Attention masks. One sense in the whole package: True means "may attend"."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

PADDING = 0
"""The token that follows a text in a row of a batch."""


class BackendMask:
    """A mask of another type, for the attention function that a backend installs."""


AttentionMask = Bool[Tensor, "#B #H #Q _"] | BackendMask
"""For B batch rows, H heads and Q query positions; the last axis is key positions."""


def make_padding_mask(is_real: Bool[Tensor, "B K"]) -> Bool[Tensor, "B 1 1 K"]:
    """Let every query attend to the tokens of its sentence, never to padding.

    ``is_real`` is True for tokens and False for padding.
    """
    return is_real[:, None, None, :]


def make_causal_mask(length: int, device: torch.device) -> Bool[Tensor, "1 1 L L"]:
    """Let each position attend to itself and to earlier ones (Section 3.2.3).

    Padding follows a sentence, so no token attends to padding under this mask.
    """
    mask = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    return mask[None, None]
