"""Load the weights of a model folder: read, check, and put them into a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from headwise.backends.pytorch.install_fused import use_backend
from headwise.errors import ModelError
from headwise.model.sequence_model import SequenceModel
from headwise.run_folder.paths import CONFIG
from headwise.run_folder.safetensors_files import (
    FLOATS,
    check_dtypes,
    first_three,
    read_tensors,
)
from headwise.tasks import TASKS
from headwise.tasks.description import ModelDescription


def read_model(path: Path, described: ModelDescription, device: str) -> SequenceModel:
    """Load a model from a file of weights that was just verified."""
    weights = read_tensors(path)
    # The meta device allocates no memory, whatever sizes the config has, and skips the
    # initialization.
    with torch.device("meta"):
        model = _build_model(described, path, weights)
    check_weights(model, weights, path)
    _check_finite(weights, path)
    # Copy: the tensors are memory-mapped, and the file may be changed by others.
    weights = {name: w.to(torch.float32, copy=True) for name, w in weights.items()}
    model.load_state_dict(weights, assign=True)
    return model.to(device).eval()


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load ``weights`` into ``model``; raise ``ModelError`` if they do not fit."""
    check_weights(model, weights, path)
    model.load_state_dict(dict(weights))


def check_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Raise ``ModelError`` if names, shapes or dtypes do not fit ``model``."""
    check_dtypes(weights, path, FLOATS)
    wanted = model.state_dict()
    problems = [f"{name} is missing" for name in wanted if name not in weights]
    problems += [f"{name} is unexpected" for name in weights if name not in wanted]
    problems += [
        f"{name} has shape {list(weights[name].shape)}, not {list(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    if problems:
        raise ModelError(f"{path} does not fit {CONFIG}: {first_three(problems)}")


def _check_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Raise ``ModelError`` for weights with NaN or infinity."""
    wrong = [name for name, weight in weights.items() if not weight.isfinite().all()]
    if wrong:
        raise ModelError(
            f"{path} contains NaN or infinity in {first_three(wrong)}: training "
            "diverged, or the file was changed; use an earlier checkpoint, or copy the "
            "file again"
        )


def _build_model(
    described: ModelDescription, path: Path, weights: Mapping[str, Tensor]
) -> SequenceModel:
    config = described.config
    layers = config.encoder_layers + config.decoder_layers
    if layers > len(weights):
        raise ModelError(
            f"{path} has {len(weights)} tensors, but {CONFIG} asks for "
            f"{layers} layers: the parts of this folder come from different models"
        )
    try:
        return use_backend(TASKS[described.task].build(described, seed=0), "auto")
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ModelError(
            f"{path.with_name(CONFIG)} asks for a model that fails: {error}"
        ) from None
