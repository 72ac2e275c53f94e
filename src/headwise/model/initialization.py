"""Initial weights. The paper does not say.

Matrices are Xavier-uniform and embeddings normal with variance 1 / width, so that after
the factor √d_model (Section 3.4) they are as large as the positions added to them: as
in the paper's own code. But the output projection of each sublayer is small: at first a
sublayer adds little to its residual connection, and a post-norm stack learns from the
first update on.
"""

from __future__ import annotations

import torch
from torch import nn

from headwise.model.variants.norms import BatchNorm, RMSNorm

EMBEDDINGS = "vectors"
"""Name of parameters that are tables of vectors: embeddings, positions, output."""

OUTPUT_PROJECTIONS = ("to_output", "narrow")
"""Names of the last linear layer of each sublayer."""

OUTPUT_PROJECTION_STD = 0.02

NORMS_AS_MADE = (nn.LayerNorm, RMSNorm, BatchNorm)
"""Norms begin with the weights they are made with: gain 1, bias 0."""


def initialize(model: nn.Module, seed: int) -> None:
    """Draw every weight of ``model`` from ``seed``, in the order of its parameters."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        owner, _, kind = name.rpartition(".")
        is_norm = isinstance(model.get_submodule(owner), NORMS_AS_MADE)
        if is_norm or parameter.is_meta:
            continue
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif kind == EMBEDDINGS:
            std = parameter.shape[1] ** -0.5
            nn.init.normal_(parameter, std=std, generator=generator)
        elif owner.endswith(OUTPUT_PROJECTIONS):
            nn.init.normal_(parameter, std=OUTPUT_PROJECTION_STD, generator=generator)
        else:
            nn.init.xavier_uniform_(parameter, generator=generator)
