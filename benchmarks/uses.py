"""Measure what models of the tasks reach: each use trained with several seeds.

python benchmarks/uses.py --work FOLDER [--only pronouns,sums] [--seeds 1,2,3]

The uses are the generated samples of ``headwise demo NAME``, trained with the settings
of that command; the seed draws the weights, the batches and the dropout, while the
examples stay the same. ``VARIANTS`` have other settings on top. The test part, which
shows combinations that training never does, is read once for each seed, by the model
that was best on the validation part; the metric that chose it comes first, and is the
one that is summarised. ``learning_curves.py`` draws the curves of the first seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from result_file import TRAINING, Measurement, place_of
from trials import add_run, parse_trial_options, run_trial, summary

from headwise.cli.demo_sample import sample_recipe
from headwise.cli.translate_and_score import read_parallel
from headwise.sample_data.samples import SAMPLES
from headwise.tasks import TASKS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "uses.json"
SOURCES = [
    *TRAINING,
    "src/headwise/tasks/**/*",
    "src/headwise/sample_data/**/*",
    "src/headwise/cli/demo_sample.py",
]
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "reviews-context": ("reviews", {"classification": {"pooling": "context"}}),
}
"""Name of a use -> the sample that it is trained on, and settings on top of its own."""

USES = [name for name, each in SAMPLES.items() if TASKS[each.task].final_measures]
USES += VARIANTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=USES)
    arguments = parse_trial_options(parser, RESULTS)
    measurement = Measurement.begin(SOURCES)
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    uses: dict[str, Any] = known.get("uses", {})
    for name in arguments.only:
        for seed in arguments.seeds:
            run = measure(name, seed, arguments)
            runs = add_run(uses.get(name, {}).get("runs", []), run)
            uses[name] = {
                "runs": runs,
                **summary(runs),
                "threads": torch.get_num_threads(),
                **measurement.provenance(),
            }
            print(json.dumps({name: summary(runs)}), file=sys.stderr)
            measurement.write(place_of(arguments), {"uses": uses})


def measure(name: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train the use ``name`` with one seed; return its scores and minutes."""
    sample_name, settings = VARIANTS.get(name, (name, {}))
    sample = SAMPLES[sample_name]
    files = sample.write(arguments.work / "data" / sample_name)
    extra: dict[str, Any] = {"seed": seed, **settings}
    if arguments.rehearse:
        extra["training"] = {"steps": 20, "validate_every": 10}
    recipe = sample_recipe(sample, files, extra)
    test = read_parallel(files["test"], None, task=sample.task)
    chosen_by = {recipe.training.measure} - {"loss"}
    metrics = [*dict.fromkeys([*chosen_by, *TASKS[sample.task].final_measures])]
    return run_trial(arguments.work / f"{name}-{seed}", recipe, test, metrics)


if __name__ == "__main__":
    main()
