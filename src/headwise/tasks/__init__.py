"""Each use of the model, bound together: data, model, loss, search and metrics.

A task is opened when it is asked for: turning text into tokens needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwise.errors import SettingsError
from headwise.model.config import TransformerConfig
from headwise.settings import as_table, read
from headwise.tasks.captioning.spec import CaptioningSpec
from headwise.tasks.classification.spec import ClassificationSpec
from headwise.tasks.description import ModelDescription
from headwise.tasks.dialogue.spec import DialogueSpec
from headwise.tasks.language_model.spec import LanguageModelSpec
from headwise.tasks.masked_language_model.spec import MaskedLanguageModelSpec
from headwise.tasks.parsing.spec import ParsingSpec
from headwise.tasks.picture_classification.spec import PictureClassificationSpec
from headwise.tasks.regression.spec import RegressionSpec
from headwise.tasks.spec import TaskSpec
from headwise.tasks.tagging.spec import TaggingSpec
from headwise.tasks.translation.spec import TranslationSpec

_ALL: tuple[TaskSpec, ...] = (
    TranslationSpec(),
    ClassificationSpec(),
    RegressionSpec(),
    TaggingSpec(),
    LanguageModelSpec(),
    MaskedLanguageModelSpec(),
    ParsingSpec(),
    PictureClassificationSpec(),
    CaptioningSpec(),
    DialogueSpec(),
)

TASKS: dict[str, TaskSpec] = {each.name: each for each in _ALL}
"""Every task by its name."""

MEASURES = tuple(dict.fromkeys(name for each in _ALL for name in each.measures))
"""Metrics of all tasks, which ``training.measure`` may name besides the loss."""


def task_of_format(pair_format: str) -> str:
    """Return the name of the first task that learns from such pairs."""
    return next(
        name for name, each in TASKS.items() if each.pair_format.name == pair_format
    )


def description_table(description: ModelDescription) -> dict[str, Any]:
    """Return a description as a table for JSON: see :func:`read_description`."""
    options = description.options
    return {
        "task": description.task,
        "config": as_table(description.config),
        "source_vocab_size": description.source_vocab_size,
        "target_vocab_size": description.target_vocab_size,
        "options": {} if options is None else as_table(options),
    }


def read_description(table: Mapping[str, Any]) -> ModelDescription:
    """Read what :func:`description_table` made.

    Raises ``SettingsError`` for an unknown task, and for settings that are refused.
    """
    return ModelDescription(
        task=table["task"],
        config=read(TransformerConfig, table["config"], "architecture."),
        source_vocab_size=table["source_vocab_size"],
        target_vocab_size=table["target_vocab_size"],
        options=read_options(find_task(table["task"]), table["options"]),
    )


def read_options(task: TaskSpec, table: Mapping[str, Any]) -> Any:
    """Read the settings of a task; None if it has none of its own."""
    kind = task.options
    if kind is None and not table:
        return None
    return read(kind or NoOptions, table, f"{task.name}.")


@dataclass(frozen=True)
class NoOptions:
    """The settings of a task that has none."""


def find_task(name: object) -> TaskSpec:
    """Return the task called ``name``; raise ``SettingsError`` if there is none."""
    if not isinstance(name, str) or name not in TASKS:
        raise SettingsError([f"task must be one of {', '.join(TASKS)}, not {name!r}"])
    return TASKS[name]
