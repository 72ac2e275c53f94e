"""Measure the models of packages/headwise-models.

python benchmarks/shipped_models.py --corpora FOLDER [en-fr ...]

Of each direction: BLEU and chrF of Tatoeba's test sentences, with one reference and
with all; the same sentences changed as in ``robustness.py`` and in ``VARIANTS`` here;
whether numbers and names come through; the test and validation sentences whose unknown
names are copied, and the same with those translated; ``everyday.tsv``, sentences of our
own, with the outputs; pronouns (``pronouns`` here); size, speed, and how soon a command
answers. One thread. Figures of directions that are not named stay as they are, and with
``--start`` all but the last of these: it needs a machine at rest.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import robustness
import torch
from result_file import (
    COMMAND_LINE,
    TRANSLATION,
    Measurement,
    add_options,
    place_of,
)
from robustness import Pairs, Variant, changed, read, with_value
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from start_up import processor_seconds, summary

from headwise.decoding.settings import DecodingSettings
from headwise.inference.translator import Translated, Translator, load

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "packages" / "headwise-models"
RESULTS = ROOT / "benchmarks" / "results" / "shipped_models.json"
DIRECTIONS = ("en-fr", "fr-en", "en-de", "de-en")
CAT = "My cat does not want to go outside because it is lazy."
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directions", nargs="*", metavar="en-fr")
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument(
        "--models", type=Path, default=PACKAGE / "src" / "headwise_models"
    )
    parser.add_argument(
        "--start", action="store_true", help="measure again how soon a command answers"
    )
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measurement = Measurement.begin(
        [*TRANSLATION, *COMMAND_LINE, "src/headwise/run_folder/*"]
    )
    at_most = 50 if arguments.rehearse else None
    place = place_of(arguments)
    for direction in arguments.directions or DIRECTIONS:
        folder = arguments.models / direction
        figures: dict[str, Any] = {}
        if not arguments.start:
            figures = measure(folder, direction, arguments.corpora, at_most)
        started = measure_start(folder, 1 if at_most else ROUNDS)
        found: dict[str, Any] = {}
        if place is not None and place.is_file():
            found = json.loads(place.read_text(encoding="utf-8"))["models"]
        provenance = measurement.provenance()
        if arguments.start:
            known = found.get(direction, {})
            found[direction] = known | {"start": started | provenance}
        else:
            found[direction] = provenance | figures | {"start": started}
        print(json.dumps({direction: found[direction]}, indent=2), file=sys.stderr)
        measurement.write(place, {"models": found})


def measure(
    folder: Path, direction: str, corpora: Path, at_most: int | None
) -> dict[str, Any]:
    """Return all figures of one model."""
    source, target = direction.split("-")
    other = source if target == "en" else target
    corpus = corpora / f"tatoeba-en-{other}"
    pairs = turned(read(corpus / "test.tsv")[:at_most], direction)
    translator = load(folder, threads=1)
    figures: dict[str, Any] = {"bytes": size_of(folder)}
    figures |= measure_test(translator, pairs)
    if source == "en":
        references = [line[1:] for line in rows(corpus / "test.allrefs.tsv")[:at_most]]
        figures["test"] |= score_all(figures.pop("outputs"), references)
    else:
        del figures["outputs"]
    variants = {
        name: make(pairs) for name, make in (robustness.VARIANTS | VARIANTS).items()
    }
    figures["robustness"] = robustness.measure(str(folder), variants)
    figures["unknown_names"] = measure_unknown_names(
        translator, [*pairs, *turned(read(corpus / "dev.tsv")[:at_most], direction)]
    )
    figures["everyday"] = measure_everyday(translator, source, target)
    if source == "en":
        figures["pronouns"] = pronouns(translator, target)
    return figures


def size_of(folder: Path) -> int:
    """Return the bytes of a model folder without its cached exports."""
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and "exports" not in path.parts
    )


def measure_test(translator: Translator, pairs: Pairs) -> dict[str, Any]:
    """Return scores, speed and what comes through of the test sentences."""
    sources, references = map(list, zip(*pairs, strict=True))
    translator.translate(sources[0])  # weights are read when they are first needed
    began, worked = time.perf_counter(), time.process_time()
    found = [*translator.lines(sources, scores=False)]
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    outputs = [each.text for each in found]
    return {
        "outputs": outputs,
        "test": {"lines": len(pairs), **score(outputs, references)},
        "kept": {name: kept(pairs, outputs, what) for name, what in KEPT.items()},
        "warnings": count_warnings(found),
        "speed": {
            "sentences": len(pairs),
            "seconds": round(seconds, 2),
            "processor_seconds": round(processor, 2),
            "sentences_a_processor_second": round(len(pairs) / processor, 1),
            "engines": translator.engine.used,
        },
    }


def score(outputs: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    return {
        "bleu": scored(BLEU(), outputs, [list(references)]),
        "chrf": scored(CHRF(), outputs, [list(references)]),
    }


def score_all(
    outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Return scores with as many references of each sentence as there are."""
    columns = [[*column] for column in zip_longest(*references)]
    return {
        "bleu_all_references": scored(BLEU(), outputs, columns),
        "chrf_all_references": scored(CHRF(), outputs, columns),
    }


