"""The names inside a run folder, and where in it the model is; nothing needs torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwise import storage
from headwise.errors import ModelError

RECIPE = "recipe.toml"
PREPARED = "prepared"
CHECKPOINTS = "checkpoints"
BEST = "best"
LOG = "log.jsonl"

CHECKPOINT = re.compile(r"step-(\d{8,})")
"""The name of a checkpoint, of the updates that were done."""

CONFIG = "config.json"
GENERATION = "generation.json"


MODEL = "model"
EXPORT = "export"
"""What manifests call the kinds of folders."""


def check_is_model(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise a ``ModelError`` where the manifest is that of another folder of ours."""
    kind = manifest.get("kind", MODEL)
    if kind != MODEL:
        what = f"{kind} for {manifest['target']}" if "target" in manifest else kind
        raise ModelError(
            f"{path} is no model folder but another of ours ({what}); name the run or "
            "model folder that it was made of"
        )


def has_checkpoints(folder: Path) -> bool:
    """Tell whether the run in ``folder`` has something to go on from."""
    inside = (folder / CHECKPOINTS).glob("step-*")
    return any(CHECKPOINT.fullmatch(each.name) for each in inside)


def model_path(folder: Path) -> Path:
    """Return the model folder in ``folder``, which is a run or a model folder."""
    if (folder / CONFIG).is_file():
        return folder
    if folder.is_dir():
        with suppress(OSError):  # whoever may only read finds what there is
            storage.bring_back(folder / BEST)
    if (folder / BEST / CONFIG).is_file():
        return folder / BEST
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder; a run or a model folder is needed")
    if (folder / RECIPE).is_file():
        raise ModelError(
            f"{folder} is a run without a best model yet: its first validation has "
            "not come; train on, with a smaller training.validate_every if need be"
        )
    raise ModelError(
        f"{folder} is neither a model folder (it has no {CONFIG}) nor a run folder "
        f"(it has no {BEST}/{CONFIG})"
    )
