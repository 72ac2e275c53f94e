"""Measure what translations cost and how good they are, by beam and by model.

python benchmarks/beam_cost.py --corpora FOLDER [en-fr fr-en=FOLDER ...]

Tatoeba's validation sentences, by the models of packages/headwise-models, or by another
one after "=": BLEU, chrF, and the processor time of one thread. Beams take turns, round
after round. A wide model with a narrow beam may be better than a narrow model with a
wide one that costs as much. Figures of models that are not named stay as they are.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
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
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measurement = Measurement.begin(TRANSLATION)
    place = place_of(arguments)
    for model in arguments.models or DIRECTIONS:
        direction, _, folder = model.partition("=")
        corpus = "tatoeba-en-" + direction.replace("en", "").strip("-")
        pairs = turned(read(arguments.corpora / corpus / "dev.tsv"), direction)
        figures = measure(
            load(folder or MODELS / direction, threads=1),
            pairs[:50] if arguments.rehearse else pairs,
            arguments.beams,
            1 if arguments.rehearse else arguments.rounds,
        )
        found: dict[str, Any] = {}
        if place is not None and place.is_file():
            found = json.loads(place.read_text(encoding="utf-8"))["models"]
        name = f"{direction}, {Path(folder).parent.name}" if folder else direction
        found[name] = measurement.provenance() | figures
        print(json.dumps({name: figures}), file=sys.stderr)
        measurement.write(place, {"models": found})


def measure(
    translator: Translator, pairs: Pairs, beams: Sequence[int], rounds: int
) -> dict[str, Any]:
    """Return scores and the median processor time of each beam."""
    sources, references = map(list, zip(*pairs, strict=True))
    translator.translate(sources[0])  # weights are read when they are first needed
    outputs: dict[int, list[str]] = {}
    seconds: dict[int, list[float]] = {beam: [] for beam in beams}
    for _ in range(rounds):
        for beam in beams:
            began = time.process_time()
            outputs[beam] = translator.translate(sources, beam=beam)
            seconds[beam].append(time.process_time() - began)
    model = translator.opened.config
    return {
        "d_model": model.d_model,
        "sentences": len(pairs),
        "engines": translator.engine.used,
        "beams": {
            str(beam): {
                "bleu": bleu(outputs[beam], references).value,
                "chrf": chrf(outputs[beam], references).value,
                "processor_seconds": statistics.median(seconds[beam]),
                "least": min(seconds[beam]),
                "most": max(seconds[beam]),
            }
            for beam in beams
        },
    }


if __name__ == "__main__":
    main()