def scored(
    metric: Metric, outputs: Sequence[str], columns: Sequence[Sequence[str | None]]
) -> dict[str, Any]:
    value = metric.corpus_score(outputs, columns).score
    return {"value": round(value, 2), "signature": str(metric.get_signature())}


def kept(pairs: Pairs, outputs: Sequence[str], pattern: str) -> dict[str, Any]:
    """Return how many outputs have what source and reference share, just as often.

    The first word of a source does not count: its capital says nothing.
    """
    judged = []
    for (source, target), output in zip(pairs, outputs, strict=True):
        rest = source.partition(" ")[2]
        of_source, of_target, of_output = (
            Counter(re.findall(pattern, text)) for text in (rest, target, output)
        )
        if shared := of_source & of_target:
            judged.append(shared <= of_output)
    return {"lines": len(judged), "percent": percent(sum(judged), len(judged))}


KEPT = {"numbers": r"\d+", "names": r"\b[A-ZÀ-ÖØ-Þ]\w+"}
"""What a translation must keep -> pattern of it; a name has a capital letter."""


def count_warnings(found: Iterable[Translated]) -> dict[str, int]:
    """Return how many lines have each warning, numbers aside."""
    told = (re.sub(r"\d+", "N", each) for line in found for each in line.warnings)
    return dict(Counter(told))


def with_typo(text: str) -> str:
    """Return the text with two letters of its longest word exchanged."""
    word = max(re.findall(r"[^\W\d_]+", text) or [""], key=len)
    middle = len(word) // 2
    swapped = word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]
    return text.replace(word, swapped, 1) if len(word) > 3 else text


VARIANTS: dict[str, Callable[[Pairs], Variant]] = {
    "capitals, not recased": lambda pairs: Variant(
        changed(str.upper)(pairs).pairs, search={"recase": False}
    ),
    "title case of the source, not recased": lambda pairs: Variant(
        [(source.title(), target) for source, target in pairs],
        search={"recase": False},
    ),
    "unknown name, not copied": with_value("Kowalski", copy_names=False),
    "unknown first and last name, not copied": with_value(
        "Katarzyna Nowak", copy_names=False
    ),
    "unknown acronym, not copied": with_value("UNHCR", copy_names=False),
    "small letters": changed(str.lower),
    "a typo in the source": lambda pairs: Variant(
        [(with_typo(source), target) for source, target in pairs]
    ),
}
"""Variants besides those of ``robustness.py``."""


def measure_unknown_names(translator: Translator, pairs: Pairs) -> dict[str, Any]:
    """Return chrF of the sentences with names that are copied, and of them uncopied."""
    mask = translator.opened.texts.mask_copied
    without, copying = DecodingSettings(), DecodingSettings(copy_names=True)
    changed = [
        pair for pair in pairs if mask(pair[0], copying) != mask(pair[0], without)
    ]
    sources, references = map(list, zip(*changed, strict=True))
    return {
        "of": len(pairs),
        "lines": len(changed),
        **{
            name: scored(
                CHRF(),
                [each.text for each in translator.lines(sources, copy_names=copied)],
                [references],
            )["value"]
            for name, copied in (("chrf", True), ("chrf_not_copied", False))
        },
    }


