"""Teachers of a run (``training.teacher``): opened, checked, and known when it resumes.

A run folder holds ``teachers.json``: the folders, and the SHA-256 of their weights. A
run resumes with the same weights only, wherever they lie by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.backends.api import GenerativeModel
from headwise.backends.distillation import Teachers
from headwise.data.prepared import PreparedCorpus
from headwise.errors import DataError, ModelError, SettingsError
from headwise.recipe import Recipe
from headwise.run_folder.model_folder import ModelFolder, open_model_folder
from headwise.run_folder.paths import TEACHERS, WEIGHTS, model_path
from headwise.text.tokenizer import digest
from headwise.wording import count_of

FORMAT = 1


@dataclass(frozen=True)
class OpenTeachers:
    """The teachers of a recipe, in its order."""

    folders: tuple[ModelFolder, ...]
    weight: float

    def load(self, device: Any) -> Teachers | None:
        """Return the models on a device; None if there are none."""
        if not self.folders:
            return None
        models: list[GenerativeModel] = [each.model for each in self.folders]
        return Teachers(models, self.weight).to(device)

    @property
    def digests(self) -> list[str]:
        """The SHA-256 of the weights of each."""
        return [each.manifest["files"][WEIGHTS]["sha256"] for each in self.folders]

    def record(self, folder: Path, *, is_begun: bool) -> None:
        """Note the teachers in a run folder.

        Raises ``SettingsError`` if the run was begun with others.
        """
        path = folder / TEACHERS
        known = _recorded(path)
        if is_begun and known != self.digests:
            raise SettingsError([_other_teachers(folder, known, self)])
        if known == self.digests:
            return
        table = [
            {"folder": str(each.path), "sha256": sha256}
            for each, sha256 in zip(self.folders, self.digests, strict=True)
        ]
        storage.write_json(path, {"format": FORMAT, "teachers": table})


def open_teachers(recipe: Recipe, corpus: PreparedCorpus) -> OpenTeachers:
    """Open the teachers of ``recipe``.

    Raises ``ModelError`` for a damaged folder or a model of another task,
    ``SettingsError`` for one with too few positions, and ``DataError`` for one with
    other tokenizers than ``corpus``.
    """
    folders = tuple(
        open_model_folder(model_path(Path(each))) for each in recipe.training.teacher
    )
    for opened in folders:
        _check(opened, recipe, corpus)
    return OpenTeachers(folders, recipe.training.teacher_weight)


def _check(opened: ModelFolder, recipe: Recipe, corpus: PreparedCorpus) -> None:
    if opened.task_name != recipe.task:
        raise ModelError(
            f"training.teacher: {opened.path} is a model of {opened.task_name}, not of "
            f"{recipe.task}"
        )
    for side in ("source", "target"):
        ours = digest(getattr(corpus.tokenizers, side))
        if digest(getattr(opened.tokenizers, side)) != ours:
            raise DataError(
                f"training.teacher: {opened.path} has another tokenizer for the {side} "
                f"than {corpus.folder}; prepare the text with the same "
                "training.teacher, and give several teachers only if all have the "
                "same tokenizers"
            )
    config, longest = opened.config, corpus.facts.max_tokens + 1
    limit = config.position_limit
    if limit is not None and limit < longest:
        raise SettingsError(
            [
                f"training.teacher: {opened.path} has {limit:,} {config.positions} "
                f"positions, but a text of data.max_tokens = "
                f"{corpus.facts.max_tokens:,} needs {longest:,}; set data.max_tokens "
                f"to {limit - 1:,} or less"
            ]
        )


def _recorded(path: Path) -> list[str]:
    """Return the digests in a run folder; none if there is no such file."""
    if not path.is_file():
        return []
    try:
        return [str(each["sha256"]) for each in storage.read_json(path)["teachers"]]
    except (KeyError, TypeError):
        raise ModelError(
            f"{path} is not the list of teachers of a run; restore it, or choose "
            "another folder"
        ) from None


def _other_teachers(folder: Path, known: list[str], given: OpenTeachers) -> str:
    """Return the message for a run that was begun with other weights."""
    if len(known) != len(given.digests):
        before = count_of(len(known), "teacher") if known else "no teacher"
        now = count_of(len(given.digests), "teacher") if given.digests else "none"
        return (
            f"{folder} contains a run with {before}, and training.teacher names {now}; "
            "resume it with the same, or choose another folder"
        )
    changed = [
        str(each.path)
        for each, before, now in zip(given.folders, known, given.digests, strict=True)
        if before != now
    ]
    return (
        f"training.teacher: {', '.join(changed)} has other weights than the run in "
        f"{folder} began with; resume it with those, or choose another folder"
    )
