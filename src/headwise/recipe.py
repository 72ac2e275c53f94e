"""Recipes: all settings of an experiment.

Settings come from, in rising priority: defaults, a preset, a recipe file, assignments
(``--set``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise.data.pair_formats import DOCUMENTS, TEXT_PAIRS
from headwise.data.settings import DataSettings
from headwise.data.source_noise import CHANGEABLE
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.errors import SettingsError
from headwise.model.config import TransformerConfig
from headwise.model.presets import PRESETS
from headwise.settings import (
    ABSENT,
    as_table,
    merged,
    read,
    read_toml,
    with_new_names,
    with_overrides,
)
from headwise.tasks import TASKS, find_task
from headwise.tasks.captioning.settings import CaptioningSettings
from headwise.tasks.encoder_spec import PoolingSettings
from headwise.tasks.language_model.settings import LanguageModelSettings
from headwise.tasks.masked_language_model.settings import MaskingSettings
from headwise.tasks.parsing.settings import ParsingSettings
from headwise.tasks.picture_classification.settings import PictureSettings
from headwise.text.settings import TextSettings
from headwise.training.settings import TrainingSettings

Table = dict[str, Any]

LICENSE = r"[A-Za-z0-9][A-Za-z0-9.+-]*"
"""Pattern of SPDX identifiers, the names of licences on model hubs."""

LANGUAGE = (
    r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?"
    r"(-([a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
)
"""Pattern of BCP 47 tags: language, script, region and variants."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Every setting of an experiment; the defaults are the paper's base model."""

    task: str = "translation"
    """What is learned: translation (text into text), classification, regression,
    tagging, language_model, masked_language_model, parsing, picture_classification,
    captioning or dialogue."""

    initialize_from: tuple[str, ...] = ()
    """Model folders whose encoder, decoder or both training starts from, with their
    tokenizers and architecture; weights that they do not give are drawn."""

    seed: int = 1
    """Random seed: 0 or more, below 2 to the power of 63."""

    must_export_to: tuple[str, ...] = ()
    """Export formats that the model must support, such as "ctranslate2" and
    "huggingface"; settings that one of them cannot express are refused."""

    languages: tuple[str, ...] = ()
    """Languages for the model card, as BCP 47 tags such as "en" and "pt-BR"; not set:
    the suffixes of the corpus files, if they are ISO 639 codes."""

    license: str | None = None
    """Licence for the model card, as SPDX identifier such as "cc-by-4.0", or "other";
    not set: unknown."""

    data: DataSettings = field(default_factory=DataSettings)
    text: TextSettings = field(default_factory=TextSettings)
    model: TransformerConfig = field(default_factory=TransformerConfig)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    decoding: DecodingSettings = field(default_factory=DecodingSettings)

    classification: PoolingSettings | None = None
    """Settings of the task of this name; not set for others."""

    captioning: CaptioningSettings | None = None
    """Settings of the task of this name; not set for others."""

    dialogue: LanguageModelSettings | None = None
    """Settings of the task of this name; not set for others."""

    parsing: ParsingSettings | None = None
    """Settings of the task of this name; not set for others."""

    picture_classification: PictureSettings | None = None
    """Settings of the task of this name; not set for others."""

    regression: PoolingSettings | None = None
    """Settings of the task of this name; not set for others."""

    language_model: LanguageModelSettings | None = None
    """Settings of the task of this name; not set for others."""

    masked_language_model: MaskingSettings | None = None
    """Settings of the task of this name; not set for others."""

    def __post_init__(self) -> None:
        task = find_task(self.task)
        problems = []
        if not 0 <= self.seed < 2**63:
            problems.append(f"seed must be from 0 to {2**63 - 1}, not {self.seed}")
        problems += task.problems(self.model, self.text)
        problems += [
            f"{name} has settings of another task than {self.task!r}; leave them out"
            for name in OPTIONS
            if name != self.task and getattr(self, name) is not None
        ]
        if self.training.measure not in ("loss", *task.measures):
            problems.append(
                f"training.measure must be one of loss, {', '.join(task.measures)} for "
                f"task = {self.task!r}, not {self.training.measure!r}"
            )
        if self.training.backend == "torch_compile" and self.task != "translation":
            problems.append(
                "training.backend = 'torch_compile' is for task = 'translation', not "
                f"{self.task!r}; 'auto' and 'torch' train every model"
            )
        problems += self._only_for_transformers()
        problems += self._problems_of_drawn_texts()
        reads_pictures = task.pair_format.reads_pictures
        has_source_text = not reads_pictures and "encoder" in task.stacks
        has_source_text = has_source_text and task.pair_format is not DOCUMENTS
        if self.training.word_dropout and not has_source_text:
            problems.append(
                "training.word_dropout is for tasks that have a source text; "
                f"{self.task!r} has none: leave it out"
            )
        if (self.text.source_kind == "patches") != reads_pictures:
            wanted = "" if reads_pictures else "another than "
            problems.append(
                f"text.tokenizer must be {wanted}'patches' for task = {self.task!r}, "
                f"not {self.text.source_kind!r}"
            )
        if not reads_pictures:
            problems += [
                f"data: {each.source} has format = 'pictures', which is not for task = "
                f"{self.task!r}"
                for each in (*self.data.corpora, self.data.dev)
                if each is not None and each.layout == "pictures"
            ]
        problems += card_problems(self.languages, self.license)
        what, longest = "a text", self.data.max_tokens + 1
        if task.searches:
            problems += [
                f"decoding.{each}"
                for each in self.decoding.head_problems(
                    *self.model.cross_attention_shape
                )
            ]
            what = "the translation of a source"
            longest = max(
                search.max_length(self.data.max_tokens)
                for search in (greedy(), self.decoding)
            )
        if self.model.positions == "learned" and self.model.max_positions < longest:
            problems.append(
                f"model.max_positions must be at least {longest}, not "
                f"{self.model.max_positions}: {what} of "
                f"data.max_tokens={self.data.max_tokens} may be that long, which is "
                "beyond the learned positions"
            )
        if problems:
            raise SettingsError(problems)

    def _only_for_transformers(self) -> list[str]:
        """Return problems of training settings that other kinds of models lack."""
        of_transformers = {
            "backend = 'native'": self.training.backend == "native",
            "backend = 'torch_compile'": self.training.backend == "torch_compile",
            "activation_checkpointing = true": self.training.activation_checkpointing,
            "devices = 'shard'": self.training.devices == "shard",
        }
        return [
            f"training.{name} is for model.kind = 'transformer', not "
            f"{self.model.kind!r}; leave it out"
            for name, is_set in of_transformers.items()
            if is_set and self.model.kind != "transformer"
        ]

    def _problems_of_drawn_texts(self) -> list[str]:
        """Return problems of settings that draw other texts in each epoch."""
        training, text = self.training, self.text
        set_names = {
            "bpe_dropout": training.bpe_dropout > 0,
            "unigram_alpha": training.unigram_alpha is not None,
            "source_noise": training.source_noise.is_active,
        }
        used = [name for name, is_set in set_names.items() if is_set]
        able = [name for name, task in TASKS.items() if task.pair_format in TEXT_PAIRS]
        if self.task not in able:
            return [
                f"training.{name} is for task = {', '.join(map(repr, able))}, whose "
                f"pairs are texts; {self.task!r} needs the segmentation that it was "
                "prepared with: leave it out"
                for name in used
            ]
        kinds = {"source": text.source_kind, "target": text.target_kind}
        if training.sampled_sides != "both":
            kinds = {training.sampled_sides: kinds[training.sampled_sides]}
        there = " and ".join(f"{kind!r} for the {side}" for side, kind in kinds.items())
        problems = [
            f"training.{name} samples a tokenizer of kind {kind!r}; there is {there}: "
            f"leave it out, or prepare the text with text.tokenizer = {kind!r}"
            for name, kind in (("bpe_dropout", "bpe"), ("unigram_alpha", "unigram"))
            if name in used and kind not in kinds.values()
        ]
        if "source_noise" in used and text.source_kind not in CHANGEABLE:
            problems.append(
                f"training.source_noise needs text.tokenizer = "
                f"{', '.join(map(repr, CHANGEABLE))}, not {text.source_kind!r}, of "
                "which a changed word is another word"
            )
        return problems

    @property
    def options(self) -> Any:
        """The settings of the task itself; None if it has none."""
        return getattr(self, self.task) if self.task in OPTIONS else None

    @property
    def patch_size(self) -> int | None:
        """Pixels at each side of a patch; None for tasks without pictures."""
        size: int | None = getattr(self.options, "patch_size", None)
        return size


