"""The weights of a model folder: read, checked and put into a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from headwise import storage
from headwise.backends.pytorch.install import use_backend
from headwise.errors import ModelError
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
from headwise.run_folder.paths import CONFIG
from headwise.run_folder.tensors import FLOATS, check_dtypes, first_of, read_tensors


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What a folder says of its model besides the weights."""

    config: TransformerConfig
    source_vocab_size: int
    target_vocab_size: int


def read_model(path: Path, described: Described, device: str) -> Transformer:
    """Make the model of a file of weights that was just checked."""
    weights = read_tensors(path)
    # A shape without memory: a changed config must not ask for terabytes, and nobody
    # needs to draw the weights that the file is about to give.
    with torch.device("meta"):
        model = _built(described, path, weights)
    check_weights(model, weights, path)
    _check_finite(weights, path)
    # A copy, as what is read here is the file itself, which others may change.
    numbers = {name: w.to(torch.float32, copy=True) for name, w in weights.items()}
    model.load_state_dict(numbers, assign=True)
    return model.to(device).eval()


def check_unchanged(path: Path, sha256: str) -> None:
    """Refuse weights that are others than when their folder was opened.

    Training may have put a newer model there since, which belongs to other tokenizers.
    """
    try:
        found = storage.sha256(path)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read any more: {error.strerror or error}; open the "
            "model again"
        ) from None
    if found != sha256:
        raise ModelError(
            f"{path} is not the file any more that was there when the model was "
            "opened; open the model again"
        )


def load_weights(model: Transformer, weights: Mapping[str, Tensor], path: Path) -> None:
    """Put ``weights`` into ``model``; names and shapes must fit exactly."""
    check_weights(model, weights, path)
    model.load_state_dict(dict(weights))


def check_weights(
    model: Transformer, weights: Mapping[str, Tensor], path: Path
) -> None:
    """Raise a ``ModelError`` where names, shapes or dtypes do not fit ``model``."""
    check_dtypes(weights, path, FLOATS)
    wanted = model.state_dict()
    problems = [f"{name} is missing" for name in wanted if name not in weights]
    problems += [f"{name} is not known" for name in weights if name not in wanted]
    problems += [
        f"{name} has shape {list(weights[name].shape)}, not {list(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    if problems:
        raise ModelError(f"{path} does not fit {CONFIG}: {first_of(problems)}")


def _check_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Raise a ``ModelError`` that names the weights with a NaN or an infinity."""
    wrong = [name for name, weight in weights.items() if not weight.isfinite().all()]
    if wrong:
        raise ModelError(
            f"{path} holds numbers that are not finite, in {first_of(wrong)}: training "
            "diverged or the file was changed; take an earlier checkpoint, or copy the "
            "file again from where the model was trained"
        )


def _built(
    described: Described, path: Path, weights: Mapping[str, Tensor]
) -> Transformer:
    config = described.config
    layers = config.encoder_layers + config.decoder_layers
    if layers > len(weights):
        raise ModelError(
            f"{path} holds {len(weights)} tensors, and {CONFIG} asks for "
            f"{layers} layers: the parts of this folder come from different models"
        )
    try:
        sizes = described.source_vocab_size, described.target_vocab_size
        return use_backend(Transformer(config, *sizes), "auto")
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ModelError(
            f"{path.with_name(CONFIG)} asks for a model that fails: {error}"
        ) from None
