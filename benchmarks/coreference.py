"""Measure which of two nouns a pronoun stands for: on held-out templates, on probes.

python benchmarks/coreference.py --corpora FOLDER --work FOLDER [--seeds 1,2,3]

The sample ``pronouns`` is trained as ``headwise demo pronouns`` does, and tested on
templates that training never has. The probes are questions of others, which the model
was not made for: its 12,000 sentences hold few of their words, and guessing gives 50%.
They are the Winograd schemas (wsc), Winogender, and pairs of sentences that differ in
one adjective (minimal-pairs); a pair counts as right where both sentences are.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from result_file import TRAINING, Measurement, place_of
from trials import parse_trial_options, run_trial, summary

from headwise.cli.demo_sample import sample_recipe
from headwise.cli.translate_and_score import read_parallel
from headwise.inference.load import load_predictor
from headwise.sample_data.samples import SAMPLES

RESULTS = Path(__file__).parent / "results" / "coreference.json"
SOURCES = [*TRAINING, "src/headwise/tasks/**/*", "src/headwise/sample_data/**/*"]


class Question(NamedTuple):
    """A sentence with a pronoun, and what it could stand for."""

    text: str
    answer: str
    distractor: str

    def as_example(self) -> tuple[str, str]:
        """Return the input and the label, as the sample has them."""
        lower = self.text.lower()
        ordered = sorted(
            (self.answer, self.distractor),
            key=lambda noun: lower.find(noun.lower()) % (len(lower) + 1),
        )
        label = "first" if ordered[0] == self.answer else "second"
        return f"{self.text} {' or '.join(ordered)}?", label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    arguments = parse_trial_options(parser, RESULTS)
    measurement = Measurement.begin(SOURCES)
    probes = {
        name: [*read(arguments.corpora / "probes")] for name, read in PROBES.items()
    }
    sample = SAMPLES["pronouns"]
    files = sample.write(arguments.work / "data")
    runs = []
    for seed in arguments.seeds:
        extra: dict[str, Any] = {"seed": seed}
        if arguments.rehearse:
            extra["training"] = {"steps": 20, "validate_every": 10}
        recipe = sample_recipe(sample, files, extra)
        folder = arguments.work / f"pronouns-{seed}"
        run = run_trial(folder, recipe, read_parallel(files["test"], None))
        runs.append({**run, "probes": answers(folder, probes)})
        print(json.dumps(runs[-1]), file=sys.stderr)
    means = {
        name: sum(run["probes"][name]["accuracy"] for run in runs) / len(runs)
        for name in PROBES
    }
    measurement.write(
        place_of(arguments),
        {
            "threads": torch.get_num_threads(),
            "runs": runs,
            **summary(runs),
            "probe_means": means,
        },
    )


def answers(
    folder: Path, probes: dict[str, list[Question]]
) -> dict[str, dict[str, float]]:
    """Return how many questions of each probe the model answers rightly."""
    predictor = load_predictor(folder)
    found = {}
    for name, questions in probes.items():
        inputs, labels = zip(*(each.as_example() for each in questions), strict=True)
        outputs = predictor.predict(inputs)
        right = [one == other for one, other in zip(outputs, labels, strict=True)]
        found[name] = {
            "questions": len(right),
            "accuracy": 100 * sum(right) / len(right),
            "answers_first": 100 * labels.count("first") / len(labels),
        }
        if name == "minimal-pairs":
            both = [
                one and other
                for one, other in zip(right[::2], right[1::2], strict=True)
            ]
            found[name]["both_right"] = 100 * sum(both) / len(both)
    return found


def winograd(folder: Path) -> Iterator[Question]:
    """Yield the Winograd schemas."""
    for _, before, pronoun, after, a, b, correct in table(folder / "wsc/wsc285.tsv"):
        answer, other = (a, b) if correct.strip(".") == "A" else (b, a)
        yield Question(f"{before} {pronoun} {after}", answer, other)


def winogender(folder: Path) -> Iterator[Question]:
    """Yield the sentences of Winogender, whose names say the answer (0 or 1)."""
    for name, sentence in table(folder / "winogender/all_sentences.tsv"):
        occupation, participant, answer, *_ = name.split(".")
        nouns = occupation, participant
        chosen = int(answer)
        # "someone" stands in the place of some participants.
        present = [noun if noun in sentence.lower() else "someone" for noun in nouns]
        yield Question(sentence, present[chosen], present[1 - chosen])


def minimal_pairs(folder: Path) -> Iterator[Question]:
    """Yield sentences in pairs that differ in one adjective."""
    for _, _, sentence, answer, other, *_ in table(
        folder / "pronoun_minimal_pairs.tsv"
    ):
        yield Question(sentence, answer, other)


PROBES = {
    "wsc": winograd,
    "winogender": winogender,
    "minimal-pairs": minimal_pairs,
}
"""Name of a probe -> what reads its questions."""


def table(path: Path) -> Sequence[list[str]]:
    """Return the rows of a table, without its header."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line.split("\t") for line in lines[1:] if line]


if __name__ == "__main__":
    main()