OPTIONS = tuple(name for name, task in TASKS.items() if task.options is not None)
"""Tables of a recipe that are the settings of one task."""


def card_problems(languages: Iterable[str], license: str | None) -> list[str]:
    """Return problems of languages and licence of a model card."""
    problems = [
        f"languages must be tags such as 'en' or 'pt-BR', not {each!r}"
        for each in languages
        if not re.fullmatch(LANGUAGE, each)
    ]
    if license is not None and not re.fullmatch(LICENSE, license):
        problems.append(
            "license must be an SPDX identifier, such as 'cc-by-4.0', 'mit' or "
            f"'other', not {license!r}"
        )
    return problems


FEW_DATA: Table = {
    "text": {"vocab_size": 2000},
    "training": {
        "steps": 10_000,
        "batch_tokens": 1024,
        "warmup_steps": 200,
        "learning_rate": 0.003,
        "validate_every": 100,
        "patience": 12,
        "average_last": 5,
    },
}
"""For thousands of pairs: small batches, and frequent validation."""

SMALL_DATA: Table = {
    "text": {"vocab_size": 8000},
    "training": {
        "steps": 20_000,
        "batch_tokens": 2048,
        "warmup_steps": 300,
        "learning_rate": 0.003,
        "validate_every": 250,
        "patience": 12,
        "average_last": 8,
    },
}
"""For tens of thousands of pairs: high learning rate, short warm-up, early stopping."""

