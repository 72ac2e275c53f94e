"""How weights begin. The paper does not say; this is what its own code did.

Matrices are Xavier-uniform, embeddings normal with variance 1 / width, so that after
the factor √d_model (Section 3.4) they are as large as the positions added to them.
"""

from __future__ import annotations

import torch
from torch import nn

EMBEDDINGS = "vectors"
"""Name of parameters that are tables of vectors: embeddings, positions, output."""


def initialize(model: nn.Module, seed: int) -> None:
    """Draw every weight of ``model`` from ``seed``, in the order of its parameters."""
    random = torch.Generator().manual_seed(seed)
    norms = {
        id(p)
        for m in model.modules()
        if isinstance(m, nn.LayerNorm)
        for p in m.parameters()
    }
    for name, parameter in model.named_parameters():
        if id(parameter) in norms or parameter.is_meta:
            continue
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif name.rpartition(".")[2] == EMBEDDINGS:
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5, generator=random)
        else:
            nn.init.xavier_uniform_(parameter, generator=random)
