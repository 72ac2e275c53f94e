"""File names of run folders and model folders; nothing here needs torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.errors import ModelError
from headwise.run_folder.card_fields import card_fields
from headwise.run_folder.installed_models import CARD, find_installed, installed_models

RECIPE = "recipe.toml"
PREPARED = "prepared"
CHECKPOINTS = "checkpoints"
BEST = "best"
LOG = "log.jsonl"
TEACHERS = "teachers.json"

CHECKPOINT = re.compile(r"step-(\d{8,})")
"""Name of a checkpoint folder, with its number of updates."""

CONFIG = "config.json"
GENERATION = "generation.json"
WEIGHTS = "model.safetensors"


MODEL = "model"
EXPORT = "export"
"""Kinds of folders in manifests."""


def check_is_model(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise ``ModelError`` if the manifest is of another kind of folder."""
    kind = manifest.get("kind", MODEL)
    if kind != MODEL:
        what = f"{kind} to {manifest['target']}" if "target" in manifest else kind
        raise ModelError(
            f"{path} is not a model folder ({what}); name the run folder or model "
            "folder that it was made from"
        )


def task_of_folder(path: Path) -> str:
    """Return the name of the task of a model folder, before anything is checked.

    Raises ``ModelError`` if ``config.json`` cannot be read.
    """
    table = storage.read_json(path / CONFIG)
    task = table.get("task", "translation") if isinstance(table, dict) else None
    if not isinstance(task, str):
        raise ModelError(f"{path / CONFIG} does not describe a model")
    return task


def languages_of_model(path: Path) -> tuple[str, str] | None:
    """Return source and target language by the card of a model folder.

    None if it cannot be read, or does not name two.
    """
    with suppress(OSError):
        card = (path / CARD).read_text(encoding="utf-8", errors="replace")
        languages = card_fields(card).languages
        if len(languages) == 2:
            return languages[0], languages[1]
    return None


def has_checkpoints(folder: Path) -> bool:
    """Return whether the run in ``folder`` can be resumed."""
    inside = (folder / CHECKPOINTS).glob("step-*")
    return any(CHECKPOINT.fullmatch(each.name) for each in inside)


def model_path(folder: Path) -> Path:
    """Return the model folder: ``folder`` itself, or the best model of a run.

    Where there is no such folder, the installed model of that name. Raises
    ``ModelError`` if there is none.
    """
    if installed := find_installed(folder):
        return installed
    if (folder / CONFIG).is_file():
        return folder
    if folder.is_dir():
        with suppress(OSError):  # the folder may be read-only
            storage.restore_replaced(folder / BEST)
    if (folder / BEST / CONFIG).is_file():
        return folder / BEST
    if not folder.is_dir():
        others = ", ".join(installed_models())
        raise ModelError(
            f"{folder} is not a folder; name a run folder or a model folder"
            + (f", or an installed model: {others}" if others else "")
        )
    if (folder / RECIPE).is_file():
        raise ModelError(
            f"{folder} is a run without a best model yet, as no validation was done; "
            "train longer, or with a smaller training.validate_every"
        )
    raise ModelError(
        f"{folder} is neither a model folder (it has no {CONFIG}) nor a run folder "
        f"(it has no {BEST}/{CONFIG})"
    )
