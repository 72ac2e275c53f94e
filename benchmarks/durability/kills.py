"""Kill a run at random moments, over and over, until it is done, and compare.

OMP_NUM_THREADS=1 python -m benchmarks.durability.kills

This process runs no tensor operation. It forks a child for each life of a run; the
child first sees that every checkpoint and the best model can be opened, then trains on
from what is there, and is killed (SIGKILL) after a random time. A run that reached its
end must have the very bytes of one that was never interrupted: weights, optimizer,
running mean, best model; and the same log, but for times. Then the next run begins,
with other settings.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sacrebleu  # noqa: F401 - as with the next, so that no child need do it
import torch._dynamo  # noqa: F401
from benchmarks.durability.reports import arguments_with, finish
from tests.tiny import SETTINGS, write_text

from headwise import storage
from headwise.data.prepare import prepare
from headwise.data.prepared import PreparedCorpus
from headwise.recipe import Recipe, resolve
from headwise.run_folder import run as run_module
from headwise.run_folder.checkpoints import Checkpoints
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import BEST, CHECKPOINTS, LOG
from headwise.run_folder.run import train_run
from headwise.run_folder.safetensors_files import read_tensors
from headwise.storage import disk
from headwise.training.trainer import Trainer

STEPS = 48
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "running mean of the weights": {"ema_decay": 0.9},
    "two batches an update, read ahead": {"accumulate": 2, "data_workers": 2},
    "float32": {"precision": "float32"},
    "bf16": {"precision": "bf16"},
    "Muon": {"optimizer": "muon", "weight_decay": 0.1},
    "two processes share each batch": {"processes": 2},
}
"""Settings of training that the runs have in turn."""

PHASES = (
    *("starting", "training", "validating", "saving a checkpoint"),
    *("saving the best model", "deleting an old checkpoint"),
)
STARTING, TRAINING, VALIDATING, SAVING, SAVING_BEST, ROTATING = range(len(PHASES))

DONE, KILLED = "done", "killed"


@dataclass
class Outcome:
    """What came of all kills."""

    kills: Counter[str] = field(default_factory=Counter)
    """Kills by what the run was doing."""

    half_written: int = 0
    """Kills after which something half-written lay there, to be cleared away."""

    runs: Counter[str] = field(default_factory=Counter)
    """Runs that reached their end, by settings."""

    lives: list[int] = field(default_factory=list)
    """Kills of each of them."""

    trained_on: dict[str, str] = field(default_factory=dict)
    """Hardware, versions and backend, by settings."""

    problems: list[str] = field(default_factory=list)


def main() -> None:
    arguments = arguments_with(__doc__, kills=(1000, "kills"), seed=(1, "of the kills"))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
        outcome = kill_often(Path(scratch), arguments.kills, arguments.seed)
    facts = {
        "kills": outcome.kills.total(),
        "kills while": {phase: outcome.kills[phase] for phase in PHASES},
        "kills that left something half-written": outcome.half_written,
        "runs that reached their end": dict(outcome.runs),
        "kills of a run, median": statistics.median(outcome.lives or [0]),
        "kills of a run, most": max(outcome.lives, default=0),
        "updates of a run": STEPS,
        "trained on": outcome.trained_on,
        "problems": outcome.problems,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    print(json.dumps(facts, indent=2))
    finish("kills", facts, outcome.problems, arguments)


def kill_often(scratch: Path, num_kills: int, seed: int) -> Outcome:
    """Kill runs so many times in all, and let the last one reach its end."""
    outcome = Outcome()
    chance = random.Random(seed)
    text = write_text(scratch / "text", num_pairs=60)
    seconds: dict[str, float] = {}
    number = 0
    while outcome.kills.total() < num_kills and not outcome.problems:
        name = list(VARIANTS)[number % len(VARIANTS)]
        recipe = tiny_recipe(*text, VARIANTS[name])
        reference = scratch / name
        if not reference.exists():
            began = time.monotonic()
            how, problem = live(reference, recipe, lambda: None)
            seconds[name] = time.monotonic() - began
            if how != DONE:
                outcome.problems.append(f"{name}, never killed: {problem}")
                break
            *_, last = sorted((reference / CHECKPOINTS).glob("*/state.json"))
            outcome.trained_on[name] = json.loads(last.read_text())["trained_on"]
        left = num_kills - outcome.kills.total()
        life_and_death(
            scratch / "run", reference, recipe, seconds[name], left, chance, outcome
        )
        outcome.runs[name] += 1
        number += 1
        print(f"{outcome.kills.total()} kills", file=sys.stderr, flush=True)
    return outcome


def tiny_recipe(source: Path, target: Path, training: dict[str, Any]) -> Recipe:
    common = {
        "steps": STEPS,
        "validate_every": 4,
        "validation_pairs": 2,
        "batch_tokens": 256,
        "average_last": 3,
    }
    return resolve(
        extra={
            "data": {"corpora": [{"source": str(source), "target": str(target)}]},
            "text": {"tokenizer": "characters"},
            "model": {**SETTINGS["model"], "d_model": 8, "d_ff": 8, "dropout": 0.2},
            "decoding": {"beam": 1, "max_length_factor": 0, "max_length_offset": 4},
            "training": {
                **SETTINGS["training"],
                **common,
                **training,
            },
        }
    )


def life_and_death(
    folder: Path,
    reference: Path,
    recipe: Recipe,
    seconds: float,
    most: int,
    chance: random.Random,
    outcome: Outcome,
) -> None:
    """Have one run reach its end through kills, ``most`` of them, and compare it."""
    shutil.rmtree(folder, ignore_errors=True)
    phase = mmap.mmap(-1, 1)  # the child writes what it does, and is not asked
    kills = 0
    while True:
        # Longer lives with each kill: the machine may be slower than it was before.
        delay = chance.uniform(0, 0.6 * seconds * 1.05**kills)
        pause = None if kills == most else lambda: time.sleep(delay)  # noqa: B023
        phase[0] = STARTING
        how, problem = live(folder, recipe, pause, phase)
        if how == DONE:
            break
        if how != KILLED:
            outcome.problems.append(f"after {kills} kills of a run: {problem}")
            return
        kills += 1
        outcome.kills[PHASES[phase[0]]] += 1
        outcome.half_written += bool(half_written(folder))
    outcome.lives.append(kills)
    outcome.problems += differences(reference, folder)


def live(
    folder: Path,
    recipe: Recipe,
    pause: Callable[[], None] | None,
    phase: mmap.mmap | None = None,
) -> tuple[str, str]:
    """Let a child train; kill it after ``pause`` unless it is done by then.

    Returns how it ended, and what is wrong if that was in another way.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    said = folder.with_name("said")
    child = os.fork()
    if child == 0:
        os._exit(train_on(folder, recipe, phase or mmap.mmap(-1, 1), said))
    if pause is not None and phase is not None:
        pause()
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return KILLED, ""
    if status == 0:
        return DONE, ""
    return f"status {status}", said.read_text() if said.exists() else ""


