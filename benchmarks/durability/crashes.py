"""Crash at every file operation of a save, under three models of the disk.

python -m benchmarks.durability.crashes

The operations of a real save are recorded. For each point between two of them, and each
model in ``disk``, the folder is made as it would be found, and opened as a run does
when it goes on: it must be what stood there before or what was to stand there, whole,
and after the last operation the latter. Then the save is made again and must succeed.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from benchmarks.durability.disk import MODELS, Disk, Tree, read_tree, write_tree
from benchmarks.durability.recorder import Operation, Recorder
from benchmarks.durability.reports import arguments_with, finish
from benchmarks.durability.saves import SAVES, Save, hidden, no_fsync


@dataclass
class Outcome:
    """What came of all crashes of a save."""

    operations: Counter[str] = field(default_factory=Counter)
    disks: Counter[str] = field(default_factory=Counter)
    """Disks that may be found, by model."""

    crashes: Counter[str] = field(default_factory=Counter)
    """Those that were tried: of equal ones, the first."""

    before: int = 0
    after: int = 0
    """Disks on which the older state was found, or the newer."""

    problems: list[str] = field(default_factory=list)


def main() -> None:
    arguments = arguments_with(__doc__, tries=(200, "random orders at each operation"))
    results = {}
    for name, save in SAVES.items():
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
            outcome = crash_everywhere(save, Path(scratch), tries=arguments.tries)
        results[name] = {
            "operations": dict(outcome.operations),
            "disks that may be found": dict(outcome.disks),
            "different ones, each tried": dict(outcome.crashes),
            "found as before": outcome.before,
            "found as after": outcome.after,
            "problems": outcome.problems,
        }
        print(name, results[name], flush=True)
    facts = {"tries": arguments.tries, "saves": results}
    problems = [each["problems"] for each in results.values()]
    finish("crashes", facts, problems, arguments)


def crash_everywhere(
    save: Save,
    scratch: Path,
    *,
    tries: int,
    most: int | None = None,
    problems: int | None = None,
) -> Outcome:
    """Try every crash of ``save``; ``tries`` random orders at each operation.

    ``most`` is how many disks are tried at most, drawn from all; after so many
    ``problems`` no more are.
    """
    outcome = Outcome()
    chance = random.Random(1)
    with save.conditions(), patch.object(os, "fsync", no_fsync):
        tree, operations = recorded(save, scratch / "real")
        outcome.operations.update(each.name for each in operations)
        different: dict[tuple[bool, bytes], tuple[int, str, Tree]] = {}
        for place, model, found in crashes(tree, operations, chance, tries):
            outcome.disks[model] += 1
            key = place == len(operations), digest(found)
            different.setdefault(key, (place, model, found))
        chosen = list(different.values())
        if most is not None and most < len(chosen):
            chosen = [*chance.sample(chosen[:-1], most - 1), chosen[-1]]
        for place, model, found in reversed(chosen):  # problems show late in a save
            outcome.crashes[model] += 1
            ended = place == len(operations)
            problem = tried_out(save, scratch / "found", found, ended, outcome)
            if problem:
                last = operations[place - 1] if place else "the beginning"
                outcome.problems.append(f"{model}, after {last}: {problem}"[:1000])
                if len(outcome.problems) == problems:
                    break
    return outcome


def recorded(save: Save, folder: Path) -> tuple[Tree, list[Operation]]:
    """Make a save, and return what was there and what was done.

    After each operation the folder must be what the operations lead to: so none can
    have gone past the recorder.
    """
    run = folder / "run"
    run.mkdir(parents=True)
    save.prepare(run)
    before = read_tree(folder)
    simulated = Disk(before)

    def compare(operation: Operation) -> None:
        simulated.apply(operation)
        assert simulated.seen() == read_tree(folder), f"{operation} is not all"

    recorder = Recorder(folder, seen=compare)
    with recorder.at_work():
        save.write(run)
    assert simulated.seen() == read_tree(folder), "something was done unseen"
    return before, recorder.operations


def crashes(
    tree: Tree, operations: list[Operation], chance: random.Random, tries: int
) -> Iterator[tuple[int, str, Tree]]:
    """Yield every disk that may be found, with how many operations came before."""
    simulated = Disk(tree)
    for place in range(len(operations) + 1):
        if place:
            simulated.apply(operations[place - 1])
        for model in MODELS:
            for found in simulated.found(model, chance, tries):
                yield place, model, found


def tried_out(
    save: Save, folder: Path, found: Tree, ended: bool, outcome: Outcome
) -> str | None:
    """Go on from the disk that was found; return what is wrong, if anything is."""
    write_tree(folder, found)
    run = folder / "run"
    try:
        state = save.found(run)
        if state not in (save.before, save.after):
            return f"found {state!r}"
        if ended and state != save.after:
            return f"found {state!r} though the save had ended"
        outcome.before += state == save.before
        outcome.after += state == save.after
        save.write(run)
        again = save.found(run)
        if again != save.after:
            return f"saved again, found {again!r}"
        left = hidden(run)
        if left:
            return f"left over: {left}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(folder)
    return None


def digest(tree: Tree) -> bytes:
    """Return what two disks share only if they hold the same.

    Drafts have random names, which are the same in all crashes of one save.
    """
    whole = hashlib.sha256()
    for path, content in sorted(tree.items()):
        kind = b"folder" if content is None else hashlib.sha256(content).digest()
        whole.update(path.encode() + b"\0" + kind)
    return whole.digest()


if __name__ == "__main__":
    main()
