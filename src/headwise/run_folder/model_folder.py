"""Model folders: a trained model on disk, with all that is needed to use it.

config.json          architecture and vocabulary sizes
model.safetensors    weights
tokenizer/           tokenizers of source and target
generation.json      default decoding settings
golden.json          golden translations: sources with outputs and scores
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
from headwise.run_folder.default_decoding import read_default_decoding
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
"""Files that must be in the manifest; the last has the SHA-256 of its neighbours."""

MAX_TOKENS = 10**7
"""Most entries of a vocabulary, or tokens of a text, that are accepted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """Entries of ``config.json`` besides the architecture."""

    source_vocab_size: int
    target_vocab_size: int
    longest_source: int
    """Tokens of the longest training source, without end of sentence."""

    longest_target: int
    """Tokens of the longest training target, without end of sentence."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be from 1 to {MAX_TOKENS:,}, not {value:,}"
            for name, value in as_table(self).items()
            if not 1 <= value <= MAX_TOKENS
        ]
        if problems:
            raise SettingsError(problems)


@dataclass(slots=True)
class LazyModel:
    """Holder of a model that is loaded on first use; copies of a folder share it."""

    model: Transformer | None = None


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """An open model folder."""

    path: Path
    config: TransformerConfig
    device: str
    """Device on which the model is loaded."""
    tokenizers: TokenizerPair
    decoding: DecodingSettings
    facts: ModelFacts
    golden: tuple[Golden, ...]
    manifest: Mapping[str, Any]
    """Manifest when the folder was opened; the files may have been replaced since."""
    deterministic: bool = False
    """Whether each sentence is computed alone, on one thread."""
    threads: int = 0
    """CPU threads of an engine without torch; 0: as many as torch."""
    weights: LazyModel = field(default_factory=LazyModel, compare=False)

    @property
    def model(self) -> Transformer:
        """The model; its weights are loaded on first use."""
        if self.weights.model is None:
            from headwise.run_folder.model_weights import check_unchanged

            sha256 = self.manifest["files"][WEIGHTS]["sha256"]
            check_unchanged(self.path / WEIGHTS, sha256)
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
    """A golden translation: output and score when the folder was written."""

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
    """Write a model folder atomically."""
    from headwise.run_folder.safetensors_files import write_tensors
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
    """Open and verify a model folder; raise ``ModelError`` if anything is wrong.

    With ``without_weights``, neither the weights nor torch are loaded before ``model``
    is used.
    """
    manifest = storage.verify(path)
    check_is_model(path, manifest)
    for name in READ:
        if name not in manifest["files"]:
            raise ModelError(
                f"the manifest of {path} does not list {name}, which therefore cannot "
                "be verified: copy the folder again"
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
        golden = tuple(read(Golden, each) for each in storage.read_json(path / GOLDEN))
    except (SettingsError, TypeError) as error:
        raise ModelError(f"{path} cannot be used:\n{error}") from None
    decoding = read_default_decoding(path)
    weights = LazyModel()
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
    """Load the weights of a folder that was just verified."""
    from headwise.run_folder.model_weights import ModelDescription, read_model

    described = ModelDescription(
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
    """Translate ``sources``; return outputs and scores."""
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
