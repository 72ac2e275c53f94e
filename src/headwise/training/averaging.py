"""Averaged weights: checkpoint averaging (Section 6.1), EMA, a model to test both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat

import torch
from torch import Tensor, nn

from headwise.model.sequence_model import SequenceModel
from headwise.tasks.task import Task
from headwise.training.fsdp import shard_like


class EMA:
    """Exponential moving average of the weights of ``model``.

    ``tensors`` are those of a checkpoint to resume from; None starts at the weights.
    """

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
            else shard_like(tensors[name], weight)
            for name, weight in model.state_dict().items()
        }

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Move the average towards the weights after ``step``, in place.

        The decay warms up as (1 + step) / (10 + step), so that the initial weights are
        soon forgotten.
        """
        keep = min(self.decay, (1 + step) / (10 + step))
        weights = [*model.state_dict().values()]
        means = [*self.tensors.values()]
        torch._foreach_mul_(means, keep)
        torch._foreach_add_(means, weights, alpha=1 - keep)


def average_checkpoints(
    checkpoints: Iterable[Mapping[str, Tensor]], shares: Iterable[float] = repeat(1.0)
) -> tuple[dict[str, Tensor], int]:
    """Return the mean of each weight, in its own dtype, and how many checkpoints.

    ``shares`` are those of the checkpoints in the mean, of any sum. Sums are in
    float64; one checkpoint at a time is in memory.
    """
    sums: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    count, whole = 0, 0.0
    for weights, share in zip(checkpoints, shares, strict=False):
        count += 1
        whole += share
        for name, weight in weights.items():
            dtypes[name] = weight.dtype
            total = sums.get(name)
            if total is None:
                sums[name] = weight.to(torch.float64, copy=True).mul_(share)
            else:
                total.add_(weight, alpha=share)
    means = {name: (total / whole).to(dtypes[name]) for name, total in sums.items()}
    return means, count


class EvalModel:
    """A second model of the same architecture, to validate averaged weights with.

    It is made, on the device of ``trained``, when it is first asked for.
    """

    def __init__(self, task: Task, trained: SequenceModel) -> None:
        self._task = task
        self._config = trained.config
        self._device = trained.device
        self._model: SequenceModel | None = None

    @property
    def model(self) -> SequenceModel:
        """The model, with the weights it was last given."""
        if self._model is None:
            model = self._task.new_model(self._config, seed=0)
            self._model = model.to(self._device)
        return self._model

    def with_weights(self, weights: Mapping[str, Tensor]) -> SequenceModel:
        """Load ``weights`` and return the model."""
        self.model.load_state_dict(weights)
        return self.model
