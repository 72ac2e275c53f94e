"""The training loss of a batch, by the first backend that can run it.

A backend is installed in a model by ``use_backend`` (``Transformer.backend``). What it
cannot run, PyTorch runs: C kernels need gradients, for example, so PyTorch validates.
"""

from __future__ import annotations

from torch import Tensor

from headwise.backends.api import TrainingBackend
from headwise.backends.native.training import NativeTraining
from headwise.backends.pytorch.training import TorchTraining
from headwise.backends.reference import ReferenceTraining
from headwise.data.ragged_batch import Batch
from headwise.model.transformer import Transformer

TRAINING_BACKENDS: dict[str, tuple[TrainingBackend[Batch], ...]] = {
    "auto": (NativeTraining(), TorchTraining()),
    "native": (NativeTraining(), TorchTraining()),
    "torch": (TorchTraining(),),
    "reference": (ReferenceTraining(),),
    "torch_compile": (TorchTraining(),),  # TorchCompileTraining runs packed batches
}
"""Name of a backend -> what runs a batch, in order of preference."""


def training_backend(model: Transformer, batch: Batch) -> TrainingBackend[Batch]:
    """Return the backend that runs ``batch``: the first of the model's that can."""
    return next(
        each
        for each in TRAINING_BACKENDS[model.backend]
        if each.why_not(model, batch) is None
    )


def cross_entropy_of(model: Transformer, batch: Batch, *, smoothing: float) -> Tensor:
    """Sum the cross-entropy over the target tokens of ``batch``, in nats."""
    backend = training_backend(model, batch)
    return backend.loss(model, batch, smoothing=smoothing)
