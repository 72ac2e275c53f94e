"""A disk that is full, or fails, at the n-th file operation of a save, for every n.

python -m benchmarks.durability.refusals

Each operation in turn is refused, alone or with all that need room after it, until the
save succeeds. It must end in a ``ResourceError`` that says what was refused, with what
stood there before as it was; or succeed, where only clearing up was refused. Then, with
the disk in order, the save is made again and must succeed.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from benchmarks.durability.disk import Tree, read_tree, write_tree
from benchmarks.durability.recorder import Operation, Recorder, Refuse
from benchmarks.durability.reports import arguments_with, finish
from benchmarks.durability.saves import SAVES, Save, hidden, no_fsync

from headwise.errors import ResourceError

NEEDS_ROOM = ("create", "truncate", "write", "make", "sync")


def only(number: int, code: int) -> Refuse:
    """Refuse one operation, whatever it is."""

    def refuse(now: int, operation: Operation) -> int | None:
        return code if now == number else None

    return refuse


def from_there_on(number: int, code: int) -> Refuse:
    """Refuse one operation and whatever needs room after it."""

    def refuse(now: int, operation: Operation) -> int | None:
        is_later = now > number and operation.name in NEEDS_ROOM
        return code if now == number or is_later else None

    return refuse


WAYS: dict[str, Callable[[int, int], Refuse]] = {
    "only it": only,
    "and all that need room after it": from_there_on,
}
CODES = {"no space left": errno.ENOSPC, "input/output error": errno.EIO}


@dataclass
class Outcome:
    """What came of all refusals of a save."""

    refusals: int = 0
    errors: int = 0
    """Those that ended in a ``ResourceError``; in the others the save succeeded."""

    problems: list[str] = field(default_factory=list)


def main() -> None:
    arguments = arguments_with(__doc__)
    results = {}
    for name, save in SAVES.items():
        for way in WAYS:
            for code in CODES:
                with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
                    outcome = refuse_everything(save, Path(scratch), way, code)
                results[f"{name}: {code}, {way}"] = vars(outcome)
                print(name, way, code, vars(outcome), flush=True)
    totals = {
        what: sum(each[what] for each in results.values())
        for what in ("refusals", "errors")
    }
    problems = [each["problems"] for each in results.values()]
    facts = {"totals": totals, "saves": results}
    finish("refusals", facts, problems, arguments)


def refuse_everything(save: Save, scratch: Path, way: str, code: str) -> Outcome:
    """Refuse each operation of ``save`` in turn, until there are no more."""
    outcome = Outcome()
    with save.conditions(), patch.object(os, "fsync", no_fsync):
        before = scratch / "before"
        (before / "run").mkdir(parents=True)
        save.prepare(before / "run")
        tree = read_tree(before)
        while True:
            number = outcome.refusals + 1
            folder = scratch / str(number)
            recorder = Recorder(folder, WAYS[way](number, CODES[code]))
            try:
                problem = refuse_one(save, folder, tree, recorder, outcome)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if recorder.num_tried < number:
                return outcome
            outcome.refusals += 1
            if problem:
                outcome.problems.append(f"operation {number}: {problem}"[:1000])


def refuse_one(
    save: Save, folder: Path, tree: Tree, recorder: Recorder, outcome: Outcome
) -> str | None:
    """Let a save be refused; return what is wrong afterwards, if anything is."""
    write_tree(folder, tree)
    run = folder / "run"
    wanted = {save.after}
    with recorder.at_work():
        try:
            save.write(run)
        except ResourceError as error:
            outcome.errors += 1
            wanted = {save.before, save.after} if save.goes_on else {save.before}
            if not any(os.strerror(each) in str(error) for each in CODES.values()):
                return f"not said what was refused: {error}"
            if str(run) not in str(error):
                return f"not said of what it was refused: {error}"
    state = save.found(run)
    if state not in wanted:
        return f"found {state!r}"
    save.write(run)
    again = save.found(run)
    if again != save.after:
        return f"saved again, found {again!r}"
    left = hidden(run)
    return f"left over: {left}" if left else None


if __name__ == "__main__":
    main()
