"""Measure how right the time left is that training tells after 50 updates.

python benchmarks/time_left.py

Five runs on the demo's corpus, each in a process of its own, minutes each. After
50 updates the estimate is noted, and compared with what the rest then took: updates,
validations, checkpoints and that of their average. The goal: a median of 20% at most.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_file import SAVING, TRAINING, Measurement, add_options, place_of

from headwise.cli.demo import SETTINGS
from headwise.data.prepare import prepare
from headwise.demo_corpus import write
from headwise.recipe import resolve
from headwise.run_folder.run import train_run
from headwise.settings import merged
from headwise.training.allocator import keep_freed_memory
from headwise.training.time_left import TimeLeft

RESULTS = Path(__file__).parent / "results" / "time_left.json"
GOAL = 0.2
NOTED_AFTER = 50
CHANGES = {
    "training": {"validate_every": 100, "validation_pairs": 300, "average_last": 3}
}
"""On top of the demo's settings, so that several validations are to come."""


class Recorder:
    """Notes what was foreseen after some updates, and what came."""

    def __init__(self, estimate: TimeLeft, after: int) -> None:
        self.estimate = estimate
        self.after = after
        self.foreseen: float | None = None
        self.noted = self.ended = 0.0

    def on_start(self, state, settings, epoch_batches):
        """Begin to estimate."""
        self.estimate.on_start(state, settings, epoch_batches)

    def on_step(self, update, state):
        """Note the estimate when it is time."""
        self.estimate.on_step(update, state)
        if update.step == self.after:
            self.foreseen, self.noted = self.estimate.seconds(state), time.monotonic()

    def on_validation(self, validation, state, name, best):
        """Let the estimate know of a validation."""
        self.estimate.on_validation()

    def on_message(self, text):
        """Pass it on."""
        print(text, file=sys.stderr)

    def on_end(self, state, reason):
        """Note when it was over."""
        self.ended = time.monotonic()


def measure(steps: int, after: int, seed: int) -> dict[str, float]:
    """Train once; return what was foreseen and what it took, in seconds."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write(folder)
        files = {
            part: {side: str(folder / f"{part}.{code}") for side, code in SIDES.items()}
            for part in ("train", "dev")
        }
        extra = merged(merged(SETTINGS, CHANGES), {"training": {"steps": steps}})
        data = {"corpora": [files["train"]], "dev": files["dev"]}
        extra = {**extra, "data": data, "seed": seed}
        recipe = resolve(preset="tiny", extra=extra)
        corpus = prepare(recipe.data, recipe.text, folder / "prepared", seed=seed)
        recorder = Recorder(TimeLeft(corpus.facts), after)
        train_run(folder / "run", recipe, corpus, callbacks=[recorder])
    assert recorder.foreseen is not None
    took = recorder.ended - recorder.noted
    return {
        "foreseen_seconds": round(recorder.foreseen, 1),
        "took_seconds": round(took, 1),
        "error": round(recorder.foreseen / took - 1, 4),
    }


SIDES = {"source": "en", "target": "fr"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--after", type=int, default=NOTED_AFTER)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(measure(arguments.steps, arguments.after, arguments.one)))
        return
    if arguments.rehearse:
        arguments.runs, arguments.steps, arguments.after = 1, 12, 6
    measurement = Measurement.begin([*TRAINING, *SAVING])
    runs = []
    for seed in range(1, arguments.runs + 1):
        command = [sys.executable, __file__, "--one", str(seed)]
        command += ["--steps", str(arguments.steps), "--after", str(arguments.after)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        runs.append(json.loads(done.stdout))
        print(runs[-1], file=sys.stderr)
    errors = [abs(run["error"]) for run in runs]
    result = {
        "steps": arguments.steps,
        "noted_after": arguments.after,
        "runs": runs,
        "median_error": round(statistics.median(errors), 4),
        "largest_error": max(errors),
        "goal": GOAL,
    }
    measurement.write(place_of(arguments), result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
