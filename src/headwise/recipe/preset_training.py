"""Text and training settings of presets, and which preset a corpus is trained with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwise.data.word_pairs import WordPairs
from headwise.errors import SettingsError
from headwise.model.presets import PRESETS
from headwise.settings import ABSENT, as_table, merged
from headwise.training.settings import FALLING_SCHEDULES

Table = dict[str, Any]


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
"""For hundreds of examples: small batches, and frequent validation."""

FEW_PAIRS: Table = merged(
    FEW_DATA, {"training": {"weight_decay": 0.3, "on_plateau": "cooldown"}}
)
"""For hundreds of pairs: weight decay, and the rate falls after a plateau."""

SMALL_DATA: Table = {
    "text": {"vocab_size": 8000},
    "training": {
        "steps": 20_000,
        "batch_tokens": 2048,
        "warmup_steps": 300,
        "learning_rate": 0.003,
        "weight_decay": 0.3,
        "validate_every": 250,
        "patience": 12,
        "on_plateau": "cooldown",
        "average_last": 8,
    },
}
"""For thousands of pairs: high learning rate, short warm-up, weight decay, and the rate
falls once patience is exhausted."""

HUNDRED_THOUSAND_PAIRS: Table = merged(
    SMALL_DATA,
    {
        "training": {
            "optimizer": "muon",
            "schedule": "linear",
            "patience": 20,
            "on_plateau": "stop",
        }
    },
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

UNTIL_A_PLATEAU: Table = {
    "training": {
        "steps": 10_000,
        "schedule": "constant",
        "optimizer": "muon",
        "warmup_steps": 100,
        "patience": 4,
        "on_plateau": "cooldown",
        "average_last": 1,
    }
}
"""The rate is constant, and falls once more training brings no gain."""

SINGLE_WORDS: Table = merged(
    UNTIL_A_PLATEAU,
    {
        "text": {
            "tokenizer": "characters",
            "joint": False,
            "vocab_size": 2000,
            "normalization": "none",
        },
        "training": {
            "batch_tokens": 1024,
            "learning_rate": 0.005,
            "validate_every": 100,
            "measure": "word-error-rate",
        },
    },
)
"""For single words, read as characters."""

PLAIN_TEXT: Table = merged(
    UNTIL_A_PLATEAU,
    {
        "text": {"tokenizer": "unigram", "vocab_size": 4000},
        "training": {
            "batch_tokens": 2048,
            "learning_rate": 0.01,
            "clip_norm": 1.0,
            "validate_every": 100,
        },
    },
)
"""For text without a second side."""

SHORT_WINDOWS = merged(
    PLAIN_TEXT, {"data": {"max_tokens": 64}, "training": {"batch_tokens": 4096}}
)
"""For masked words, whose neighbours say the most of them."""

TREES: Table = merged(
    UNTIL_A_PLATEAU,
    {
        "text": {"vocab_size": 4000},
        "training": {
            "batch_tokens": 2048,
            "learning_rate": 0.005,
            "validate_every": 200,
        },
    },
)
"""For sentences with a tree each."""

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
    "micro": FEW_PAIRS,
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


def without_excluded(preset: Table, training: Any) -> Table:
    """Return the settings of a preset without those that given settings exclude.

    A schedule that falls to 0 by itself, no patience and no cooldown exclude the
    cooldown that a plateau begins. ``training`` are the given settings of training.
    """
    if not isinstance(training, Mapping):
        return preset
    excludes = (
        training.get("schedule") in FALLING_SCHEDULES
        or training.get("patience") == ABSENT
        or training.get("cooldown") == 0
    )
    own = preset.get("training", {})
    left = {name: each for name, each in own.items() if name != "on_plateau"}
    return {**preset, "training": left} if excludes else preset
