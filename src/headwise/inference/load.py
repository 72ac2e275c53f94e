"""``headwise.load(FOLDER)``: open a trained model, whatever its task."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from headwise.errors import ModelError, UsageError
from headwise.inference.arguments import (
    check_device,
    check_flag,
    check_threads,
    checked_folders,
)
from headwise.inference.translator import Translator
from headwise.inference.translator import load as load_translator
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import model_path, task_of_folder
from headwise.tasks import find_task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwise.inference.predictor import Predictor


@overload
def load(
    folder: str | Path | Sequence[str | Path],
    *,
    task: Literal["translation"] = ...,
    **options: Any,
) -> Translator: ...


@overload
def load(folder: str | Path, *, task: str, **options: Any) -> Predictor: ...


def load(
    folder: str | Path | Sequence[str | Path],
    *,
    task: str | None = None,
    **options: Any,
) -> Translator | Predictor:
    """Open a run folder or a model folder; raise ``ModelError`` if it is damaged.

    A model of translation gives a :class:`Translator`, whose ``options`` are those of
    :func:`headwise.inference.translator.load`; one of another task a
    :class:`Predictor`, whose options are ``device``, ``deterministic`` and ``threads``.
    With ``task``, a model of another one is refused; it also tells type checkers which
    of both is returned.
    """
    first, *others = checked_folders(folder)
    found = task_of_folder(model_path(first))
    if task is not None and found != task:
        find_task(task)  # raises for what is no task
        raise ModelError(f"{first} is a model of {found}, not of {task}")
    _check_options(options, found)
    if found == "translation":
        return load_translator(folder, **options)
    if others:
        raise UsageError(
            f"several folders make an ensemble for translation; {first} is a model of "
            f"{found}"
        )
    return load_predictor(first, **options)


def _check_options(options: Mapping[str, Any], task: str) -> None:
    opens = load_translator if task == "translation" else load_predictor
    known = [*inspect.signature(opens).parameters][1:]
    if unknown := [name for name in options if name not in known]:
        raise UsageError(
            f"{unknown[0]!r} is no option of a model of {task}; its options are "
            f"{', '.join(known)}"
        )


def load_predictor(
    folder: Path,
    *,
    device: Any = "cpu",
    deterministic: bool = False,
    threads: int | None = None,
) -> Predictor:
    """Open a model of any task, also of translation, as a :class:`Predictor`.

    With ``deterministic`` each text is computed alone, so that results are the same
    bits for any batch and order. ``threads`` are set for all of torch.
    """
    check_device(device)
    check_flag("deterministic", deterministic)
    check_threads(threads)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    from headwise.inference.predictor import Predictor

    opened = open_model_folder(model_path(folder), device=device)
    return Predictor(replace(opened, deterministic=deterministic))
