"""Report what a wider beam brings: mean score by the model, and BLEU, by width.

    python benchmarks/beam_widths.py [FOLDER] [--source FILE --reference FILE]

Without files: 500 held-out sentences of the demo corpus, for the model in
tests/models/demo. The result goes to benchmarks/results/beam_widths.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from result_file import SEARCH, Measurement, add_options, place_of

import headwise
from headwise.data.corpus_reader import read_lines
from headwise.decoding.settings import DecodingSettings, paper
from headwise.demo_corpus import demo_corpus
from headwise.metrics.registry import measure

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "beam_widths.json"
WIDTHS = (1, 2, 4, 8, 16)
SEARCHES = {
    "n^1, first-k": DecodingSettings(patience=1.0),
    "default (n^1, patience 2)": DecodingSettings(),
    "exact": DecodingSettings(stopping="exact"),
    "paper": paper(),
    "no penalty, exact": DecodingSettings(length_penalty="none", stopping="exact"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=ROOT / "tests" / "models" / "demo"
    )
    parser.add_argument("--source", type=Path)
    parser.add_argument("--reference", type=Path)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    measurement = Measurement.begin([*SEARCH, "src/headwise/metrics/*"])
    torch.set_num_threads(1)

    sources, references = texts(arguments.source, arguments.reference)
    if arguments.rehearse:
        sources, references = sources[:20], references[:20]
    opened = headwise.load(arguments.folder, engine="torch").opened
    tokens = opened.task.encode(sources)
    rows = []
    for name, settings in SEARCHES.items():
        best: list[float] = []
        for width in WIDTHS:
            asked = replace(settings, beam=width)
            found = [
                outputs[0]
                for outputs in opened.task.search(opened.model, tokens, asked)
            ]
            scores = [each.score for each in found]
            outputs = [opened.task.decode(each) for each in found]
            worse = sum(
                now < before - 1e-4 for now, before in zip(scores, best, strict=False)
            )
            row = {
                "search": name,
                "beam": width,
                "mean_score": fmean(scores),
                "mean_log_probability": fmean(each.log_probability for each in found),
                "mean_length": fmean(len(each.tokens) for each in found),
                "bleu": measure("bleu", outputs, references).value,
                "worse_than_half_the_beam": worse if best else None,
            }
            best = scores
            rows.append(row)
            print(json.dumps(row))
    report = {
        "model": arguments.folder.name,
        "sentences": len(sources),
        "rows": rows,
    }
    measurement.write(place_of(arguments), report)


def texts(source: Path | None, reference: Path | None) -> tuple[list[str], list[str]]:
    """Return sources and references: those of files, or of the demo corpus."""
    if source is None or reference is None:
        corpus = demo_corpus(num_train=0, num_dev=0, num_held_out=500, seed=7)
        pairs = [(pair.english, pair.french) for pair in corpus.held_out]
    else:
        both = (
            [line.text for line in read_lines(path, print)]
            for path in (source, reference)
        )
        pairs = [pair for pair in zip(*both, strict=True) if pair[0].strip()]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


if __name__ == "__main__":
    main()
