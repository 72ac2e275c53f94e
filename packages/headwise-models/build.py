"""Make the models of this package: train, store as float16, write the card.

    headwise data get tatoeba-en-fr --out corpora/tatoeba-en-fr
    python packages/headwise-models/build.py en-fr fr-en --work runs

``--step`` repeats one step: ``train`` makes WORK/en-fr (hours on one core; minutes with
``--device cuda``; an interrupted run is resumed), ``assemble`` takes the model of that
run into the package, and ``card`` writes the notes of the card by the figures that
``benchmarks/shipped_models.py`` measured and by limits/en-fr.md. Without ``--step``,
``train`` and ``assemble`` run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MODELS = HERE / "src" / "headwise_models"
RESULTS = HERE.parents[1] / "benchmarks" / "results" / "shipped_models.json"
NAMES = {"en": "English", "fr": "French", "de": "German"}
DIRECTIONS = ("en-fr", "fr-en", "en-de", "de-en")
STEPS = ("train", "assemble", "card")


def main() -> None:
    """Run the steps for each direction."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directions", nargs="*", metavar="en-fr")
    parser.add_argument("--work", type=Path, default=Path("runs"))
    parser.add_argument("--corpora", type=Path, default=Path("corpora"))
    parser.add_argument("--device", default="cpu", help="what trains: cpu or cuda")
    parser.add_argument("--step", choices=STEPS)
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.directions} - {*DIRECTIONS}):
        parser.error(f"{', '.join(unknown)}: name some of {', '.join(DIRECTIONS)}")
    steps = [arguments.step] if arguments.step else ["train", "assemble"]
    for direction in arguments.directions or DIRECTIONS:
        run = arguments.work / direction
        if "train" in steps:
            train(direction, run, arguments.corpora, arguments.device)
        if "assemble" in steps:
            assemble(direction, run)
        if "card" in steps:
            write_card(direction, json.loads(RESULTS.read_text(encoding="utf-8")))


ON_GPU = ("training.backend=torch_compile", "training.data_workers=1")
"""Settings on top of the recipe for a GPU."""


def train(direction: str, run: Path, corpora: Path, device: str) -> None:
    """Train a direction on its corpus, whose first column is English."""
    source, target = direction.split("-")
    folder = corpora / corpus_of(direction)
    settings = ON_GPU if device == "cuda" else ()
    headwise(
        *("run", folder / "train.tsv", "--dev-file", folder / "dev.tsv"),
        *("--columns", *((1, 2) if source == "en" else (2, 1))),
        *("--recipe", HERE / "recipe.toml", "--languages", source, target),
        *("--threads", 1, "--device", device, "--out", run),
        *(word for each in settings for word in ("--set", each)),
    )


def assemble(direction: str, run: Path) -> None:
    """Copy the best model of a run into the package, in float16."""
    source, target = direction.split("-")
    with tempfile.TemporaryDirectory(dir=HERE) as temporary:
        model = Path(temporary) / direction
        shutil.copytree(run / "best", model, ignore=shutil.ignore_patterns("exports"))
        headwise(
            *("edit", model, "--float16", "--license", "cc-by-2.0"),
            *("--search", "recase=true", "--search", "copy_numbers=true"),
            *("--search", "copy_names=true"),
            *("--languages", source, target),
            *("--title", f"Everyday sentences, {NAMES[source]} to {NAMES[target]}"),
        )
        shutil.rmtree(MODELS / direction, ignore_errors=True)
        shutil.move(model, MODELS / direction)


def write_card(direction: str, results: Mapping[str, Any]) -> None:
    """Write the notes of a card."""
    limits = (HERE / "limits" / f"{direction}.md").read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as file:
        file.write(notes(direction, results["models"][direction], limits))
        file.flush()
        headwise("edit", MODELS / direction, "--notes", file.name)


def notes(direction: str, figures: Mapping[str, Any], limits: str) -> str:
    """Return the notes of a card: data, scores of the test set, limits, licence."""
    test, suite = figures["test"], figures["robustness"]
    lines = [
        "### Where the text is from",
        "",
        f"`train.tsv` is that of `headwise data get {corpus_of(direction)}`"
        + (", with its columns swapped" if direction.endswith("-en") else "")
        + ": sentence pairs of",
        "Tatoeba in the collection of manythings.org, licensed under CC BY 2.0 FR.",
        "Attribution: www.manythings.org/anki and tatoeba.org",
        "",
        "### Scores on the test set",
        "",
        f"Of {test['lines']:,} sentences that share no sentence with the training "
        "text, by the default search:",
        "",
        "| measure | value | signature |",
        "| --- | --- | --- |",
        *(
            f"| {name} | {test[key]['value']:.1f} | {cell(test[key]['signature'])} |"
            for key, name in SCORES.items()
            if key in test
        ),
        "",
        "| the same sentences, changed | chrF | copied exactly |",
        "| --- | --- | --- |",
        *(
            f"| {name} | {row['chrf']:.1f} | {copied(row)} |"
            for name, row in suite.items()
        ),
        "",
        f"chrF of {figures['everyday']['lines']} everyday sentences that were written "
        f"for the test: {figures['everyday']['chrf']['value']:.1f}",
        "",
        "### What goes wrong",
        "",
        limits.strip(),
        "",
        "### Licence",
        "",
        "CC BY 2.0: https://creativecommons.org/licenses/by/2.0/",
    ]
    return "\n".join(lines)


SCORES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "bleu_all_references": "BLEU, all references",
    "chrf_all_references": "chrF, all references",
}
"""Key in the result file -> name in the card."""


def copied(row: Mapping[str, Any]) -> str:
    """Return the share of outputs that have what is copied, if anything is."""
    return f"{row['copied']:.1f}%" if "copied" in row else ""


def cell(signature: str) -> str:
    """Return a signature as code in a table, whose cells end at bars."""
    return f"`{signature}`".replace("|", "\\|")


def corpus_of(direction: str) -> str:
    """Return the name of the public corpus."""
    return f"tatoeba-en-{direction.replace('en', '').strip('-')}"


def headwise(*arguments: object) -> None:
    """Run the command line; end where it fails."""
    command = [sys.executable, "-m", "headwise", *map(str, arguments)]
    if status := subprocess.run(command).returncode:
        raise SystemExit(status)


if __name__ == "__main__":
    main()
