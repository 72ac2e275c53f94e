"""Measure what a translator does with text that is not as its training text was.

python benchmarks/robustness.py --corpora FOLDER --languages en-de plain=FOLDER ...

Each model folder translates the test sentences of Tatoeba as they are, and changed in
the ways of ``VARIANTS``: in capitals, in title case, without the last mark, two in a
line, and with a URL, an e-mail address, a word of an unknown script, an emoji or a name
that is not in Tatoeba in the place of a name that both sides have. What is copied must
come out exactly.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from result_file import TRANSLATION, Measurement, add_options, place_of

from headwise.inference.translator import load
from headwise.metrics.bleu_chrf_ter import bleu, chrf
from headwise.text.placeholders import PLACEHOLDER, mask_shared

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "robustness.json"

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Variant:
    """Changed test pairs; ``copied`` is what each output must have once."""

    pairs: Pairs
    copied: str | None = None
    search: Mapping[str, Any] = field(default_factory=dict)
    """Decoding settings besides those of the model."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--languages", default="en-de")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    measurement = Measurement.begin(TRANSLATION)
    path = arguments.corpora / f"tatoeba-{arguments.languages}" / "test.tsv"
    pairs = read(path)[: 100 if arguments.rehearse else None]
    variants = {name: make(pairs) for name, make in VARIANTS.items()}
    found: dict[str, Any] = {}
    for model in arguments.models:
        name, _, folder = model.partition("=")
        found[name] = measure(folder, variants)
        print(json.dumps({name: found[name]}, indent=2), file=sys.stderr)
    measurement.write(
        place_of(arguments), {"languages": arguments.languages, "models": found}
    )


def measure(folder: str, variants: Mapping[str, Variant]) -> dict[str, Any]:
    """Return the scores of one model by variant."""
    translator = load(folder)
    found = {}
    for name, variant in variants.items():
        sources, references = map(list, zip(*variant.pairs, strict=True))
        outputs = [each.text for each in translator.lines(sources, **variant.search)]
        found[name] = {
            "lines": len(sources),
            "chrf": round(chrf(outputs, references).value, 2),
            "bleu": round(bleu(outputs, references).value, 2),
        }
        if variant.copied:
            exact = sum(each.count(variant.copied) == 1 for each in outputs)
            found[name]["copied"] = round(100 * exact / len(outputs), 2)
    return found


def with_value(value: str, **search: Any) -> Callable[[Pairs], Variant]:
    """Return what puts ``value`` in the place of a name that both sides have."""

    def make(pairs: Pairs) -> Variant:
        masked = (mask_shared(*pair, rate=1.0, seed=1) for pair in pairs)
        return Variant(
            [
                (source.replace(PLACEHOLDER, value), target.replace(PLACEHOLDER, value))
                for source, target in masked
                if source.count(PLACEHOLDER) == 1
            ],
            value,
            search,
        )

    return make


def changed(change: Callable[[str], str]) -> Callable[[Pairs], Variant]:
    """Return what changes both sides alike."""
    return lambda pairs: Variant([(change(a), change(b)) for a, b in pairs])


def without_last_mark(text: str) -> str:
    return text.rstrip(".!?… ")


def two_in_a_line(split: bool) -> Callable[[Pairs], Variant]:
    """Return what joins each sentence with the next one: (1, 2), (2, 3), ..."""

    def make(pairs: Pairs) -> Variant:
        joined = (zip(*two, strict=True) for two in pairwise(pairs))
        lines = [(" ".join(a), " ".join(b)) for a, b in joined]
        return Variant(lines, search={"split_sentences": split})

    return make


VARIANTS: dict[str, Callable[[Pairs], Variant]] = {
    "as it is": Variant,
    "capitals": changed(str.upper),
    "title case of the source": lambda pairs: Variant(
        [(source.title(), target) for source, target in pairs]
    ),
    "without the last mark": changed(without_last_mark),
    "two sentences in a line": two_in_a_line(split=False),
    "two sentences in a line, split": two_in_a_line(split=True),
    "URL": with_value("https://example.org/a-b?c=1"),
    "e-mail address": with_value("ana.b_c@example.co.uk"),
    "unknown script": with_value("Ελένη"),
    "emoji": with_value("🦉"),
    "unknown name": with_value("Kowalski"),
    "unknown first and last name": with_value("Katarzyna Nowak"),
    "unknown acronym": with_value("UNHCR"),
}


def read(path: Path) -> Pairs:
    """Return the pairs of a table, first and second column."""
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in lines if line]
    return [(row[0], row[1]) for row in rows]


if __name__ == "__main__":
    main()
