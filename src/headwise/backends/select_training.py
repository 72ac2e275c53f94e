"""The training loss of a batch, by the first backend that can run it.

A backend is installed in a model by ``use_backend`` (``SequenceModel.backend``). What
it cannot run, PyTorch runs: C kernels need gradients, for example, so PyTorch
validates.
"""

from __future__ import annotations

from torch import Tensor

from headwise.backends.api import GenerativeModel, TwoPassBackend
from headwise.backends.native.training import NativeTraining
from headwise.backends.pytorch.training import TorchTraining
from headwise.backends.reference import ReferenceTraining
from headwise.consistency import Consistency, TwoPassLoss
from headwise.data.ragged_batch import Batch

AnyBackend = TwoPassBackend[GenerativeModel, Batch]

TRAINING_BACKENDS: dict[str, tuple[AnyBackend, ...]] = {
    "auto": (NativeTraining(), TorchTraining(), ReferenceTraining()),
    "native": (NativeTraining(), TorchTraining(), ReferenceTraining()),
    "torch": (TorchTraining(), ReferenceTraining()),
    "reference": (ReferenceTraining(),),
    # TorchCompileTraining runs packed batches
    "torch_compile": (TorchTraining(), ReferenceTraining()),
}
"""Name of a backend -> what runs a batch, in order of preference."""


def training_backend(model: GenerativeModel, batch: Batch) -> AnyBackend:
    """Return the backend that runs ``batch``: the first of the model's that can."""
    return next(
        each
        for each in TRAINING_BACKENDS[model.backend]
        if each.why_not(model, batch) is None
    )


def cross_entropy_of(
    model: GenerativeModel, batch: Batch, *, smoothing: float
) -> Tensor:
    """Sum the cross-entropy over the target tokens of ``batch``, times its weight.

    In nats.
    A decoder alone (GPT) reads no source: it predicts the targets from one another.
    """
    backend = training_backend(model, batch)
    loss = backend.loss(model, batch, smoothing=smoothing)
    return loss if batch.weight == 1 else batch.weight * loss


def two_pass_loss_of(
    model: GenerativeModel, batch: Batch, *, smoothing: float, consistency: Consistency
) -> TwoPassLoss:
    """Sum the loss of both passes of a doubled batch, in nats.

    The sums are over the target tokens of one pass: see
    :mod:`headwise.consistency`.
    """
    backend = training_backend(model, batch)
    loss = backend.two_pass_loss(
        model, batch, smoothing=smoothing, consistency=consistency
    )
    if batch.weight == 1:
        return loss
    return TwoPassLoss(batch.weight * loss.total, batch.weight * loss.kl_divergence)
