"""Model folders: a trained model on disk, with all that is needed to use it.

config.json          task, its settings, architecture and vocabulary sizes
model.safetensors    weights
tokenizer/           tokenizers of source and target
generation.json      default decoding settings, if the task searches
golden.json          golden outputs: sources with outputs and log-probabilities
README.md            the card: data, scores with signatures, limits
manifest.json        sizes, SHA-256
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise import storage
from headwise.data.pair_formats import DOCUMENTS
from headwise.decoding.settings import DecodingSettings
from headwise.errors import ModelError, SettingsError
from headwise.evaluation_mode import evaluation_mode
from headwise.model.config import TransformerConfig
from headwise.run_folder.default_decoding import read_default_decoding
from headwise.run_folder.installed_models import CARD
from headwise.run_folder.paths import CONFIG, GENERATION, MODEL, WEIGHTS, check_is_model
from headwise.settings import as_table, read
from headwise.tasks import TASKS, find_task, read_options
from headwise.tasks.description import ModelDescription
from headwise.tasks.translation.text_codec import TextCodec
from headwise.text.tokenizer import DESCRIPTION, TokenizerPair, open_tokenizers

if TYPE_CHECKING:
    import torch

    from headwise.model.sequence_model import SequenceModel
    from headwise.tasks.task import Task
    from headwise.tasks.translation.task import Translation

TOKENIZER = "tokenizer"
GOLDEN = "golden.json"
FORMAT = 1
READ = (CONFIG, WEIGHTS, GOLDEN, f"{TOKENIZER}/{DESCRIPTION}")
"""Files that must be in the manifest; the last has the SHA-256 of its neighbours."""

MAX_TOKENS = 10**7
"""Most entries of a vocabulary, or tokens of a text, that are accepted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """Entries of ``config.json`` besides the architecture and the task."""

    source_vocab_size: int
    target_vocab_size: int
    longest_source: int
    """Tokens of the longest training source, without end of sentence; 0 for text alone,
    which has no source."""

    longest_target: int
    """Tokens of the longest training target, without end of sentence."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be from {least} to {MAX_TOKENS:,}, not {value:,}"
            for name, value in as_table(self).items()
            if not (least := int(name != "longest_source")) <= value <= MAX_TOKENS
        ]
        if problems:
            raise SettingsError(problems)


@dataclass(slots=True)
class LazyModel:
    """Holder of a model that is loaded on first use; copies of a folder share it."""

    model: SequenceModel | None = None


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """An open model folder."""

    path: Path
    """As its user spelled it."""
    location: Path
    """The same, absolute, for what is read later: the working directory may change."""
    description: ModelDescription
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
    def config(self) -> TransformerConfig:
        """The architecture."""
        return self.description.config

    @property
    def task_name(self) -> str:
        """Name of the task in ``TASKS``."""
        return self.description.task

    @property
    def model(self) -> Any:
        """The model that its task makes; its weights are loaded on first use."""
        if self.weights.model is None:
            from headwise.run_folder.weight_file import check_unchanged

            sha256 = self.manifest["files"][WEIGHTS]["sha256"]
            check_unchanged(self.location / WEIGHTS, sha256)
            self.weights.model = _read_model(
                self.location, self.description, self.device
            )
        return self.weights.model

    @property
    def texts(self) -> TextCodec:
        """What turns text into tokens and back, without the model."""
        return TextCodec(self.tokenizers)

    @property
    def task(self) -> Translation:
        """The translation task: what searches, and turns tokens into text.

        Raises ``ModelError`` for the model of another task.
        """
        from headwise.tasks.translation.task import Translation

        if self.task_name != Translation.name:
            raise ModelError(
                f"{self.path} is a model of {self.task_name}, not of "
                f"{Translation.name}; use headwise predict, or predict() from Python"
            )
        return Translation(self.tokenizers, deterministic=self.deterministic)

    @property
    def any_task(self) -> Task:
        """The task of the model, whichever it is."""
        return TASKS[self.task_name].open(
            self.tokenizers,
            self.description.options,
            deterministic=self.deterministic,
            max_tokens=max(self.facts.longest_source, self.facts.longest_target),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Golden:
    """A golden output: output and score when the folder was written."""

    source: str
    output: str
    log_probability: float
    """0 where the task gives outputs no probability."""


def write_model_folder(
    path: Path,
    *,
    model: SequenceModel,
    task: Task,
    decoding: DecodingSettings,
    facts: ModelFacts,
    card: str,
    golden_sources: Sequence[str] = (),
) -> None:
    """Write a model folder atomically."""
    from headwise.run_folder.safetensors_files import write_tensors

    decoding = replace(decoding, num_best=1)
    with storage.new_folder(path, describe={"kind": MODEL}) as folder:
        storage.write_json(
            folder / CONFIG,
            {
                "format": FORMAT,
                **_task_table(task.describe(model.config)),
                **as_table(facts),
                "architecture": as_table(model.config),
            },
        )
        write_tensors(folder / WEIGHTS, model.state_dict())
        task.tokenizers.save(folder / TOKENIZER)
        if TASKS[task.name].searches:
            storage.write_json(folder / GENERATION, as_table(decoding))
        golden = golden_pairs(task, model, golden_sources, decoding)
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
            raise _not_listed(path, name)
    table = storage.read_json(path / CONFIG)
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise ModelError(
            f"{path / CONFIG} is not of format {FORMAT}, which this version reads"
        )
    architecture = table.pop("architecture", None)
    table.pop("format")
    task_name, options = table.pop("task", "translation"), table.pop("options", {})
    try:
        task = find_task(task_name)
        config = read(TransformerConfig, architecture or {}, "architecture.")
        facts = read(ModelFacts, table)
        if not facts.longest_source and task.pair_format is not DOCUMENTS:
            raise SettingsError([f"longest_source must be 1 or more for {task.name}"])
        description = ModelDescription(
            task=task.name,
            config=config,
            source_vocab_size=facts.source_vocab_size,
            target_vocab_size=facts.target_vocab_size,
            options=read_options(task, options),
        )
        golden = tuple(read(Golden, each) for each in storage.read_json(path / GOLDEN))
    except (SettingsError, TypeError) as error:
        raise ModelError(f"{path} cannot be used:\n{error}") from None
    if task.searches and GENERATION not in manifest["files"]:
        raise _not_listed(path, GENERATION)
    decoding = read_default_decoding(path) if task.searches else DecodingSettings()
    weights = LazyModel()
    if not without_weights:
        weights.model = _read_model(path, description, str(device))
    return ModelFolder(
        path=path,
        location=path.absolute(),
        description=description,
        device=str(device),
        tokenizers=_tokenizers(path / TOKENIZER, facts),
        decoding=decoding,
        facts=facts,
        golden=golden,
        manifest=manifest,
        weights=weights,
    )


def _read_model(
    path: Path, description: ModelDescription, device: str
) -> SequenceModel:
    """Load the weights of a folder that was just verified."""
    from headwise.run_folder.model_weights import read_model

    return read_model(path / WEIGHTS, description, device)


def _not_listed(path: Path, name: str) -> ModelError:
    return ModelError(
        f"the manifest of {path} does not list {name}, which therefore cannot be "
        "verified: copy the folder again"
    )


def _task_table(description: ModelDescription) -> dict[str, Any]:
    """Return what ``config.json`` says of the task: nothing for translation."""
    if description.task == "translation":  # older than tasks
        return {}
    table: dict[str, Any] = {"task": description.task}
    if description.options is not None:
        table["options"] = as_table(description.options)
    return table


def golden_pairs(
    task: Task,
    model: SequenceModel,
    sources: Sequence[str],
    decoding: DecodingSettings,
) -> list[Golden]:
    """Return the outputs for ``sources``, with their log-probabilities."""
    with evaluation_mode(model):
        found = task.predictions(model, sources, decoding)
    return [
        Golden(
            source=source,
            output=each.output,
            log_probability=each.log_probability or 0.0,
        )
        for source, each in zip(sources, found, strict=True)
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
