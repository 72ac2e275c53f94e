"""Recipes: all settings of an experiment.

Settings come from, in rising priority: defaults, a preset, a recipe file, assignments
(``--set``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise.data.settings import DataSettings
from headwise.data.word_pairs import WordPairs
from headwise.decoding.settings import DecodingSettings
from headwise.errors import SettingsError
from headwise.model.config import TransformerConfig
from headwise.model.presets import PRESETS
from headwise.recipe.checks import OPTIONS, recipe_problems
from headwise.settings import (
    ABSENT,
    as_table,
    merged,
    read,
    read_toml,
    with_new_names,
    with_overrides,
)
from headwise.tasks import find_task
from headwise.tasks.captioning.settings import CaptioningSettings
from headwise.tasks.encoder_spec import PoolingSettings
from headwise.tasks.language_model.settings import LanguageModelSettings
from headwise.tasks.masked_language_model.settings import MaskingSettings
from headwise.tasks.parsing.settings import ParsingSettings
from headwise.tasks.picture_classification.settings import PictureSettings
from headwise.tasks.spec import TaskSpec
from headwise.text.settings import TextSettings
from headwise.training.settings import TrainingSettings

Table = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Every setting of an experiment; the defaults are the paper's base model."""

    task: str = "translation"
    """What is learned: translation (text into text), classification, regression,
    tagging, language_model, masked_language_model, parsing, picture_classification,
    captioning or dialogue."""

    initialize_from: tuple[str, ...] = ()
    """Model folders whose encoder, decoder or both training starts from, with their
    tokenizers and architecture; weights that they do not give are drawn. A model of the
    same task gives its search too, and divides the preset's learning rate by ten."""

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
        if problems := recipe_problems(self):
            raise SettingsError(problems)

    @property
    def options(self) -> Any:
        """The settings of the task itself; None if it has none."""
        return getattr(self, self.task) if self.task in OPTIONS else None

    @property
    def patch_size(self) -> int | None:
        """Pixels at each side of a patch; None for tasks without pictures."""
        size: int | None = getattr(self.options, "patch_size", None)
        return size


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
"""For hundreds of pairs: small batches, and frequent validation."""

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
"""For thousands of pairs: high learning rate, short warm-up, early stopping."""

HUNDRED_THOUSAND_PAIRS: Table = merged(
    SMALL_DATA,
    {"training": {"optimizer": "muon", "schedule": "linear", "patience": 20}},
)
"""For tens of thousands of pairs and more: the rate falls all the way, and patience
outlasts what validations differ by at a high rate."""

LABELLED_DATA: Table = {
    "text": {"tokenizer": "unigram", "vocab_size": 16_000},
    "training": {
        "steps": 10_000,
        "batch_tokens": 4096,
        "optimizer": "muon",
        "warmup_steps": 100,
        "learning_rate": 0.003,
        "word_dropout": 0.3,
        "ema_decay": 0.99,
        "validate_every": 50,
        "patience": 8,
        "average_last": 1,
    },
}
"""For texts with one label or number each: whole words, and much regularization."""

TAGGED_DATA: Table = merged(FEW_DATA, {"training": {"word_dropout": 0.1}})
"""For words with a tag each: much dropout, and a vocabulary that splits rare words."""

SINGLE_WORDS: Table = {
    "text": {
        "tokenizer": "characters",
        "joint": False,
        "vocab_size": 2000,
        "normalization": "none",
    },
    "training": {
        "steps": 10_000,
        "batch_tokens": 1024,
        "schedule": "constant",
        "optimizer": "muon",
        "warmup_steps": 100,
        "learning_rate": 0.005,
        "validate_every": 100,
        "measure": "word-error-rate",
        "patience": 4,
        "on_plateau": "cooldown",
        "average_last": 1,
    },
}
"""For single words: characters, and the rate falls once they bring no more gain."""

PLAIN_TEXT: Table = {
    "text": {"tokenizer": "unigram", "vocab_size": 4000},
    "training": {
        "steps": 10_000,
        "batch_tokens": 2048,
        "schedule": "constant",
        "optimizer": "muon",
        "warmup_steps": 100,
        "learning_rate": 0.01,
        "clip_norm": 1.0,
        "validate_every": 100,
        "patience": 4,
        "on_plateau": "cooldown",
        "average_last": 1,
    },
}
"""For text without a second side: the rate falls once more of it brings no gain."""

