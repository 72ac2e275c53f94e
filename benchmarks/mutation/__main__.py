"""Run mutants and write what became of each to benchmarks/results/mutation.json."""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.mutation import runner
from benchmarks.mutation.copies import (
    COSMIC_RAY,
    ROOT,
    cache_folder,
    generator,
    make_copy,
)
from benchmarks.result_file import Measurement, write_json

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "mutation.json"
SURVIVED = "passed"
PACKAGE = Path("src") / "headwise"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault: a file below src/headwise, and what is to stand in it."""

    file: str
    breaks: str
    tests: Sequence[str]
    before: str = field(repr=False)
    after: str = field(repr=False)

    @cached_property
    def key(self) -> str:
        """Name the mutant by all that its outcome depends on."""
        whole = json.dumps([*asdict(self).values(), _tests_digest(self.tests)])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def main() -> None:
    arguments = _arguments()
    chosen = _of_native() if arguments.kind == "native" else _of_python(arguments)
    if arguments.only:
        chosen = [each for each in chosen if arguments.only in each.breaks]
    if len({each.key for each in chosen}) < len(chosen):
        sys.exit("two mutants are the same; leave one of them out")
    measurement = Measurement.begin(_sources(chosen))
    known = _Notes(cache_folder() / f"outcomes-{arguments.kind}.jsonl")
    mine = chosen[arguments.part[0] - 1 :: arguments.part[1]]
    runner.prepare()
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copy = make_copy(Path(scratch) / "repository")
        checks = _Checks(copy, Path(scratch), arguments.seconds)
        if not arguments.trust:
            left = [each for each in mine if each.key not in known]
            checks.require_passing(left, known)
        for number, mutant in enumerate(mine, start=1):
            outcome = known.get(mutant.key, lambda: checks.outcome(mutant))  # noqa: B023
            print(f"{number}/{len(mine)} {outcome}: {mutant.breaks}", flush=True)
    if arguments.only or any(each.key not in known for each in chosen):
        return
    outcomes = [known[each.key] for each in chosen]
    _report(arguments.kind, measurement, chosen, outcomes)
    sys.exit(1 if SURVIVED in outcomes else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["native", "python"])
    parser.add_argument("--sample", type=int, default=120, help="Python mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--seconds", type=int, default=120, help="processor time for one mutant"
    )
    parser.add_argument(
        "--part",
        type=lambda text: tuple(map(int, text.split("/"))),
        default=(1, 1),
        metavar="K/N",
        help="of N processes that share the work this is number K",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="do not run the tests without any fault first: they are known to pass",
    )
    parser.add_argument("--only", help="mutants whose description holds this text")
    return parser.parse_args()


def _of_native() -> list[Mutant]:
    table = tomllib.loads((HERE / "native.toml").read_text(encoding="utf-8"))
    return [Mutant(**each) for each in table["mutant"]]


def _of_python(arguments: argparse.Namespace) -> list[Mutant]:
    """Draw mutants of all modules, each as probable as any other."""
    groups = tomllib.loads((HERE / "python.toml").read_text(encoding="utf-8"))["group"]
    tests = {
        str(PACKAGE / module): group["tests"]
        for group in groups
        for module in group["modules"]
    }
    possible = [
        each for each in _generated("list", *tests) if not _is_no_code(each[0], each[3])
    ]
    drawn = random.Random(arguments.seed).sample(possible, arguments.sample)
    asked = "".join(f"{json.dumps(each)}\n" for each in drawn)
    return [
        Mutant(
            file=str(Path(path).relative_to(PACKAGE)),
            breaks=f"{path}:{line} {operator.removeprefix('core/')} {occurrence}",
            tests=tests[path],
            before=(ROOT / path).read_text(encoding="utf-8"),
            after=after,
        )
        for (path, operator, occurrence, line), after in zip(
            drawn, _generated("show", asked=asked), strict=True
        )
    ]


def _generated(*arguments: str, asked: str = "") -> list[Any]:
    done = subprocess.run(
        [*generator(), *arguments],
        cwd=ROOT,
        input=asked,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _is_no_code(path: str, line: int) -> bool:
    """Tell whether a line only names shapes or types, which nothing computes with."""
    there = (ROOT / path).read_text(encoding="utf-8").splitlines()[line - 1]
    return 'Tensor, "' in there or there.lstrip().startswith(('"""', "#"))