MIDDLE_DATA: Table = {
    "text": {"vocab_size": 16_000},
    "training": {
        "steps": 100_000,
        "batch_tokens": 8192,
        "warmup_steps": 4000,
        "learning_rate": 0.001,
        "validate_every": 1000,
        "patience": 12,
        "average_last": 8,
    },
}

PAPER_TRAINING: Table = {"text": {"vocab_size": 37_000}}
"""Section 5: the defaults, with the joint vocabulary of Section 5.1."""

PRESET_TRAINING: dict[str, Table] = {
    "micro": FEW_DATA,
    "tiny": SMALL_DATA,
    "small": MIDDLE_DATA,
    "student": MIDDLE_DATA,
}
"""Training settings of presets; all others use those of the paper."""


def preset_table(name: str) -> Table:
    """Return the settings of a preset: architecture and training."""
    if not isinstance(name, str) or name not in PRESETS:
        raise SettingsError(
            [f"{name!r} is not a preset; choose from {', '.join(sorted(PRESETS))}"]
        )
    preset = PRESETS[name]
    table = merged(
        PRESET_TRAINING.get(name, PAPER_TRAINING),
        {
            "model": as_table(preset.config),
            "training": {"label_smoothing": preset.label_smoothing},
        },
    )
    if name == "big":
        table = merged(
            table, {"training": {"steps": 300_000, "average_last": 20}}
        )  # Sections 5.2 and 6.1
    return table


def preset_for(num_pairs: int) -> str:
    """Return a preset for a corpus of so many pairs."""
    if num_pairs < 10_000:
        return "micro"
    if num_pairs < 200_000:
        return "tiny"
    return "small" if num_pairs < 2_000_000 else "base"


def resolve(
    *,
    preset: str | None = None,
    file: Path | None = None,
    assignments: Iterable[str] = (),
    extra: Mapping[str, Any] | None = None,
    pretrained: Mapping[str, Any] | None = None,
    on_message: Callable[[str], None] = lambda text: None,
) -> Recipe:
    """Build a recipe; raise ``SettingsError`` with all problems.

    A recipe file may name its preset (``preset = "tiny"``). ``extra`` has settings from
    other command-line options; its priority is between file and assignments.
    ``pretrained`` has those of models that training starts from; its priority is
    between task and file. If epochs
    are given without steps, the steps of the preset do not apply. ``on_message`` is
    told what the settings that were given by old names are called now.
    """
    from_file = read_toml(file) if file is not None else {}
    named = from_file.pop("preset", None)
    chosen = named if preset is None else preset
    settings = with_overrides(merged(from_file, extra or {}), assignments)
    for message in with_new_names(Recipe, settings)[1]:
        on_message(message)
    task = find_task(settings.get("task", "translation"))
    below = merged({} if chosen is None else preset_table(chosen), task.defaults)
    if task.options is not None:
        below = merged(below, {task.name: as_table(task.options())})
    below = merged(below, pretrained or {})
    training = settings.get("training")
    if isinstance(training, dict) and training.get("epochs", ABSENT) != ABSENT:
        training.setdefault("steps", ABSENT)
    return read(Recipe, merged(below, settings))