SHORT_WINDOWS = merged(
    PLAIN_TEXT, {"data": {"max_tokens": 64}, "training": {"batch_tokens": 4096}}
)
"""For masked words, whose neighbours say the most of them."""

TREES: Table = {
    "text": {"vocab_size": 4000},
    "training": {
        "steps": 10_000,
        "batch_tokens": 2048,
        "schedule": "constant",
        "optimizer": "muon",
        "warmup_steps": 100,
        "learning_rate": 0.005,
        "validate_every": 200,
        "patience": 4,
        "on_plateau": "cooldown",
        "average_last": 1,
    },
}
"""For sentences with a tree each: the rate falls once more brings no gain."""

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
    "classifier": LABELLED_DATA,
    "tagger": TAGGED_DATA,
    "language-model": PLAIN_TEXT,
    "masked-language-model": SHORT_WINDOWS,
    "parser": TREES,
    "g2p": merged(SINGLE_WORDS, {"text": {"target_tokenizer": "spaces"}}),
    "transducer": SINGLE_WORDS,
    "tiny": SMALL_DATA,
    "tiny-low-dropout": HUNDRED_THOUSAND_PAIRS,
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


PRESETS_OF_TASKS = {
    "classification": "classifier",
    "regression": "classifier",
    "tagging": "tagger",
    "language_model": "language-model",
    "masked_language_model": "masked-language-model",
    "parsing": "parser",
}
"""Task -> its preset up to ``FEWEST_FOR_SMALL`` texts."""

PRESETS_OF_WORDS: dict[WordPairs, str] = {"symbols": "g2p", "characters": "transducer"}
"""What single words are translated into -> the preset for up to as many."""

FEWEST_FOR_SMALL = 200_000

FEWEST_FOR_TINY = {"translation": 3000}
"""Task -> pairs from which the preset tiny is better than micro, where it was measured;
of other tasks ``FEWEST_OF_OTHERS``."""

FEWEST_OF_OTHERS = 10_000

FEWEST_FOR_LOW_DROPOUT = {"translation": 50_000}
"""Task -> pairs from which ``tiny`` is better with less dropout, where it was measured:
so many are not read often enough to be overfitted."""


def preset_for(
    num_pairs: int, task: str = "translation", words: WordPairs | None = None
) -> str:
    """Return a preset for a corpus of so many pairs, which may be of single words."""
    if num_pairs < FEWEST_FOR_SMALL:
        if task in PRESETS_OF_TASKS:
            return PRESETS_OF_TASKS[task]
        if task == "translation" and words is not None:
            return PRESETS_OF_WORDS[words]
    if num_pairs < FEWEST_FOR_TINY.get(task, FEWEST_OF_OTHERS):
        return "micro"
    if num_pairs < FEWEST_FOR_LOW_DROPOUT.get(task, FEWEST_FOR_SMALL):
        return "tiny"
    if num_pairs < FEWEST_FOR_SMALL:
        return "tiny-low-dropout"
    return "small" if num_pairs < 2_000_000 else "base"


def words_of(text: Mapping[str, Any]) -> WordPairs | None:
    """Return which single words a prepared corpus is for, by its tokenizers."""
    kind = text["tokenizer"], text["joint"], text["normalization"]
    if kind != ("characters", False, "none"):
        return None
    return "symbols" if text.get("target_tokenizer") == "spaces" else "characters"


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
    below = merged(
        {} if chosen is None else preset_table(chosen),
        _defaults_of(task, settings.get("model")),
    )
    if task.options is not None:
        below = merged(below, {task.name: as_table(task.options())})
    below = merged(below, pretrained or {})
    training = settings.get("training")
    if isinstance(training, dict) and training.get("epochs", ABSENT) != ABSENT:
        training.setdefault("steps", ABSENT)
    return read(Recipe, merged(below, settings))


def _defaults_of(task: TaskSpec, model: Any) -> Mapping[str, Any]:
    """Return the defaults of a task; models of other kinds have no rotary positions."""
    kind = model.get("kind") if isinstance(model, dict) else None
    if kind in (None, "transformer"):
        return task.defaults
    own = task.defaults.get("model", {})
    others = {name: value for name, value in own.items() if name != "positions"}
    return {**task.defaults, "model": others}
