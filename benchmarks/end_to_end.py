"""Compare headwise translate with a plain script around CTranslate2, file to file.

python benchmarks/end_to_end.py --model FOLDER --source FILE
python benchmarks/end_to_end.py --model FOLDER --source FILE --engines torch --out FILE

Both read the same file, run the same weights with the same search in the same
precision, and write a file; what is timed is the whole process, from its start to its
end, and once more with a file of one line, which is what starting costs. They run in
turn, one at a time. The script is called in two ways: with a worker for each core, and,
on a fifth of the lines, with the threads that CTranslate2 takes by itself. Before,
several batches are tried on that fifth, and the best are what is compared with.

Each run waits until nothing else works on this machine. One beside which other programs
took more than a tenth of a core is done again, once; what they took stands in the
result. That is written after each round, so that it can be ended early.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from result_file import (
    COMMAND_LINE,
    EXPORTS,
    TRANSLATION,
    Measurement,
    add_options,
    busy_seconds,
    place_of,
)

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "end_to_end.json"
BEAMS = {"greedy": 1, "beam 4": 4}
PRECISIONS = ("float32", "int8")
BATCHES = ((32, "examples"), (64, "examples"), (128, "examples"), (1024, "tokens"))
CORES = len(os.sched_getaffinity(0))
THREADS = {"a worker for each core": (CORES, 1), "its own threads": (1, 0)}
PLAIN = "plain script"
ENGINES = ("ctranslate2", "torch")
"""Of headwise; torch has no int8, which is then left out."""

TRIES = 2
MOST_WAITING = 1800.0
DISTURBED = 0.1


@dataclass(frozen=True)
class Place:
    """Where everything lies while it is measured."""

    folder: Path
    model: Path
    plain_python: str
    lock: Path | None
    engines: tuple[str, ...]
    most_waiting: float
    """Seconds to wait for a quiet machine before each run."""

    @property
    def patience(self) -> float:
        """Return how long the model searches on, which the script must as well."""
        places = (self.model, self.model / "best")
        (path,) = [each for each in places if (each / "generation.json").is_file()]
        text = (path / "generation.json").read_text("utf-8")
        return float(json.loads(text)["patience"])

    @property
    def precisions(self) -> tuple[str, ...]:
        """Return those that an engine has."""
        return PRECISIONS if "ctranslate2" in self.engines else PRECISIONS[:1]

    def sides(self, precision: str, plain: Plain) -> dict[str, Plain | str]:
        """Return who is compared: the plain script, and headwise by each engine."""
        return {PLAIN: plain} | {
            f"headwise {engine}": engine
            for engine in self.engines
            if engine == "ctranslate2" or precision != "int8"
        }

    def export(self, precision: str) -> Path:
        """Return where the plain script finds its model."""
        return self.folder / f"export-{precision}"


@dataclass(frozen=True)
class Plain:
    """How the plain script is called."""

    batch: tuple[int, str]
    threads: tuple[int, int]

    def __str__(self) -> str:
        workers, each = self.threads
        return (
            f"max_batch_size={self.batch[0]}, batch_type={self.batch[1]!r}, "
            f"inter_threads={workers}, intra_threads={each}"
        )


def command(
    place: Place, who: Plain | str, precision: str, beam: int, source: Path, out: Path
) -> list[str]:
    """Return what a user would type; headwise writes to standard output."""
    if isinstance(who, str):
        headwise = str(Path(sys.executable).with_name("headwise"))
        chosen = ["--engine", who, "--precision", precision, "--beam", str(beam)]
        return [headwise, "translate", str(place.model), str(source), *chosen]
    return [
        *(place.plain_python, str(HERE / "plain_translate.py")),
        *(str(place.export(precision)), str(source), str(out)),
        *("--beam", str(beam), "--compute-type", precision),
        *(("--patience", str(place.patience)) if beam > 1 else ()),
        *("--max-batch-size", str(who.batch[0]), "--batch-type", who.batch[1]),
        *("--inter-threads", str(who.threads[0])),
        *("--intra-threads", str(who.threads[1])),
    ]


def measured(place: Place, typed: list[str], out: Path) -> dict[str, Any]:
    """Run one process, undisturbed if that can be had."""
    found: dict[str, Any] = {"others": 1.0, "attempts": 0}
    while found["others"] > DISTURBED and found["attempts"] < TRIES:
        attempts = found["attempts"] + 1
        wait_for_quiet(most=place.most_waiting)
        with alone(place.lock):
            found = once(typed, out) | {"attempts": attempts}
    return found


def once(typed: list[str], out: Path) -> dict[str, Any]:
    """Run one process; return seconds, memory, and what it said on standard error."""
    said = out.with_suffix(".said")
    with out.with_suffix(".out").open("wb") as stdout, said.open("wb") as stderr:
        before, started = busy_seconds(), time.perf_counter()
        process = subprocess.Popen(typed, stdout=stdout, stderr=stderr)
        _, status, usage = os.wait4(process.pid, 0)
        seconds, busy = time.perf_counter() - started, busy_seconds() - before
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{shlex.join(typed)}: {said.read_text('utf-8')}")
    used = usage.ru_utime + usage.ru_stime
    return {
        "seconds": seconds,
        "processor_seconds": used,
        "megabytes": usage.ru_maxrss / 1024,
        "others": max(0.0, busy - used) / seconds,
    }


def wait_for_quiet(seconds: float = 2.0, most: float = MOST_WAITING) -> None:
    """Return once the machine was idle for some seconds."""
    end = time.monotonic() + most
    while time.monotonic() < end:
        before = busy_seconds()
        time.sleep(seconds)
        if busy_seconds() - before <= DISTURBED * seconds:
            return


@contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """Hold a lock that others who measure on this machine hold too."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def tried(
    place: Place, source: Path, kind: str
) -> tuple[dict[str, Plain], dict[str, Any]]:
    """Find the batches that suit the plain script best, by search and precision."""
    best: dict[str, Plain] = {}
    seconds: dict[str, Any] = {}
    out = place.folder / "tried"
    for precision in place.precisions:
        for name, beam in BEAMS.items():
            setting = f"{name}, {precision}"
            row: dict[Plain, float] = {}
            for batch in BATCHES:
                who = Plain(batch, THREADS[kind])
                typed = command(place, who, precision, beam, source, out)
                # Processor time: other programs disturb it least.
                row[who] = measured(place, typed, out)["processor_seconds"]
                print(f"tried: {setting}: {who}: {row[who]:.2f} s", flush=True)
            best[setting] = min(row, key=lambda each: row[each])
            seconds[setting] = {str(who): round(row[who], 2) for who in row}
    return best, seconds


