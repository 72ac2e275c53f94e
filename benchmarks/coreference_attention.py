"""Measure how much each head looks from a pronoun to its antecedent, and what for.

python benchmarks/coreference_attention.py --corpora FOLDER --work FOLDER [--seeds 1]

Over minimal pairs (:mod:`coreference_pairs`), the attention from the pronoun to the
noun that it stands for less that to the other noun; each head has a sign-flip test with
Holm's correction over all heads of the model. Then every head is switched off in turn:
how often is the right output still the more probable one? Models: the translation
models of this repository, and one with an encoder alone and one with a decoder alone,
which are trained here on ``headwise demo pronouns`` (some minutes each, one thread).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from coreference_heads import ALPHA, Table, attention_table, heads_off, pronouns_of
from coreference_pairs import (
    QUESTION,
    Pair,
    Sentence,
    as_dialogues,
    as_labels,
    demo_pairs,
    in_question,
    translated_probes,
    winogender_pairs,
    winograd_pairs,
)
from result_file import ROOT, TRANSLATION, Measurement, place_of
from shipped_models import PRONOUN
from trials import parse_trial_options, run_trial

import headwise
from headwise.cli.demo_sample import sample_recipe
from headwise.cli.translate_and_score import read_parallel
from headwise.inspection.places import parse_head
from headwise.sample_data.coreference import coreferences
from headwise.sample_data.samples import SAMPLES, Sample

RESULTS = ROOT / "benchmarks" / "results" / "coreference_attention.json"
SOURCES = [*TRANSLATION, "src/headwise/inspection/**/*", "src/headwise/sample_data/*"]
SOURCES += ["src/headwise/demo_corpus/*", "src/headwise/training/**/*"]
SOURCES += ["benchmarks/coreference_*.py", "benchmarks/paired_permutation.py"]
TRANSLATIONS = ROOT / "benchmarks" / "pronoun_translations.tsv"
SHIPPED = ROOT / "packages" / "headwise-models" / "src" / "headwise_models"

PICTURE = ROOT / "docs" / "notebook" / "coreference.png"

DEMO_PAIRS = 120
SAMPLE_PAIRS = 120
"""Most pairs of generated sentences, half of which choose the best head, and half of
which say what happens without it."""

DEMO_SEED = 7


@dataclass(frozen=True)
class Subject:
    """A model, and the pairs that are asked of it."""

    folder: Path
    pairs: list[Pair]
    """Whose attention is tested."""

    questions: list[Sentence]
    """Whose outputs are compared with each head off."""

    others: dict[str, list[Pair]] = field(default_factory=dict)
    """Further pairs without outputs: probe -> pairs."""

    language: str | None = None
    """Of translations, to find the pronoun in them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.set_defaults(seeds=[1])
    arguments = parse_trial_options(parser, RESULTS)
    torch.set_num_threads(1)
    measurement = Measurement.begin(SOURCES)
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    models: dict[str, Any] = known.get("models", {})
    for name, make in subjects(arguments).items():
        if arguments.only and name not in arguments.only:
            continue
        figures = measure(make(), arguments.rehearse)
        models[name] = measurement.provenance() | figures
        print(json.dumps({name: brief(figures)}, indent=1), file=sys.stderr)
        measurement.write(place_of(arguments), {"models": models})
    if not arguments.rehearse:
        draw(models, PICTURE)


def subjects(arguments: argparse.Namespace) -> dict[str, Callable[[], Subject]]:
    """Return what makes each model and its pairs, by name."""
    probes = arguments.corpora / "probes"

    def shipped(language: str) -> Subject:
        pairs = translated_probes(TRANSLATIONS, probes, language)
        return Subject(
            SHIPPED / f"en-{language}",
            pairs,
            [each for pair in pairs for each in pair],
            {"wsc": winograd_pairs(probes), "winogender": winogender_pairs(probes)},
            language,
        )

    def demo() -> Subject:
        pairs = demo_pairs(2 * DEMO_PAIRS, DEMO_SEED)[:DEMO_PAIRS]
        folder = ROOT / "tests" / "models" / "demo"
        return in_halves(folder, pairs, language="fr")

    def trained(kind: str, seed: int) -> Subject:
        folder = train(kind, seed, arguments)
        test = coreferences().test
        if kind == "decoder-only":
            return in_halves(folder, as_dialogues(test)[:SAMPLE_PAIRS])
        found = in_halves(folder, as_labels(test)[:SAMPLE_PAIRS])
        again = [(in_question(one), in_question(other)) for one, other in found.pairs]
        return replace(found, others={"nouns of the question": again})

    made: dict[str, Callable[[], Subject]] = {
        "demo": demo,
        "en-fr": lambda: shipped("fr"),
        "en-de": lambda: shipped("de"),
    }
    for kind in ("encoder-only", "decoder-only"):
        for seed in arguments.seeds:
            made[f"{kind}-{seed}"] = partial(trained, kind, seed)
    return made


def in_halves(
    folder: Path, pairs: list[Pair], *, language: str | None = None
) -> Subject:
    """Test attention on one half of the pairs, and heads off on the other."""
    questions = [each for pair in pairs[1::2] for each in pair]
    return Subject(folder, pairs[::2], questions, language=language)


