"""The mean of several checkpoints (Section 6.1: the last 5, or the last 20)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from headwise.errors import UsageError


def average(checkpoints: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each weight, summed in float64, one checkpoint at a time."""
    sums: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    count = 0
    for weights in checkpoints:
        count += 1
        for name, weight in weights.items():
            dtypes[name] = weight.dtype
            total = sums.get(name)
            if total is None:
                sums[name] = weight.to(torch.float64, copy=True)
            else:
                total.add_(weight)
    if not count:
        raise UsageError("there is nothing to average: 0 checkpoints were given")
    return {name: (total / count).to(dtypes[name]) for name, total in sums.items()}
