"""Teach a fast student what a large model knows, and compare the two.

python benchmarks/student.py --corpora FOLDER --work FOLDER
python benchmarks/student.py measure --corpora FOLDER --work FOLDER

The steps are teacher, distil, student, score and measure; all of them, unless some are
named. The first three are what docs/student.md tells a user to type, for Multi30k from
English to German. ``score`` translates the tests with both models, with both engines in
two precisions each; ``measure`` lets both search in turn, in processes that live from
the first round to the last, and waits for a quiet machine before each round. What a
step found is kept in the working folder, and goes to benchmarks/results/student.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import decoding
from end_to_end import wait_for_quiet
from rehearsal import SMALL, beginnings
from result_file import (
    TRAINING,
    TRANSLATION,
    Measurement,
    add_options,
    place_of,
    write_json,
)

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "student.json"
HEADWISE = [sys.executable, "-m", "headwise"]
MODELS = ("teacher", "student")
TESTS = ("test_2016_flickr", "test_2017_flickr")

SETTINGS = {
    "headwise torch float32, 2 threads": ("torch", "float32"),
    "headwise torch bf16, 2 threads": ("torch", "bf16"),
    "ctranslate2 float32, 2 workers": ("ctranslate2", "float32"),
    "ctranslate2 int8, 2 workers": ("ctranslate2", "int8"),
}
"""Label in decoding.py to engine and precision; both cores work in each."""

TEACHING = ("--beam", "4", "--precision", "int8")
"""How the teacher translates what the student is to learn."""


@dataclass(frozen=True)
class Places:
    """Where the corpora lie, and all that is made of them."""

    corpora: Path
    work: Path
    changed: tuple[str, ...] = ()
    """Settings that are not those of the recipes."""

    def text(self, part: str) -> list[Path]:
        """Return both files of a part of Multi30k, source and target."""
        folder = self.corpora / "multi30k"
        return [folder / f"{part}.{side}.gz" for side in ("en", "de")]

    @property
    def taught(self) -> list[Path]:
        """Return what the student learns from: source and target."""
        return [self.work / f"taught.{side}" for side in ("en", "de")]

    def found(self, step: str) -> Path:
        """Return where a step leaves what it found."""
        return self.work / f"{step}.json"


def headwise(*words: object, stdout: Any = None) -> float:
    """Run a command as a user would; return its seconds."""
    typed = [*HEADWISE, *map(str, words)]
    print("$ headwise", *(Path(each).name for each in typed[3:]), file=sys.stderr)
    started = time.monotonic()
    subprocess.run(typed, check=True, stdout=stdout)
    return time.monotonic() - started


def trained(places: Places, name: str, texts: list[Path]) -> dict[str, Any]:
    """Prepare a corpus and train by the recipe of that name, or go on with it."""
    recipe = ROOT / "recipes" / f"multi30k-{'base' if name == 'teacher' else name}.toml"
    corpus, out = places.work / f"{name}-corpus", places.work / name
    settings = ["--recipe", recipe]
    settings += [word for each in places.changed for word in ("--set", each)]
    if not corpus.exists():
        dev = ["--dev", *places.text("val")]
        headwise("prepare", *texts, *dev, *settings, "--out", corpus)
    headwise("train", corpus, *settings, "--out", out)
    log = [json.loads(line) for line in (out / "log.jsonl").open(encoding="utf-8")]
    updates = [entry for entry in log if entry["what"] == "update"]
    seen = [entry for entry in log if entry["what"] == "validation"]
    return {
        "recipe": recipe.name,
        "updates": updates[-1]["step"],
        "tokens": sum(each["tokens"] for each in updates),
        "minutes": round(seen[-1]["seconds"] / 60, 1),
        "weights_bytes": (out / "best" / "model.safetensors").stat().st_size,
        "greedy_bleu_of_val": {
            f"{each['step']}{' (mean)' * (each['name'] != 'now')}": round(
                each["scores"]["bleu"]["value"], 2
            )
            for each in seen
        },
    }


def teacher(places: Places) -> dict[str, Any]:
    """Train the large model on the corpus as it is."""
    return trained(places, "teacher", places.text("train"))


def distil(places: Places) -> dict[str, Any]:
    """Let the teacher translate what it learned from; set that beside the original."""
    source, target = places.text("train")
    output = places.work / "teacher.de"
    with output.open("wb") as file:
        words = ["translate", places.work / "teacher", source, *TEACHING]
        seconds = headwise(*words, stdout=file)
    taught = [gzip.decompress(source.read_bytes())] * 2
    wanted = gzip.decompress(target.read_bytes())
    for path, halves in zip(
        places.taught, (taught, [wanted, output.read_bytes()]), strict=True
    ):
        path.write_bytes(b"".join(halves))
    lines, written = (each.split(b"\n") for each in (wanted, output.read_bytes()))
    return {
        "search": " ".join(TEACHING),
        "minutes": round(seconds / 60, 1),
        "pairs": places.taught[0].read_bytes().count(b"\n"),
        "outputs_like_the_reference": round(
            statistics.fmean(
                one == other for one, other in zip(lines, written, strict=True)
            ),
            4,
        ),
    }


def student(places: Places) -> dict[str, Any]:
    """Train the fast model on both."""
    return trained(places, "student", places.taught)


def score(places: Places) -> dict[str, Any]:
    """Translate the tests with each model, engine and precision."""
    found: dict[str, Any] = {}
    for test in TESTS:
        for name, beam in decoding.BEAMS.items():
            rows = found.setdefault(test, {}).setdefault(name, {})
            for label, (engine, precision) in SETTINGS.items():
                row: dict[str, Any] = {}
                for model in MODELS:
                    chosen = ["--engine", engine, "--precision", precision]
                    words = [*HEADWISE, "evaluate", places.work / model]
                    words += [*places.text(test), *chosen, "--beam", beam, "--json"]
                    done = subprocess.run(
                        list(map(str, words)), check=True, stdout=subprocess.PIPE
                    )
                    scores = json.loads(done.stdout)
                    row[model] = {
                        each["name"]: round(each["value"], 2) for each in scores
                    }
                lost = row["teacher"]["BLEU"] - row["student"]["BLEU"]
                rows[label.split(",")[0]] = row | {"bleu_lost": round(lost, 2)}
                print(test, name, label, json.dumps(row), file=sys.stderr)
    return found


def measure(places: Places, rounds: int, every: int, quiet: float) -> dict[str, Any]:
    """Let teacher and student search in turn, in each engine and precision."""
    lines = decoding.read(places.text(TESTS[0])[0])[::every]
    answers: dict[Any, list[dict[str, Any]]] = {}
    with ExitStack() as stack:
        processes = {}
        for model in MODELS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            decoding.prepare(
                folder, places.work / model, lines, min(decoding.SINGLE, len(lines))
            )
            for label in SETTINGS:
                process = subprocess.Popen(
                    [sys.executable, decoding.__file__, "--serve", label, str(folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=os.environ
                    | {"OMP_NUM_THREADS": str(decoding.ENGINES[label][2])},
                )
                stack.callback(process.wait)
                assert process.stdin is not None
                stack.callback(process.stdin.close)
                processes[label, model] = process
        for (label, model), process in processes.items():
            if not answer(process):
                raise SystemExit(f"{model}, {label}: did not start")
        for number in range(rounds):
            wait_for_quiet(most=quiet)
            for label, model in sorted(processes):
                process = processes[label, model]
                for name in decoding.BEAMS:
                    print(name, file=process.stdin, flush=True)
                    found = answer(process)
                    answers.setdefault((name, label, model), []).append(found)
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return {"sentences": len(lines), "rounds": rounds} | {
        name: {
            label: compared(
                {model: answers[name, label, model] for model in MODELS}, len(lines)
            )
            for label in SETTINGS
        }
        for name in decoding.BEAMS
    }


def answer(process: subprocess.Popen[str]) -> Any:
    """Read one answer of a process; nothing, if it has ended."""
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line else None


def compared(rounds: dict[str, list[dict[str, Any]]], num_lines: int) -> dict[str, Any]:
    """Return the medians of both models, and how many times the student's is more."""
    rows: dict[str, Any] = {}
    for model, answers in rounds.items():
        speeds = [each["sentences_per_second"] for each in answers]
        rows[model] = {
            key: round(statistics.median(each[key] for each in answers), 2)
            for key in answers[0]
            if key != "outputs"
        } | {"all_sentences_per_second": [round(each, 1) for each in speeds]}
        rows[model]["tokens_a_sentence"] = round(
            sum(len(each) for each in answers[0]["outputs"]) / num_lines, 2
        )
    both = [rows[model] for model in MODELS]
    speed, latency, used = (
        [each[key] for each in both]
        for key in ("sentences_per_second", "p50_milliseconds", "processor_seconds")
    )
    each_round = zip(*(row["all_sentences_per_second"] for row in both), strict=True)
    return {
        "student_over_teacher": round(speed[1] / speed[0], 2),
        "of_single_rounds": [round(fast / slow, 2) for slow, fast in each_round],
        "processor_time_teacher_over_student": round(used[0] / used[1], 2),
        "latency_teacher_over_student": round(latency[0] / latency[1], 2),
        **rows,
    }


