"""The weights of a model folder: read, checked and put into a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from headwise import storage
from headwise.errors import ModelError
from headwise.model.transformer import Transformer
from headwise.run_folder.model_folder import WEIGHTS, ModelFolder
from headwise.run_folder.paths import CONFIG
from headwise.run_folder.tensors import FLOATS, check_dtypes, first_of, read_tensors


def read_model(opened: ModelFolder) -> Transformer:
    """Make the model of a folder that was just checked."""
    path = opened.path / WEIGHTS
    weights = read_tensors(path)
    # A shape without memory: a changed config must not ask for terabytes, and nobody
    # needs to draw the weights that the file is about to give.
    with torch.device("meta"):
        model = _built(opened, weights)
    check_weights(model, weights, path)
    # A copy, as what is read here is the file itself, which others may change.
    numbers = {name: w.to(torch.float32, copy=True) for name, w in weights.items()}
    model.load_state_dict(numbers, assign=True)
    return model.to(opened.device).eval()


def read_model_later(opened: ModelFolder) -> Transformer:
    """Make the model of a folder that was checked a while ago.

    Training may have put a newer model there since, which belongs to other tokenizers.
    """
    path = opened.path / WEIGHTS
    try:
        found = storage.sha256(path)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read any more: {error.strerror or error}; open the "
            "model again"
        ) from None
    if found != opened.manifest["files"][WEIGHTS]["sha256"]:
        raise ModelError(
            f"{path} is not the file any more that was there when the model was "
            "opened; open the model again"
        )
    return read_model(opened)


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


def _built(opened: ModelFolder, weights: Mapping[str, Tensor]) -> Transformer:
    config, facts, path = opened.config, opened.facts, opened.path
    layers = config.encoder_layers + config.decoder_layers
    if layers > len(weights):
        raise ModelError(
            f"{path / WEIGHTS} holds {len(weights)} tensors, and {CONFIG} asks for "
            f"{layers} layers: the parts of this folder come from different models"
        )
    try:
        return Transformer(config, facts.source_vocab_size, facts.target_vocab_size)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ModelError(
            f"{path / CONFIG} asks for a model that fails: {error}"
        ) from None
