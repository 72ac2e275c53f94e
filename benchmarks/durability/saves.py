"""What a run writes while it trains, and how to tell afterwards what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import torch

from headwise.decoding.settings import DecodingSettings
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
from headwise.run_folder import safetensors_files
from headwise.run_folder.checkpoints import Checkpoints
from headwise.run_folder.model_folder import (
    ModelFacts,
    open_model_folder,
    write_model_folder,
)
from headwise.run_folder.paths import BEST, CHECKPOINTS, LOG, RECIPE
from headwise.storage import disk, verify, write_text
from headwise.tasks.translation.task import Translation
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import TokenizerPair, train_tokenizers
from headwise.training.callbacks import StepMetrics
from headwise.training.log import JsonLog
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState

NOTHING = "nothing"


@dataclass(frozen=True)
class Save:
    """Something that is written, with what stood there before and what does after."""

    name: str
    prepare: Callable[[Path], None]
    """Make a run folder as it is before."""

    write: Callable[[Path], None]
    """Write what this is about; it may be done twice."""

    found: Callable[[Path], str]
    """Open what is there as a run does when it goes on, and say what it is."""

    before: str
    after: str
    swaps: bool = True
    """Whether the disk can swap two names in one step."""

    goes_on: bool = False
    """Whether it may fail after ``after`` is reached: something else comes then."""

    @contextmanager
    def conditions(self) -> Iterator[None]:
        """Have the disk as it should be, and files written in small pieces."""
        with ExitStack() as held:
            held.enter_context(patch.object(safetensors_files, "PIECE_BYTES", 256))
            if not self.swaps:
                held.enter_context(patch.object(disk, "swap_names", cannot_swap))
            yield


def cannot_swap(one: Path, other: Path) -> bool:
    return False


def no_fsync(handle: int) -> None:
    """Stand in for ``os.fsync`` where only its place in the order matters."""


def ignore(text: str) -> None:
    """Hear that an old checkpoint could not be deleted, which is no harm."""


def nothing(folder: Path) -> None:
    """Write nothing."""


def checkpoints_in(folder: Path) -> Checkpoints:
    """Return the checkpoints of a run, which must have nothing to say."""

    def say(text: str) -> None:
        raise AssertionError(f"a save left damage behind, not old or new: {text}")

    return Checkpoints(folder / CHECKPOINTS, say)


def save_checkpoints(*steps: int, averaged: bool = False) -> Callable[[Path], None]:
    """Save checkpoints in which every number is the step."""

    def write(folder: Path) -> None:
        for step in steps:
            state = TrainingState(step=step, averaged_step=step if averaged else 0)
            weights = {
                "w": torch.full((40,), float(step)),
                "b": torch.full((3,), float(step)),
            }
            moments = {"w.exp_avg": torch.full((40,), float(step))}
            checkpoints_in(folder).save(state, weights, moments, weights, corpus="c")

    return write


def save_and_rotate(step: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        save_checkpoints(step)(folder)
        Checkpoints(folder / CHECKPOINTS, ignore).delete_old(keep=1, interval=10)

    return write


def newest_step(folder: Path) -> str:
    """Open the newest checkpoint; all that have a name of theirs must be whole."""
    found = checkpoints_in(folder).newest()
    for path in checkpoints_in(folder).paths():
        verify(path)
    if found is None:
        return NOTHING
    step = found.state.step
    assert found.ema is not None
    for table in (found.weights, found.optimizer, found.ema):
        for numbers in table.values():
            assert torch.equal(numbers, torch.full_like(numbers, step))
    averaged = ", averaged" if found.state.averaged_step else ""
    return f"update {step}{averaged}"


def log_and_save(first: int, last: int) -> Callable[[Path], None]:
    """Note updates, save a checkpoint as a run does, and note three more."""

    def write(folder: Path) -> None:
        log = JsonLog(folder / LOG)
        begin = TrainingState(step=first - 1)
        log.on_start(begin, TrainingSettings(), 10)
        note_updates(log, first, last)
        log.sync()
        save_checkpoints(last)(folder)
        note_updates(log, last + 1, last + 3)

    return write


def note_updates(log: JsonLog, first: int, last: int) -> None:
    for step in range(first, last + 1):
        update = StepMetrics(
            step=step,
            loss=1 / step,
            learning_rate=0.1,
            gradient_norm=1.0,
            tokens=100,
            seconds=0.5,
        )
        log.on_step(update, TrainingState(step=step))


def newest_step_with_its_log(folder: Path) -> str:
    """Go on from what is there; the log must hold each update once, and no other."""
    found = checkpoints_in(folder).newest()
    state = TrainingState() if found is None else found.state
    log = JsonLog(folder / LOG)
    log.on_start(state, TrainingSettings(), 10)
    lines = (folder / LOG).read_text(encoding="utf-8").split("\n")
    steps = [int(each.split('"step": ')[1].split(",")[0]) for each in lines[:-1]
             if '"what": "update"' in each]  # fmt: skip
    assert steps == list(range(1, state.step + 1)), f"{steps} of {state.step}"
    return f"update {state.step}"


@cache
def tiny_tokenizers() -> TokenizerPair:
    settings = TextSettings(tokenizer="characters")
    return train_tokenizers(lambda: iter([("abc", "cba")]), settings, seed=1)


def write_model(seed: int) -> Callable[[Path], None]:
    """Write a model folder whose weights are those of ``seed``."""

    def write(folder: Path) -> None:
        tokenizers = tiny_tokenizers()
        config = TransformerConfig(
            encoder_layers=1, decoder_layers=1, d_model=4, d_ff=4, num_heads=1
        )
        size = tokenizers.source.size
        facts = ModelFacts(
            source_vocab_size=size,
            target_vocab_size=size,
            longest_source=5,
            longest_target=5,
        )
        write_model_folder(
            folder / BEST,
            model=Transformer(config, size, size, seed=seed),
            task=Translation(tokenizers),
            decoding=DecodingSettings(beam=1, max_length_offset=3),
            facts=facts,
            card=f"The model of seed {seed}.",
            golden_sources=["abc"],
        )

    return write


def best_model(folder: Path) -> str:
    if not (folder / BEST).exists() and not hidden(folder):
        return NOTHING
    opened = open_model_folder(folder / BEST)
    card = (opened.path / "README.md").read_text(encoding="utf-8")
    (seed,) = [seed for seed in (1, 2) if f"seed {seed}." in card]
    fresh = Transformer(opened.model.config, opened.model.source_vocab_size, seed=seed)
    for name, numbers in fresh.state_dict().items():
        assert torch.equal(numbers, opened.model.state_dict()[name])
    return f"the model of seed {seed}"


def best_model_or_none(folder: Path) -> str:
    """Open what is there; before the first one, what was begun does not count."""
    return best_model(folder) if (folder / BEST).exists() else NOTHING


def write_recipe(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        write_text(folder / RECIPE, text * 1000)

    return write


def recipe(folder: Path) -> str:
    path = folder / RECIPE
    if not path.exists():
        return NOTHING
    text = path.read_text(encoding="utf-8")
    assert text in ("old\n" * 1000, "new\n" * 1000)
    return text[:3]


def hidden(folder: Path) -> list[str]:
    """Return what was left half-written, or is between two names."""
    return [p.name for p in folder.rglob(".*") if p.suffix in LEFTOVERS]


LEFTOVERS = (disk.UNFINISHED, disk.REPLACED)


def pairs_of_saves() -> Iterator[Save]:
    """Yield each save, and again for a disk that cannot swap names if it does that."""
    ten, twenty, thirty = (f"update {step}" for step in (10, 20, 30))
    one, two = (f"the model of seed {seed}" for seed in (1, 2))
    saved, saved_twice = save_checkpoints(10), save_checkpoints(10, 20)
    again = save_checkpoints(20, averaged=True)
    finished = f"{twenty}, averaged"
    model, better = write_model(1), write_model(2)
    old, new = write_recipe("old\n"), write_recipe("new\n")
    yield Save("the first checkpoint", nothing, saved, newest_step, NOTHING, ten)
    yield Save(
        "a checkpoint, after which the oldest goes",
        saved_twice,
        save_and_rotate(30),
        newest_step,
        twenty,
        thirty,
    )
    yield Save(
        "the log and its first checkpoint",
        nothing,
        log_and_save(1, 5),
        newest_step_with_its_log,
        "update 0",
        "update 5",
        goes_on=True,
    )
    yield Save(
        "the log and a later checkpoint",
        log_and_save(1, 5),
        log_and_save(6, 9),
        newest_step_with_its_log,
        "update 5",
        "update 9",
        goes_on=True,
    )
    yield Save("the first model", nothing, model, best_model_or_none, NOTHING, one)
    yield Save("the first recipe", nothing, old, recipe, NOTHING, "old")
    for swaps in (True, False):
        without = "" if swaps else ", on a disk that cannot swap names"
        name = f"the last checkpoint again{without}"
        yield Save(name, saved_twice, again, newest_step, twenty, finished, swaps)
        name = f"a better model{without}"
        yield Save(name, model, better, best_model, one, two, swaps)
        # One name that was replaced by another cannot be taken back if a sync fails.
        final = {"swaps": swaps, "goes_on": not swaps}
        yield Save(f"a recipe{without}", old, new, recipe, "old", "new", **final)


SAVES = {save.name: save for save in pairs_of_saves()}
