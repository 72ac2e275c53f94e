"""A trained model on disk: everything that is needed to use it, and nothing that runs.

config.json          architecture and vocabulary sizes
model.safetensors    weights
tokenizer/           text to tokens and back
generation.json      decoding defaults
golden.json          sources with the outputs and scores this model gave when written
README.md            the card: data, scores with signatures, limits
manifest.json        sizes, SHA-256
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise import storage
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.errors import ModelError, SettingsError
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
from headwise.run_folder.paths import CONFIG, GENERATION, MODEL, check_is_model
from headwise.run_folder.tensors import (
    FLOATS,
    check_dtypes,
    first_of,
    read_tensors,
    write_tensors,
)
from headwise.settings import as_table, read
from headwise.tasks.translation import Translation
from headwise.text.tokenizer import TokenizerPair, open_tokenizers

WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer"
GOLDEN = "golden.json"
CARD = "README.md"
FORMAT = 1

BEFORE_IT_WAS_SAID = {"patience": 1.0}
"""What a search meant in folders that are older than the setting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """What ``config.json`` holds besides the architecture."""

    source_vocab_size: int
    target_vocab_size: int
    longest_source: int
    """Tokens of the longest source it was trained on, without END."""

    longest_target: int
    """Tokens of the longest target it was trained on, without END."""


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A model folder, opened."""

    path: Path
    model: Transformer
    tokenizers: TokenizerPair
    decoding: DecodingSettings
    facts: ModelFacts
    golden: tuple[Golden, ...]
    manifest: Mapping[str, Any]
    """What the files were checked against; a newer model may have replaced them."""
    deterministic: bool = False
    """Whether each sentence is computed alone and on one thread, by every engine."""

    @property
    def task(self) -> Translation:
        """What turns text into tokens, searches, and turns tokens into text."""
        return Translation(self.tokenizers, deterministic=self.deterministic)


@dataclass(frozen=True, kw_only=True, slots=True)
class Golden:
    """What the model made of a source when it was written."""

    source: str
    output: str
    log_probability: float


def write_model_folder(
    path: Path,
    *,
    model: Transformer,
    tokenizers: TokenizerPair,
    decoding: DecodingSettings,
    facts: ModelFacts,
    card: str,
    golden_sources: Sequence[str] = (),
) -> None:
    """Write a model folder, whole or not at all."""
    decoding = replace(decoding, num_best=1)
    with storage.new_folder(path, describe={"kind": MODEL}) as folder:
        storage.write_json(
            folder / CONFIG,
            {
                "format": FORMAT,
                **as_table(facts),
                "architecture": as_table(model.config),
            },
        )
        write_tensors(folder / WEIGHTS, model.state_dict())
        tokenizers.save(folder / TOKENIZER)
        storage.write_json(folder / GENERATION, as_table(decoding))
        golden = golden_pairs(Translation(tokenizers), model, golden_sources, decoding)
        storage.write_json(folder / GOLDEN, [as_table(each) for each in golden])
        storage.write_text(folder / CARD, card)


def open_model_folder(path: Path, *, device: torch.device | str = "cpu") -> ModelFolder:
    """Open and check a model folder; anything amiss is a ``ModelError``."""
    manifest = storage.verify(path)
    check_is_model(path, manifest)
    table = storage.read_json(path / CONFIG)
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise ModelError(
            f"{path / CONFIG} is not of format {FORMAT}, which this version reads"
        )
    architecture = table.pop("architecture", None)
    table.pop("format")
    try:
        config = read(TransformerConfig, architecture or {}, "architecture.")
        facts = read(ModelFacts, table)
        search = storage.read_json(path / GENERATION)
        decoding = read(DecodingSettings, {**BEFORE_IT_WAS_SAID, **search})
        golden = tuple(read(Golden, each) for each in storage.read_json(path / GOLDEN))
    except (SettingsError, TypeError) as error:
        raise ModelError(f"{path} cannot be used:\n{error}") from None
    weights = read_tensors(path / WEIGHTS)
    # A shape without memory: a changed config must not ask for terabytes, and nobody
    # needs to draw the weights that the file is about to give.
    with torch.device("meta"):
        model = _built(config, facts, path, weights)
    check_weights(model, weights, path / WEIGHTS)
    # A copy, as what is read here is the file itself, which others may change.
    numbers = {name: w.to(torch.float32, copy=True) for name, w in weights.items()}
    model.load_state_dict(numbers, assign=True)
    return ModelFolder(
        path=path,
        model=model.to(device).eval(),
        tokenizers=_tokenizers(path / TOKENIZER, facts),
        decoding=decoding,
        facts=facts,
        golden=golden,
        manifest=manifest,
    )


def golden_pairs(
    task: Translation,
    model: Transformer,
    sources: Sequence[str],
    decoding: DecodingSettings,
) -> list[Golden]:
    """Translate ``sources`` and note what came out."""
    was_training = model.training
    model.eval()
    found = task.search(model, task.encode(sources), decoding)
    model.train(was_training)
    best: list[Hypothesis] = [each[0] for each in found]
    return [
        Golden(
            source=source,
            output=task.decode(hypothesis),
            log_probability=hypothesis.log_probability,
        )
        for source, hypothesis in zip(sources, best, strict=True)
    ]


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


def _built(
    config: TransformerConfig,
    facts: ModelFacts,
    path: Path,
    weights: Mapping[str, Tensor],
) -> Transformer:
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


def _tokenizers(path: Path, facts: ModelFacts) -> TokenizerPair:
    tokenizers = open_tokenizers(path)
    for side, tokenizer, size in (
        ("source", tokenizers.source, facts.source_vocab_size),
        ("target", tokenizers.target, facts.target_vocab_size),
    ):
        if tokenizer.size != size:
            raise ModelError(
                f"{path} has {tokenizer.size} {side} entries, but {CONFIG} says "
                f"{size}: the parts of this folder come from different models"
            )
    return tokenizers
