"""Models with DeepNorm as post-norm models, for tools that know no other.

LayerNorm(α x + f) is LayerNorm(x + f / α), up to ε: so the last linear layer of each
sublayer is divided by α. The ε of these tools is fixed, 1e-5 where 1e-5 / α² would be
exact, which changes log-probabilities by some 1e-5.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar, cast

import torch
from torch import nn

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.transformer import Transformer

Model = TypeVar("Model", bound=Transformer)

AROUND = {
    "self_attention": ("around_attention", "around_self"),
    "cross_attention": ("around_cross",),
    "feed_forward": ("around_feed_forward",),
}
"""Sublayer -> what a block calls the "Add & Norm" box around it."""


def as_post_norm(model: Model) -> Model:
    """Return a copy of a model with DeepNorm that has α = 1; any other as it is."""
    if model.config.norm != "deep":
        return model
    copy = deepcopy(model)
    for block in (*copy.encoder.blocks, *copy.decoder.blocks):
        for name, boxes in AROUND.items():
            box = next((getattr(block, x) for x in boxes if hasattr(block, x)), None)
            if isinstance(box, AddAndNorm):
                _divide(getattr(block, name), box)
    return copy


@torch.no_grad()
def _divide(sublayer: nn.Module, box: AddAndNorm) -> None:
    last = getattr(sublayer, "to_output", None) or cast(nn.Module, sublayer.narrow)
    for parameter in last.parameters():
        parameter.div_(box.residual_scale)
    box.norm.eps /= box.residual_scale**2
    box.residual_scale = 1.0