def train(kind: str, seed: int, arguments: argparse.Namespace) -> Path:
    """Train a model on the sample ``pronouns``, unless it was; return its folder.

    That with an encoder alone says "first" or "second", as ``headwise demo pronouns``
    does; that with a decoder alone answers ``QUESTION`` by the noun.
    """
    sample = SAMPLES["pronouns"] if kind == "encoder-only" else DIALOGUES
    files = sample.write(arguments.work / f"data-{kind}")
    extra: Table = {"seed": seed}
    if arguments.rehearse:
        extra["training"] = {"steps": 20, "validate_every": 10}
    recipe = sample_recipe(sample, files, extra)
    folder: Path = arguments.work / f"{kind}-{seed}"
    test = read_parallel(files["test"], None, task=sample.task)
    found = run_trial(folder, recipe, test)
    print(json.dumps({folder.name: found}), file=sys.stderr)
    return folder


def _dialogues() -> dict[str, bytes]:
    parts = {}
    splits = coreferences()
    for part in ("train", "dev", "test"):
        lines = [
            json.dumps(
                {
                    "turns": [
                        {"role": "user", "text": each.text + QUESTION},
                        {"role": "assistant", "text": each.answer},
                    ]
                }
            )
            for each in getattr(splits, part)
        ]
        parts[part] = "".join(f"{line}\n" for line in lines).encode()
    return parts


DIALOGUES = Sample(
    "which noun does a pronoun stand for?",
    "dialogue",
    _dialogues,
    suffix=".jsonl",
    settings={
        "text": {"vocab_size": 600},
        "training": {"measure": "exact-match"},
    },
)


def measure(subject: Subject, rehearse: bool) -> Table:
    """Return the attention of each head, and what happens without it."""
    model = headwise.load(subject.folder)
    inspector = model.inspector
    few = 8 if rehearse else None
    tested = attention_table(inspector, subject.pairs[:few])
    questions = subject.questions[:few]
    best = max(tested["heads"], key=lambda each: each["difference"])
    looking = {
        parse_head(each["head"])
        for each in tested["heads"]
        if each["p_holm"] <= ALPHA and each["difference"] > 0
    }
    off = heads_off(inspector, questions, parse_head(best["head"]), sorted(looking))
    figures = {
        "model": subject.folder.name,
        "attention": tested,
        "best": best,
        "off": off,
        "others": {
            name: attention_table(inspector, pairs[:few])
            for name, pairs in subject.others.items()
        },
    }
    if subject.language:
        find = PRONOUN[subject.language]
        changes = {"none": (), "best": (best["head"],), "most": (off["most"]["head"],)}
        figures["translations"] = {
            name: pronouns_of(model, questions, [parse_head(x) for x in heads], find)
            for name, heads in changes.items()
        }
    return figures


def brief(figures: Table) -> Table:
    """Return what is printed of a model."""
    off = {k: v for k, v in figures["off"].items() if k != "heads"}
    tables = {"pairs": figures["attention"], **figures["others"]}
    significant = {
        name: [
            (each["head"], each["from"], round(each["difference"], 4), each["p_holm"])
            for each in table["heads"]
            if each["p_holm"] <= ALPHA
        ]
        for name, table in tables.items()
    }
    return {
        "best": figures["best"],
        "off": off,
        "translations": figures.get("translations"),
        "left_out": {name: table["left_out"] for name, table in tables.items()},
        "significant": significant,
    }


def draw(models: Table, file: Path) -> None:
    """Draw the mean difference of each head, one row of panels for each model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    most = max(len(panels(each)) for each in models.values())
    figure, axes = pyplot.subplots(
        len(models),
        most,
        figsize=(3.1 * most + 1.4, 1.9 * len(models)),
        layout="constrained",
        squeeze=False,
    )
    shades: Any = None
    for row, (name, each) in zip(axes, models.items(), strict=True):
        for axis in row:
            axis.axis("off")
        for axis, (title, heads) in zip(row, panels(each).items(), strict=False):
            shades = draw_panel(axis, heads, each["best"])
            axis.set_title(f"{name}: {title}", fontsize=8)
    figure.colorbar(shades, ax=axes, shrink=0.5, label="antecedent − distractor")
    figure.savefig(file, dpi=110)


def panels(figures: Table) -> dict[str, list[Table]]:
    """Return the heads of a model by kind of attention and query."""
    found: dict[str, list[Table]] = {}
    for each in figures["attention"]["heads"]:
        kind = each["head"].split(".")[0]
        found.setdefault(f"{kind}, from the {each['from']}", []).append(each)
    return found


def draw_panel(axis: Any, heads: list[Table], best: Table) -> Any:
    """Draw one kind of attention: a row for each layer, a column for each head."""
    places = [parse_head(each["head"]) for each in heads]
    shape = max(x.layer for x in places) + 1, max(x.head for x in places) + 1
    values = np.zeros(shape)
    for place, each in zip(places, heads, strict=True):
        values[place.layer, place.head] = each["difference"]
        star = "*" if each["p_holm"] <= ALPHA else ""
        label = f"{round(each['difference'], 3) + 0:.3f}{star}"
        is_best = (each["head"], each["from"]) == (best["head"], best["from"])
        axis.text(
            place.head,
            place.layer,
            label,
            ha="center",
            va="center",
            fontsize=7,
            weight="bold" if is_best else "normal",
            color="white" if abs(each["difference"]) > 0.6 else "black",
        )
    axis.axis("on")
    axis.set(xticks=range(shape[1]), yticks=range(shape[0]))
    axis.set_xlabel("head", fontsize=7)
    axis.set_ylabel("layer", fontsize=7)
    axis.tick_params(labelsize=7)
    return axis.imshow(values, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")


if __name__ == "__main__":
    main()
