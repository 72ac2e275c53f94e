"""Training with teachers, by PyTorch: the loss needs the logits of every token.

Its reference is what a student with the backend ``reference`` computes: padded batches
through the models as they are written; ``tests/backends/test_distillation.py`` holds
both equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch

from headwise.backends.api import GenerativeModel
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.training import decoded_vectors
from headwise.backends.reference import reference_logits, why_reference_only
from headwise.data.ragged_batch import Batch
from headwise.distillation import (
    DistillationLoss,
    Projection,
    distillation_loss,
    projected_distillation_loss,
)

WHY_NOT_NATIVE = (
    "training.teacher needs the distribution of each token, which C kernels do not "
    "return"
)


class Teachers:
    """Models with the student's vocabulary, whose mean distribution it learns.

    They are in evaluation mode, and their weights never change. ``weight`` is that of
    their divergence in the loss, more than 0 and at most 1.
    """

    def __init__(self, models: Sequence[GenerativeModel], weight: float) -> None:
        self.models = [use_backend(each.eval(), "torch") for each in models]
        self.weight = weight
        for model in self.models:
            model.requires_grad_(False)

    def to(self, device: torch.device | str) -> Self:
        """Move the models to a device; return self."""
        for model in self.models:
            model.to(device)
        return self

    def loss(
        self, model: GenerativeModel, batch: Batch, *, smoothing: float
    ) -> DistillationLoss:
        """Return the loss of ``model``, summed over the target tokens, in nats.

        Teachers see the very batch: words that are dropped, noise and segmentations
        that were drawn.
        """
        as_written = model.backend == "reference" or any(
            why_reference_only(each) for each in (model, *self.models)
        )
        compute = self._as_written if as_written else self._projected
        found = compute(model, batch, smoothing)
        if batch.weight == 1:
            return found
        return DistillationLoss(*(batch.weight * each for each in found))

    def _projected(
        self, model: GenerativeModel, batch: Batch, smoothing: float
    ) -> DistillationLoss:
        with torch.no_grad():
            teachers = [_projection(each, batch) for each in self.models]
        targets = batch.target.tokens
        if batch.counted is not None:
            targets = targets[batch.counted]
        return projected_distillation_loss(
            _projection(model, batch), teachers, targets, smoothing, self.weight
        )

    def _as_written(
        self, model: GenerativeModel, batch: Batch, smoothing: float
    ) -> DistillationLoss:
        with torch.no_grad():
            teachers = [reference_logits(each, batch) for each in self.models]
        logits, targets = reference_logits(model, batch), batch.target.tokens
        if (counted := batch.counted) is not None:
            logits, targets = logits[counted], targets[counted]
            teachers = [each[counted] for each in teachers]
        return distillation_loss(logits, teachers, targets, smoothing, self.weight)


def _projection(model: GenerativeModel, batch: Batch) -> Projection:
    hidden = decoded_vectors(model, batch)
    if batch.counted is not None:
        hidden = hidden[batch.counted]
    return Projection(hidden, model.output_vectors, model.output.bias)