def measure_everyday(translator: Translator, source: str, target: str) -> Any:
    """Return scores and outputs of our own sentences."""
    header, *table = rows(Path(__file__).parent / "everyday.tsv")
    named = {"en": "english", "fr": "french", "de": "german"}
    columns = [header.index(named[each]) for each in (source, target)]
    sources, references = ([row[column] for row in table] for column in columns)
    outputs = [each.text for each in translator.lines(sources)]
    return {
        "lines": len(table),
        **score(outputs, references),
        "outputs": [
            dict(zip(("source", "reference", "output"), each, strict=True))
            for each in zip(sources, references, outputs, strict=True)
        ],
    }


def pronouns(translator: Translator, language: str) -> dict[str, Any]:
    """Return how often "it" becomes the pronoun that agrees with its noun.

    ``contrastive`` (Müller et al. 2018): of two translations that differ in the pronoun
    and in what agrees with it, the right one must have the higher probability; guessing
    gives 50%. ``pairs`` counts both sentences of a pair as one. ``output``: which
    pronoun the model's own translation has after "because"; the noun may have another
    gender there, so ``other`` is not always wrong.
    """
    table = rows(Path(__file__).parent / "pronoun_translations.tsv")[1:]
    sentences, right, wrong = zip(
        *(row[3:] for row in table if row[2] == language), strict=True
    )
    scores = [
        [each.log_probability for each in translator.score(sentences, targets)]
        for targets in (right, wrong)
    ]
    correct = [one > other for one, other in zip(*scores, strict=True)]
    both = [one and other for one, other in zip(*[iter(correct)] * 2, strict=True)]
    find = PRONOUN[language]
    outputs = [each.text for each in translator.lines(sentences)]
    expected, others, found = (
        [find(each) for each in texts] for texts in (right, wrong, outputs)
    )
    agree = sum(one == each for one, each in zip(expected, found, strict=True))
    disagree = sum(one == each for one, each in zip(others, found, strict=True))
    return {
        "sentences": len(sentences),
        "contrastive": percent(sum(correct), len(correct)),
        "pairs": percent(sum(both), len(both)),
        "output": {
            "agrees": percent(agree, len(found)),
            "agrees_with_the_other_noun": percent(disagree, len(found)),
            "other": percent(len(found) - agree - disagree, len(found)),
        },
        "outputs": outputs,
    }


def pronoun_of(pattern: str) -> Callable[[str], str]:
    """Return what finds the pronoun after "because" in a translation; "" if none."""

    def find(output: str) -> str:
        match = re.search(pattern, output.lower())
        return match[1] if match else ""

    return find


PRONOUN = {
    "de": pronoun_of(r"\b(?:weil|da|denn) (er|sie|es)\b"),
    "fr": pronoun_of(r"(?:\bparce qu|\bcar |\bpuisqu)(?:e |['’])?(il|elle)\b"),
}


def measure_start(folder: Path, rounds: int) -> dict[str, Any]:
    """Return what a command takes from its start to the translation of one sentence.

    A first round, in which bytecode is made, is left out.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"{CAT}\n")
        file.flush()
        command = [sys.executable, "-m", "headwise", "translate", folder, file.name]
        seconds, processor = [], []
        for number in range(rounds + 1):
            before, started = processor_seconds(), time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            if number:
                seconds.append(time.perf_counter() - started)
                processor.append(processor_seconds() - before)
    return {
        "rounds": rounds,
        "seconds": summary(seconds),
        "processor_seconds": summary(processor),
    }


def turned(pairs: Pairs, direction: str) -> Pairs:
    """Return the pairs with English on the side where the direction has it."""
    english_first = direction.startswith("en")
    return pairs if english_first else [(target, source) for source, target in pairs]


def rows(path: Path) -> list[list[str]]:
    """Return the rows of a table, its header included."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line.split("\t") for line in lines if line]


def percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


if __name__ == "__main__":
    main()
