"""``headwise prepare``: raw text to a prepared corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.common import recipe_for
from headwise.cli.options import (
    Assignments,
    Dev,
    Languages,
    Preset,
    RecipeFile,
    say,
    to_folder,
)
from headwise.wording import count_of


def prepare(
    out: Annotated[Path, to_folder("Folder to write the corpus to.")],
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOURCE",
            help="Source text, or a TSV or JSON Lines file with both sides.",
        ),
    ] = None,
    target: Annotated[
        Path | None, typer.Argument(metavar="TARGET", help="Target text.")
    ] = None,
    dev: Dev = None,
    languages: Languages = None,
    preset: Preset = None,
    recipe_file: RecipeFile = None,
    assignments: Assignments = None,
) -> None:
    """Read raw text, train tokenizers, and write a prepared corpus.

    Files may be plain or .gz. Every line is checked before anything is written. Pairs
    with an empty or over-long side are left out and listed in dropped.tsv. What is
    there already, made of the same text with the same settings, is not made again.

    A line of JSON Lines is {"source": ..., "target": ...}; with --languages en de it is
    {"en": ..., "de": ...} or {"translation": {"en": ..., "de": ...}}.

    \b
    headwise prepare train.en train.de --out corpus
    headwise prepare pairs.tsv.gz --out corpus --set text.vocab_size=4000
    headwise prepare pairs.jsonl --languages en de --out corpus
    headwise prepare --recipe several-corpora.toml --out corpus
    """
    from headwise.data.prepare import prepare as make

    recipe = recipe_for(
        source,
        target,
        dev=dev,
        languages=languages,
        preset=preset,
        recipe_file=recipe_file,
        assignments=assignments or (),
    )
    corpus = make(recipe.data, recipe.text, out, seed=recipe.seed, say=say)
    train = corpus.facts.train
    say(
        f"{out}: {count_of(train.pairs, 'pair')} to learn from, "
        f"{corpus.facts.dev.pairs:,} held out; next: headwise train {out} --out RUN"
    )