def rounds_of(
    place: Place, best: dict[str, Plain], source: Path, rounds: int
) -> Iterator[dict[str, Any]]:
    """Let both work in turn; yield all there is after each round."""
    line = place.folder / "one_line.txt"
    line.write_text(source.read_text("utf-8").split("\n")[0] + "\n", "utf-8")
    result: dict[str, Any] = {}
    for number in range(rounds):
        for precision in place.precisions:
            for name, beam in BEAMS.items():
                setting = f"{name}, {precision}"
                for side, who in place.sides(precision, best[setting]).items():
                    out = place.folder / f"{setting} {side}".replace(" ", "-")
                    start = command(place, who, precision, beam, line, out)
                    whole = command(place, who, precision, beam, source, out)
                    start_up = measured(place, start, out)
                    found = measured(place, whole, out)
                    found["start_up"] = start_up["seconds"]
                    found["without_start_up"] = found["seconds"] - start_up["seconds"]
                    row = result.setdefault(setting, {}).setdefault(side, [])
                    row.append(found)
                    print(
                        f"round {number + 1}: {setting}, {side}: "
                        f"{found['seconds']:.2f} s, of which {found['start_up']:.2f} "
                        f"to start; others {found['others']:.2f}",
                        flush=True,
                    )
        yield result


def summary(place: Place, found: dict[str, Any], num_lines: int) -> dict[str, Any]:
    """Return medians, ratios of medians, and how many lines are the same."""
    result: dict[str, Any] = {}
    for setting, sides in found.items():
        table: dict[str, Any] = {}
        for side, rows in sides.items():
            table[side] = {
                key: round(statistics.median(row[key] for row in rows), 3)
                for key in rows[0]
            }
            table[side]["lines_per_second"] = round(num_lines / table[side]["seconds"])
            table[side]["all_seconds"] = [round(row["seconds"], 2) for row in rows]
        result[setting] = table
        for side in table.keys() - {PLAIN}:
            table[side] |= beside(place, setting, side, sides)
    return result


