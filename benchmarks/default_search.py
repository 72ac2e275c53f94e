"""Measure what each rule of stopping costs and loses, to choose the default search.

    python benchmarks/default_search.py NAME FOLDER [--source FILE --reference FILE]

One model and one text a call; NAME is what the result is filed under in
benchmarks/results/default_search.json, beside those of other models. Without files: the
1,000 held-out sentences of the demo corpus.
--table prints all results as Markdown.

Of each search and beam: BLEU; words of outputs over those of references; outputs that
the model itself scores lower (T / n) than what greedy search found; outputs that are
the reference; outputs with fewer than 0.6 of its words; outputs equal to those of the
other rules; and the user CPU time of one thread, which other work on the machine
disturbs less than the wall clock. With --rounds searches take turns; the least counts.
Rows of other --beams, --rules or --engine may be added by further calls.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from result_file import SEARCH, Measurement, add_options, place_of, write_json

import headwise
from headwise.data.corpus_reader import read_lines
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.demo_corpus import demo_corpus
from headwise.metrics.registry import measure
from headwise.run_folder.model_folder import ModelFolder

RESULTS = Path(__file__).parent / "results" / "default_search.json"
BEAMS = [4, 5, 8]
RULES: dict[str, dict[str, Any]] = {
    "first-k": {"stopping": "first-k", "patience": 1.0},
    "patience 1.5": {"stopping": "first-k", "patience": 1.5},
    "patience 2": {"stopping": "first-k", "patience": 2.0},
    "exact": {"stopping": "exact"},
}
SHORT = 0.6
AS_GOOD = 1e-4
"""Scores nearer than this are the same: sums are added up in another order."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--about", default="", help="what model and text this is")
    parser.add_argument("--sentences", type=int, help="the first so many; else all")
    parser.add_argument("--beams", type=int, nargs="+", default=BEAMS)
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES))
    parser.add_argument("--engine", default="torch-eager")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    out = place_of(arguments)
    if arguments.table:
        print(*tables(json.loads((out or RESULTS).read_text())), sep="\n")
        return
    if arguments.rehearse:
        arguments.sentences, arguments.beams = 4, [2]
    measurement = Measurement.begin([*SEARCH, "src/headwise/metrics/*"])
    torch.set_num_threads(1)

    sources, references = (
        side[: arguments.sentences]
        for side in texts(arguments.source, arguments.reference)
    )
    translator = headwise.load(arguments.folder, engine=arguments.engine)
    opened = translator.opened
    tokens = opened.task.encode(sources)
    found: dict[str, list[Hypothesis]] = {}
    seconds: dict[str, float] = {}
    for _ in range(arguments.rounds):
        for name, settings in searches(arguments.beams, arguments.rules).items():
            before = user_seconds()
            outputs = translator.engine.search(tokens, settings)
            seconds[name] = min(
                user_seconds() - before, seconds.get(name, float("inf"))
            )
            found[name] = [best for (best,) in outputs]
    result = {
        "parts": [{**measurement.provenance(), "rounds": arguments.rounds}],
        "about": arguments.about,
        "sentences": len(sources),
        "searches": {
            name: {
                **measured(opened, outputs, found["greedy"], references),
                "engine": arguments.engine,
                "user_seconds": round(seconds[name], 2),
                "equal": equal_to_other_rules(name, found),
            }
            for name, outputs in found.items()
        },
    }
    if out is not None:
        results = json.loads(out.read_text()) if out.exists() else {}
        before = results.get(arguments.name, {"parts": [], "searches": {}})
        result["parts"] = [*before["parts"], *result["parts"]]
        result["searches"] = {**before["searches"], **result["searches"]}
        write_json(out, {**results, arguments.name: result})
    print(*tables({arguments.name: result}), sep="\n")


def searches(beams: list[int], rules: list[str]) -> dict[str, DecodingSettings]:
    """Return every search under its name, greedy search first."""
    return {
        "greedy": greedy(),
        **{
            f"beam {beam}, {name}": DecodingSettings(beam=beam, **RULES[name])
            for beam in beams
            for name in rules
        },
    }


def measured(
    opened: ModelFolder,
    found: list[Hypothesis],
    by_greedy: list[Hypothesis],
    references: list[str],
) -> dict[str, Any]:
    """Compare outputs with the references, and their scores with those of greedy's."""
    outputs = [opened.task.decode(each) for each in found]
    pairs = list(zip(outputs, references, strict=True))
    words = [(len(output.split()), len(wanted.split())) for output, wanted in pairs]
    return {
        "bleu": round(measure("bleu", outputs, references).value, 2),
        "length_ratio": round(sum(a for a, _ in words) / sum(b for _, b in words), 4),
        "mean_score": round(fmean(each.score for each in found), 5),
        "lower_score_than_greedy": sum(
            one.score < other.score - AS_GOOD
            for one, other in zip(found, by_greedy, strict=True)
        ),
        "exact_matches": sum(output == wanted for output, wanted in pairs),
        "short": sum(a < SHORT * b for a, b in words),
        "cut_off": sum(not each.finished for each in found),
    }


def equal_to_other_rules(
    name: str, found: dict[str, list[Hypothesis]]
) -> dict[str, int]:
    """Count the outputs that another rule finds too, with the same beam."""
    beam, _, rule = name.partition(", ")
    return {
        other: sum(
            a.tokens == b.tokens
            for a, b in zip(found[name], found[f"{beam}, {other}"], strict=True)
        )
        for other in RULES
        if rule and other != rule and f"{beam}, {other}" in found
    }


def texts(source: Path | None, reference: Path | None) -> tuple[list[str], list[str]]:
    """Return sources and references: those of files, or of the demo corpus."""
    if source is None or reference is None:
        pairs = [(pair.english, pair.french) for pair in demo_corpus().held_out]
    else:
        both = (
            [line.text for line in read_lines(path, print)]
            for path in (source, reference)
        )
        pairs = [pair for pair in zip(*both, strict=True) if pair[0].strip()]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def user_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def tables(results: dict[str, Any]) -> list[str]:
    """Return every result as Markdown."""
    lines = []
    for name, result in results.items():
        lines += [
            "",
            f"{name}: {result['sentences']:,} sentences. {result['about']}",
            "",
            "| search | BLEU | length ratio | lower score than greedy | exact matches "
            "| short | user CPU, s |",
            "| --- |" + " --- |" * 6,
        ]
        lines += [
            f"| {search} | {row['bleu']:.2f} | {row['length_ratio']:.3f} "
            f"| {row['lower_score_than_greedy']} | {row['exact_matches']} "
            f"| {row['short']} | {row['user_seconds']:.1f} |"
            for search, row in result["searches"].items()
        ]
    return lines


if __name__ == "__main__":
    main()
