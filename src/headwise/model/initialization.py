"""How weights begin. The paper does not say.

Matrices are Xavier-uniform and embeddings normal with variance 1 / width, so that after
the factor √d_model (Section 3.4) they are as large as the positions added to them: as
in the paper's own code. But the last matrix of each box is small: at first a box adds
little to what goes around it, and a post-norm stack learns from the first update on.
"""

from __future__ import annotations

import torch
from torch import nn

EMBEDDINGS = "vectors"
"""Name of parameters that are tables of vectors: embeddings, positions, output."""

LAST_OF_BOX = ("to_output", "narrow")
"""Names of the matrices whose product is added to what went around the box."""

SMALL = 0.02
"""Standard deviation of the last matrix of a box."""


def initialize(model: nn.Module, seed: int) -> None:
    """Draw every weight of ``model`` from ``seed``, in the order of its parameters."""
    random = torch.Generator().manual_seed(seed)
    norms = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.LayerNorm)
        for parameter in module.parameters()
    }
    for name, parameter in model.named_parameters():
        if id(parameter) in norms or parameter.is_meta:
            continue
        owner, _, kind = name.rpartition(".")
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif kind == EMBEDDINGS:
            width = parameter.shape[1]
            nn.init.normal_(parameter, std=width**-0.5, generator=random)
        elif owner.endswith(LAST_OF_BOX):
            nn.init.normal_(parameter, std=SMALL, generator=random)
        else:
            nn.init.xavier_uniform_(parameter, generator=random)
