"""Means of weights: of the last checkpoints (Section 6.1), or of all updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from headwise.training.sharding import sharded_like


class RunningMean:
    """An exponential moving average of weights, which each update moves a little."""

    def __init__(
        self,
        model: nn.Module,
        decay: float,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.decay = decay
        self.tensors = {
            name: weight.detach().clone()
            if tensors is None
            else sharded_like(tensors[name], weight)
            for name, weight in model.state_dict().items()
        }

    @torch.no_grad()
    def follow(self, model: nn.Module, step: int) -> None:
        """Take in the weights after update ``step``; the first ones are soon forgotten.

        While there were few updates, the mean is of the last tenth of them or so.
        """
        keep = min(self.decay, (1 + step) / (10 + step))
        for name, weight in model.state_dict().items():
            self.tensors[name].mul_(keep).add_(weight, alpha=1 - keep)


def average(
    checkpoints: Iterable[Mapping[str, Tensor]],
) -> tuple[dict[str, Tensor], int]:
    """Return the mean of each weight, and of how many checkpoints.

    Sums are taken in float64, with one checkpoint at a time in memory.
    """
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
    means = {name: (total / count).to(dtypes[name]) for name, total in sums.items()}
    return means, count
