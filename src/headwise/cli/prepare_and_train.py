"""Prepare a corpus and train a model: steps that several commands share."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.cli.argument_checks import use_command
from headwise.cli.options import say
from headwise.cli.standard_streams import message_stream
from headwise.errors import ModelError, SettingsError, Stopped
from headwise.recipe import Recipe
from headwise.tasks import TASKS

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus
    from headwise.reports.run_page import RunPage
    from headwise.training.state import TrainingState


def prepare_corpus(folder: Path, recipe: Recipe) -> PreparedCorpus:
    """Prepare the text of a run in its folder.

    Raises if the folder contains a run of another recipe or another text.
    """
    from headwise.data.prepare import fingerprint, prepare
    from headwise.run_folder.overwrite_protection import (
        check_no_foreign_files,
        lock_run_folder,
    )
    from headwise.run_folder.paths import PREPARED, has_checkpoints
    from headwise.run_folder.pretrained import given_tokenizers

    check_no_foreign_files(folder)
    options: dict[str, Any] = {
        "seed": recipe.seed,
        "pair_format": TASKS[recipe.task].pair_format,
        "tokenizers": given_tokenizers(recipe, folder),
        "patch_size": recipe.patch_size,
    }
    name = fingerprint(recipe.data, recipe.text, **options)
    with lock_run_folder(folder):
        if has_checkpoints(folder):
            from headwise.run_folder.run import check_run  # it imports torch

            check_run(folder, recipe, name)
        return prepare(
            recipe.data,
            recipe.text,
            folder / PREPARED,
            name=name,
            say=say,
            **options,
        )


def train_model(
    folder: Path,
    recipe: Recipe,
    corpus: PreparedCorpus,
    device: str,
    *,
    until: int | None = None,
) -> TrainingState:
    """Train with progress bar, TensorBoard events and report; return the last state."""
    from rich.console import Console

    from headwise.reports.run_page import RunPage
    from headwise.run_folder.run import train_run
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.progress import TrainingProgress
    from headwise.training.signals import StopSignals
    from headwise.training.tensorboard import TensorBoardEvents
    from headwise.training.time_left import TimeLeft

    keep_freed_memory()
    console = Console(file=message_stream(), highlight=False)
    progress = TrainingProgress(console, facts=corpus.facts)
    events = TensorBoardEvents(folder / "tensorboard", say=progress.on_message)
    left = TimeLeft(corpus.facts)
    report = RunPage(folder, say=progress.on_message, time_left=left)
    state = train_run(
        folder,
        recipe,
        corpus,
        callbacks=[progress, events, report],
        device=device,
        until=until,
        signals=StopSignals(force_exit=True),
    )
    if sources := report.best_sources:  # of one of several ranks alone
        _link_sample_pages(folder, sources, report)
    return state


def _link_sample_pages(folder: Path, sources: list[str], report: RunPage) -> None:
    """Write pages that look inside the best model, and link them in the report.

    They are a part that a run may do without, so that no failure ends it.
    """
    from headwise.serving.sample_pages import FOLDER, write_sample_pages

    try:
        if pages := write_sample_pages(folder, sources):
            report.link_samples(pages)
    except Stopped:
        raise
    except Exception as error:
        say(f"note: {folder / FOLDER} could not be written: {error}")


def say_next_steps(folder: Path, recipe: Recipe) -> None:
    """Say what the trained model's card lacks, and which commands may follow."""
    _say_missing_card_fields(folder)
    _say_how_to_forget_less(folder, recipe)
    given = "< TEXT"
    if TASKS[recipe.task].pair_format.reads_pictures:
        given = "< PATHS"
    elif recipe.task == "language_model":  # generate does not read standard input
        given = "--prompt TEXT"
    say(
        f"the best model is {folder / 'best'}; next: headwise "
        f"{use_command(recipe.task)} {shlex.quote(str(folder))} {given}"
    )


def _say_missing_card_fields(folder: Path) -> None:
    """Name the fields that the model card lacks, and the command that fills them."""
    from headwise.run_folder.card_edit import edit_command, missing_fields
    from headwise.run_folder.installed_models import CARD
    from headwise.run_folder.paths import model_path, task_of_folder

    path = model_path(folder)
    task = task_of_folder(path)
    if unknown := missing_fields((path / CARD).read_text(encoding="utf-8"), task):
        say(
            f"the model card names no {' and no '.join(unknown)}; to add: "
            f"{edit_command(folder, unknown, task)}"
        )


def _say_how_to_forget_less(folder: Path, recipe: Recipe) -> None:
    """Name the command that averages a fine-tuned model with the one before it."""
    from headwise.run_folder.pretrained import Pretrained

    if len(recipe.initialize_from) != 1:
        return
    [start] = recipe.initialize_from
    try:
        if Pretrained.open([start], recipe.task).continued is None:
            return
    except (ModelError, SettingsError):  # gone or replaced since training began
        return
    names = " ".join(shlex.quote(str(each)) for each in (folder, start))
    say(
        "fine-tuning forgets some of what the first model knew; an average of both "
        f"forgets less: headwise average {names} --shares 3,1 --out "
        f"{shlex.quote(f'{folder}-average')}"
    )
