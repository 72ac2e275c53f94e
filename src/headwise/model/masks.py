"""Who may look at whom. One sense in the whole package: True means "may attend"."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor


class BackendMask:
    """A mask in a form of its own, for what a backend installs as ``attend``."""


MayAttend = Bool[Tensor, "#B #H #Q _"] | BackendMask
"""A mask of attention, passed through the stacks as it is."""


def to_real_tokens(is_real: Bool[Tensor, "B K"]) -> Bool[Tensor, "B 1 1 K"]:
    """Let every query look at the tokens of its sentence, never at padding."""
    return is_real[:, None, None, :]


def to_the_past(length: int, device: torch.device) -> Bool[Tensor, "1 1 L L"]:
    """Let each position look at itself and what stands before it (Section 3.2.3).

    Padding follows a sentence, so a real position never sees it through this mask.
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[
        None, None
    ]
