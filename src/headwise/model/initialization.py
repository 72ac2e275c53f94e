"""How weights begin. The paper does not say.

Every matrix is normal with a small standard deviation, as in BERT, GPT-2 and Hugging
Face's Marian: at first each box adds little to what goes around it, so that a post-norm
stack learns from the first update on, and at a high learning rate.
"""

from __future__ import annotations

import torch
from torch import nn

STANDARD_DEVIATION = 0.02


def initialize(model: nn.Module, seed: int) -> None:
    """Draw every weight of ``model`` from ``seed``, in the order of its parameters."""
    random = torch.Generator().manual_seed(seed)
    norms = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.LayerNorm)
        for parameter in module.parameters()
    }
    for parameter in model.parameters():
        if id(parameter) in norms or parameter.is_meta:
            continue
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        else:
            nn.init.normal_(parameter, std=STANDARD_DEVIATION, generator=random)
