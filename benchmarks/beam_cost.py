"""Measure what translations cost and how good they are, by beam and by model.

python benchmarks/beam_cost.py --corpora FOLDER [en-fr fr-en=FOLDER ...]

Tatoeba's validation sentences, by the models of packages/headwise-models, or by another
one after "=": BLEU, chrF, and the processor time of one thread. Models and beams take
turns, round after round: a wide model with a narrow beam may be better than a narrow
model with a wide one that costs as much. ``--part test`` reads the test set. Figures of
models that are not named stay as they are.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from result_file import TRANSLATION, Measurement, add_options, place_of
from robustness import Pairs, read
from shipped_models import DIRECTIONS, PACKAGE, turned

from headwise.inference.translator import Translator, load
from headwise.metrics.bleu_chrf_ter import bleu, chrf

RESULTS = Path(__file__).parent / "results" / "beam_cost.json"
MODELS = PACKAGE / "src" / "headwise_models"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="en-fr[=FOLDER]")
    parser.add_argument("--corpora", type=Path, required=True)
    beams = lambda text: [*map(int, text.split(","))]  # noqa: E731
    parser.add_argument("--beams", type=beams, default=[1, 2, 3, 4, 6])
    parser.add_argument("--part", choices=("dev", "test"), default="dev")
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measurement = Measurement.begin(TRANSLATION)
    place = place_of(arguments)
    cases = {}
    for model in arguments.models or DIRECTIONS:
        direction, _, folder = model.partition("=")
        name = f"{direction}, {Path(folder).parent.name}" if folder else direction
        if arguments.part != "dev":
            name += f", {arguments.part}"
        corpus = "tatoeba-en-" + direction.replace("en", "").strip("-")
        pairs = read(arguments.corpora / corpus / f"{arguments.part}.tsv")
        pairs = turned(pairs[:50] if arguments.rehearse else pairs, direction)
        cases[name] = load(folder or MODELS / direction, threads=1), pairs
    rounds = 1 if arguments.rehearse else arguments.rounds
    figures = measure(cases, arguments.beams, rounds)
    found: dict[str, Any] = {}
    if place is not None and place.is_file():
        found = json.loads(place.read_text(encoding="utf-8"))["models"]
    for name, of_model in figures.items():
        found[name] = measurement.provenance() | of_model
        print(json.dumps({name: of_model}), file=sys.stderr)
    measurement.write(place, {"models": found})


def measure(
    cases: Mapping[str, tuple[Translator, Pairs]], beams: Sequence[int], rounds: int
) -> dict[str, Any]:
    """Return scores and the median processor time of each model and beam."""
    outputs: dict[tuple[str, int], list[str]] = {}
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    for translator, pairs in cases.values():
        translator.translate(pairs[0][0])  # weights are read when they are first needed
    for _ in range(rounds):
        for (name, (translator, pairs)), beam in product(cases.items(), beams):
            sources = [source for source, _ in pairs]
            began = time.process_time()
            outputs[name, beam] = translator.translate(sources, beam=beam)
            seconds[name, beam].append(time.process_time() - began)
    return {
        name: {
            "d_model": translator.opened.config.d_model,
            "sentences": len(pairs),
            "engines": translator.engine.used,
            "beams": {
                str(beam): scored(outputs[name, beam], [target for _, target in pairs])
                | {
                    "processor_seconds": statistics.median(seconds[name, beam]),
                    "least": min(seconds[name, beam]),
                    "most": max(seconds[name, beam]),
                }
                for beam in beams
            },
        }
        for name, (translator, pairs) in cases.items()
    }


def scored(outputs: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    return {
        "bleu": bleu(outputs, references).value,
        "chrf": chrf(outputs, references).value,
    }


if __name__ == "__main__":
    main()