STEPS = {
    "teacher": teacher,
    "distil": distil,
    "student": student,
    "score": score,
    "measure": measure,
}


def collected(places: Places) -> dict[str, Any]:
    """Return what all steps so far have found, each with how and where it was."""
    return {
        step: json.loads(places.found(step).read_text("utf-8"))
        for step in STEPS
        if places.found(step).exists()
    }


def main() -> None:
    """Take the steps, and write what all of them found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", help=f"of {', '.join(STEPS)}; none: all")
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--every", type=int, default=2, help="measure every nth line")
    parser.add_argument("--quiet", type=float, default=600, help="seconds to wait")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.rehearse:
        arguments.corpora = beginnings(arguments.corpora, arguments.work / "beginnings")
        arguments.rounds, arguments.every, arguments.quiet = 1, 20, 0
    changed = SMALL if arguments.rehearse else ()
    places = Places(arguments.corpora, arguments.work, changed)
    places.work.mkdir(parents=True, exist_ok=True)
    for step in arguments.steps or STEPS:
        if step not in STEPS:
            parser.error(f"{step} is not a step; known: {', '.join(STEPS)}")
        options = (
            (arguments.rounds, arguments.every, arguments.quiet)
            if step == "measure"
            else ()
        )
        measurement = Measurement.begin([*TRAINING, *TRANSLATION, "recipes/*.toml"])
        found = STEPS[step](places, *options)
        measurement.write(places.found(step), found)
    out = place_of(arguments)
    if out is not None:
        write_json(out, collected(places))
    print(out, file=sys.stderr)


if __name__ == "__main__":
    main()
