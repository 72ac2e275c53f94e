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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise import storage
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.errors import ModelError, SettingsError
from headwise.model.config import TransformerConfig
from headwise.run_folder.paths import CONFIG, GENERATION, MODEL, check_is_model
from headwise.settings import as_table, read
from headwise.tasks.translation.text_codec import TextCodec
from headwise.text.tokenizer import DESCRIPTION, TokenizerPair, open_tokenizers

if TYPE_CHECKING:
    import torch

    from headwise.model.transformer import Transformer
    from headwise.tasks.translation.task import Translation

WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer"
GOLDEN = "golden.json"
CARD = "README.md"
FORMAT = 1
READ = (CONFIG, WEIGHTS, GENERATION, GOLDEN, f"{TOKENIZER}/{DESCRIPTION}")
"""What is read of every model folder; the last has the SHA-256 of its neighbours."""

MOST_TOKENS = 10**7
"""Of a vocabulary or a text: more would be a mistake in a file."""

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

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be from 1 to {MOST_TOKENS:,}, not {value:,}"
            for name, value in as_table(self).items()
            if not 1 <= value <= MOST_TOKENS
        ]
        if problems:
            raise SettingsError(problems)


@dataclass(slots=True)
class Weights:
    """The model of a folder, once it was read; its changed copies share it."""

    model: Transformer | None = None


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A model folder, opened."""

    path: Path
    config: TransformerConfig
    device: str
    """Where the model is put; it may be moved from there later."""
    tokenizers: TokenizerPair
    decoding: DecodingSettings
    facts: ModelFacts
    golden: tuple[Golden, ...]
    manifest: Mapping[str, Any]
    """What the files were checked against; a newer model may have replaced them."""
    deterministic: bool = False
    """Whether each sentence is computed alone and on one thread, by every engine."""
    threads: int = 0
    """Processor threads that an engine without torch may use; 0: as many as torch."""
    weights: Weights = field(default_factory=Weights, compare=False)

    @property
    def model(self) -> Transformer:
        """The model; its weights are read now if they were not before."""
        if self.weights.model is None:
            from headwise.run_folder.model_weights import check_unchanged

            described = self.manifest["files"][WEIGHTS]
            check_unchanged(self.path / WEIGHTS, described["sha256"])
            model = _read_model(self.path, self.config, self.facts, self.device)
            self.weights.model = model
        return self.weights.model

    @property
    def texts(self) -> TextCodec:
        """What turns text into tokens and back, without the model."""
        return TextCodec(self.tokenizers)

    @property
    def task(self) -> Translation:
        """What turns text into tokens, searches, and turns tokens into text."""
        from headwise.tasks.translation.task import Translation

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
    from headwise.run_folder.tensors import write_tensors
    from headwise.tasks.translation.task import Translation

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


def open_model_folder(
    path: Path, *, device: torch.device | str = "cpu", without_weights: bool = False
) -> ModelFolder:
    """Open and check a model folder; anything amiss is a ``ModelError``.

    ``without_weights`` leaves them on disk, and torch out of this process, until
    ``model`` is asked for.
    """
    manifest = storage.verify(path)
    check_is_model(path, manifest)
    for name in READ:
        if name not in manifest["files"]:
            raise ModelError(
                f"the manifest of {path} does not list {name}, which could then be "
                "anybody's: copy the folder again"
            )
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
    weights = Weights()
    if not without_weights:
        weights.model = _read_model(path, config, facts, str(device))
    return ModelFolder(
        path=path,
        config=config,
        device=str(device),
        tokenizers=_tokenizers(path / TOKENIZER, facts),
        decoding=decoding,
        facts=facts,
        golden=golden,
        manifest=manifest,
        weights=weights,
    )


def _read_model(
    path: Path, config: TransformerConfig, facts: ModelFacts, device: str
) -> Transformer:
    """Read the weights of a folder that was just checked."""
    from headwise.run_folder.model_weights import Described, read_model

    described = Described(
        config=config,
        source_vocab_size=facts.source_vocab_size,
        target_vocab_size=facts.target_vocab_size,
    )
    return read_model(path / WEIGHTS, described, device)


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
