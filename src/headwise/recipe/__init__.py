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
from headwise.decoding.settings import DecodingSettings
from headwise.errors import SettingsError
from headwise.model.config import TransformerConfig
from headwise.recipe.checks import OPTIONS, recipe_problems
from headwise.recipe.preset_training import preset_table, without_excluded
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


def resolve(
    *,
    preset: str | None = None,
    file: Path | Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
    extra: Mapping[str, Any] | None = None,
    pretrained: Mapping[str, Any] | None = None,
    on_message: Callable[[str], None] = lambda text: None,
) -> Recipe:
    """Build a recipe; raise ``SettingsError`` with all problems.

    ``file`` is a recipe file, or the table of one that was read, and may name its
    preset (``preset = "tiny"``). ``extra`` has settings from
    other command-line options; its priority is between file and assignments.
    ``pretrained`` has those of models that training starts from; its priority is
    between task and file. If epochs are given without steps, the steps of the preset do
    not apply; nor does the cooldown at its plateau where given settings exclude one.
    ``on_message`` is told what the settings that were given by old names are called
    now.
    """
    from_file = read_toml(file) if isinstance(file, Path) else dict(file or {})
    named = from_file.pop("preset", None)
    chosen = named if preset is None else preset
    settings = with_overrides(merged(from_file, extra or {}), assignments)
    for message in with_new_names(Recipe, settings)[1]:
        on_message(message)
    task = find_task(settings.get("task", "translation"))
    training = settings.get("training")
    below = merged(
        {} if chosen is None else without_excluded(preset_table(chosen), training),
        _defaults_of(task, settings.get("model")),
    )
    if task.options is not None:
        below = merged(below, {task.name: as_table(task.options())})
    below = merged(below, pretrained or {})
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