class _Checks:
    """A copy of the repository in which one file at a time is another one."""

    def __init__(self, copy: Path, scratch: Path, seconds: int) -> None:
        self.copy = copy
        self.log = scratch / "tests.log"
        self.seconds = seconds
        self.environment = {
            "XDG_CACHE_HOME": str(scratch / "cache"),
            "OMP_NUM_THREADS": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
        }

    def require_passing(self, chosen: Sequence[Mutant], known: _Notes) -> None:
        """Stop where tests fail without a fault: nothing could be told then."""
        self._compile_native()
        sources = _digest(sorted((self.copy / PACKAGE).rglob("*.[pc]*")))
        for tests in dict.fromkeys(tuple(each.tests) for each in chosen):
            key = f"{sources} {_tests_digest(tests)}"
            outcome = known.get(key, lambda: self._outcome(tests))  # noqa: B023
            if outcome != SURVIVED:
                last = self.log.read_text(errors="replace")[-2000:]
                sys.exit(f"without any fault {' '.join(tests)} {outcome}:\n{last}")

    def outcome(self, mutant: Mutant) -> str:
        """Return how the tests end with this fault."""
        path = self.copy / PACKAGE / mutant.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.before) != 1:
            sys.exit(f"{mutant.file} holds this not once: {mutant.before}")
        path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
        try:
            if mutant.file.startswith("backends/native/"):
                self._compile_native()
            outcome = self._outcome(mutant.tests)
            if outcome != SURVIVED:
                log = self.log.read_text(encoding="utf-8", errors="replace")
                first = re.search(
                    r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", log, re.MULTILINE
                )
                outcome += f": {first[1]}" if first else ""
            return outcome
        finally:
            path.write_text(text, encoding="utf-8")

    def _outcome(self, tests: Sequence[str]) -> str:
        return runner.outcome_of(
            tests,
            self.copy,
            log=self.log,
            seconds=self.seconds,
            environment=self.environment,
        )

    def _compile_native(self) -> None:
        """Compile the library in the copy; Zig keeps the object files."""
        done = subprocess.run(
            [sys.executable, "hatch_build.py"],
            cwd=self.copy,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"the native library does not compile: {done.stderr}")


def _tests_digest(tests: Sequence[str]) -> str:
    """Return what changes when tests do, or what they import from one another."""
    names = [each.split("::")[0] for each in tests if not each.startswith("-")]
    folders = dict.fromkeys((ROOT / name).parent for name in names)
    files = sorted(
        path for folder in folders for path in folder.glob("*.py") if path.is_file()
    )
    asked = {Path(name).name for name in names}
    return _digest(
        each
        for each in files
        if each.name in asked or not each.name.startswith("test_")
    )


def _digest(files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in files:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


class _Notes:
    """Outcomes by key, in a file that several processes may add to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()

    def __getitem__(self, key: str) -> str:
        return self._all()[key]

    def __contains__(self, key: str) -> bool:
        return key in self._all()

    def get(self, key: str, find: Callable[[], str]) -> str:
        """Return the outcome that is known, or find and note it."""
        if key not in self:
            outcome = find()
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, outcome]) + "\n")
        return self[key]

    def _all(self) -> dict[str, str]:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return dict(json.loads(line) for line in lines)


def _sources(chosen: Iterable[Mutant]) -> list[str]:
    """Return what the outcomes depend on: the files with faults, and their tests."""
    files = {str(PACKAGE / each.file) for each in chosen}
    tests = {name.split("::")[0] for each in chosen for name in each.tests}
    return sorted(files | {name for name in tests if (ROOT / name).is_file()})


def _report(
    kind: str,
    measurement: Measurement,
    chosen: Sequence[Mutant],
    outcomes: Sequence[str],
) -> None:
    pairs = list(zip(chosen, outcomes, strict=True))
    figures: dict[str, Any] = {
        **({"mutants_by": COSMIC_RAY} if kind == "python" else {}),
        "mutants": len(chosen),
        "survived": outcomes.count(SURVIVED),
        "outcomes": dict(Counter(each.split(":")[0] for each in outcomes)),
        "killed_by": dict(
            Counter(each.partition(": ")[2] for each in outcomes if each != SURVIVED)
        ),
        "survivors": [each.breaks for each, outcome in pairs if outcome == SURVIVED],
    }
    whole = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    write_json(RESULTS, {**whole, kind: measurement.provenance() | figures})
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