def beside(
    place: Place, setting: str, side: str, sides: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """Compare headwise by one engine with the plain script: time, and the lines."""
    ours, theirs = (
        place.folder / f"{setting} {each}".replace(" ", "-") for each in (side, PLAIN)
    )
    mine = ours.with_suffix(".out").read_text("utf-8").split("\n")
    lines = theirs.read_text("utf-8").split("\n")
    noted = noted_lines(ours.with_suffix(".said").read_text("utf-8"))
    pairs = list(zip(mine, lines, strict=True))[:-1]
    same = [one == other for one, other in pairs]
    calm = [each for number, each in enumerate(same, 1) if number not in noted]
    medians = [
        {
            key: statistics.median(row[key] for row in sides[each])
            for key in ("seconds", "without_start_up", "processor_seconds")
        }
        for each in (PLAIN, side)
    ]
    plain, own = medians
    return {
        "plain_over_headwise": {key: round(plain[key] / own[key], 2) for key in plain},
        "plain_over_headwise_of_rounds": [
            round(one["seconds"] / other["seconds"], 2)
            for one, other in zip(sides[PLAIN], sides[side], strict=True)
        ],
        "equal_lines": round(sum(same) / len(same), 5),
        "equal_lines_without_a_warning": round(sum(calm) / max(1, len(calm)), 5),
        "lines_with_a_warning": len(noted),
    }


def noted_lines(said: str) -> set[int]:
    """Return the numbers of the lines that headwise warned of."""
    numbers = (each.split(":")[0] for each in said.split("\n") if "line " in each[:5])
    return {int(each.removeprefix("line ").replace(",", "")) for each in numbers}


def prepare(place: Place, lines: Sequence[str]) -> tuple[Path, Path]:
    """Write the exports and the text, whole and a fifth of it."""
    headwise = str(Path(sys.executable).with_name("headwise"))
    for precision in place.precisions:
        subprocess.run(
            [
                *(headwise, "export", str(place.model), "--to", "ctranslate2"),
                *("--out", str(place.export(precision)), "--quantization", precision),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    whole, some = place.folder / "whole.txt", place.folder / "some.txt"
    whole.write_text("".join(f"{each}\n" for each in lines), "utf-8")
    some.write_text("".join(f"{each}\n" for each in lines[::5]), "utf-8")
    # Where headwise keeps its own exports: they are made once, not in each run.
    for precision in place.precisions:
        line = place.folder / "first.txt"
        line.write_text(f"{lines[0]}\n", "utf-8")
        for who in place.sides(precision, Plain(BATCHES[0], (1, 0))).values():
            if isinstance(who, str):
                typed = command(place, who, precision, 1, line, line)
                subprocess.run(typed, check=True, stdout=subprocess.DEVNULL)
    return whole, some


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True, help="plain or .gz")
    parser.add_argument("--about", default="", help="what model and text these are")
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--plain-python",
        default=sys.executable,
        help="the Python of an environment with ctranslate2 and sentencepiece alone",
    )
    parser.add_argument("--lock", type=Path, help="to be held by all who measure here")
    parser.add_argument("--only", choices=THREADS, help="measure one part anew")
    parser.add_argument(
        *("--engines", "--engine"), nargs="+", choices=ENGINES, default=list(ENGINES)
    )
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.rehearse:
        arguments.lines, arguments.rounds = 50, 1
    measurement = Measurement.begin([*TRANSLATION, *EXPORTS, *COMMAND_LINE])
    raw = arguments.source.read_bytes()
    text = gzip.decompress(raw) if arguments.source.suffix == ".gz" else raw
    lines = text.decode("utf-8").split("\n")[: arguments.lines]
    report: dict[str, Any] = {
        "about": arguments.about,
        "lines": len(lines),
        "different_lines": len(set(lines)),
        "parts": {},
    }
    with tempfile.TemporaryDirectory() as name:
        place = Place(
            Path(name),
            arguments.model,
            arguments.plain_python,
            arguments.lock,
            tuple(arguments.engines),
            0.0 if arguments.rehearse else MOST_WAITING,
        )
        whole, some = prepare(place, lines)
        parts = report["parts"]
        out = place_of(arguments)
        if arguments.only and out is not None and out.exists():
            parts |= json.loads(out.read_text("utf-8"))["parts"]
        for kind, file in zip(THREADS, (whole, some), strict=True):
            if arguments.only not in (None, kind):
                continue
            best, seconds = tried(place, some, kind)
            num_lines = file.read_bytes().count(b"\n")
            for found in rounds_of(place, best, file, arguments.rounds):
                parts[kind] = measurement.provenance() | {
                    "lines": num_lines,
                    "plain_script": {each: str(who) for each, who in best.items()},
                    "tried_on_a_fifth_processor_seconds": seconds,
                    "searches": summary(place, found, num_lines),
                }
                measurement.write(out, report)
    print(json.dumps(parts, indent=2))


if __name__ == "__main__":
    main()