def train_on(folder: Path, recipe: Recipe, phase: mmap.mmap, said: Path) -> int:
    """Check what is there and train on from it, in a child; return its exit status."""
    try:
        check(folder)
        prepared = folder.parent / "prepared"
        if not prepared.exists():
            prepare(recipe.data, recipe.text, prepared, seed=recipe.seed)
        corpus = PreparedCorpus.open(prepared)
        with (
            doing(phase, Trainer, "run", TRAINING),
            doing(phase, Trainer, "_validate_and_save", VALIDATING),
            doing(phase, Checkpoints, "save", SAVING),
            doing(phase, Checkpoints, "delete_old", ROTATING),
            doing(phase, run_module, "write_model_folder", SAVING_BEST),
            patch.object(Checkpoints, "_set_aside", unusable),
        ):
            train_run(folder, recipe, corpus)
    except BaseException:
        said.write_text(traceback.format_exc())
        return 1
    return 0


def check(folder: Path) -> None:
    """Open all that a killed run left under a name of its own."""
    checkpoints = folder / CHECKPOINTS
    for path in checkpoints.glob("step-*"):
        storage.verify(path)
        for file in path.glob("*.safetensors"):
            read_tensors(file)
    if (folder / BEST).exists():
        open_model_folder(folder / BEST)


def unusable(checkpoints: Checkpoints, path: Path, error: Exception) -> None:
    raise AssertionError(f"a kill left {path} in a state that cannot be used: {error}")


def doing(phase: mmap.mmap, owner: Any, name: str, what: int) -> Any:
    """Note in ``phase`` while a function is at work, and what was before once it is."""
    real = getattr(owner, name)

    def noted(*arguments: Any, **more: Any) -> Any:
        before, phase[0] = phase[0], what
        try:
            return real(*arguments, **more)
        finally:
            phase[0] = before

    return patch.object(owner, name, noted)


def half_written(folder: Path) -> list[Path]:
    ends = (disk.UNFINISHED, disk.REPLACED)
    return [path for path in folder.rglob(".*") if path.suffix in ends]


def differences(reference: Path, folder: Path) -> list[str]:
    """Say what differs between two runs that should be one and the same."""
    problems = []
    for pattern in (f"{CHECKPOINTS}/*/*.safetensors", f"{BEST}/*.safetensors"):
        wanted = {str(path.relative_to(reference)) for path in reference.glob(pattern)}
        found = {str(path.relative_to(folder)) for path in folder.glob(pattern)}
        if wanted != found:
            problems.append(f"{sorted(found)} there, not {sorted(wanted)}")
            continue
        problems += [
            f"{name} differs"
            for name in sorted(wanted)
            if (reference / name).read_bytes() != (folder / name).read_bytes()
        ]
    for name in sorted(path.name for path in (reference / CHECKPOINTS).iterdir()):
        states = [
            timeless(json.loads((each / CHECKPOINTS / name / "state.json").read_text()))
            for each in (reference, folder)
        ]
        if states[0] != states[1]:
            problems.append(f"{name}: state {states[1]}, not {states[0]}")
    logs = [logged(each / LOG) for each in (reference, folder)]
    if logs[0] != logs[1]:
        problems.append(f"{LOG} differs")
    if len([each for each in logs[0] if each["what"] == "update"]) != STEPS:
        problems.append(f"{LOG} does not hold {STEPS} updates")
    left = half_written(folder)
    return [*problems, *(f"{path} was left" for path in left)]


def logged(path: Path) -> list[dict[str, Any]]:
    """Return updates and validations, which hold the loss curve, without times."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [each for each in entries if each["what"] in ("update", "validation")]
    return [timeless(each) for each in kept]


def timeless(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != "seconds"}


if __name__ == "__main__":
    main()
