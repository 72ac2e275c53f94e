"""``headwise prepare``: from raw text to a prepared (tokenized, binary) corpus."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from headwise.cli.build_recipe import recipe_from_options
from headwise.cli.corpus_tables import check_columns, check_fields
from headwise.cli.options import (
    Assignments,
    Columns,
    Dev,
    DevFile,
    Fields,
    InitializeFrom,
    Languages,
    Preset,
    RecipeFile,
    TaskName,
    output_folder,
    say,
)
from headwise.tasks import TASKS
from headwise.wording import count_of


def prepare(
    out: Annotated[Path, output_folder("Output folder.")],
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOURCE",
            help="Source text, or a TSV or JSON Lines file with source and target. "
            "Replaces the corpora of --recipe.",
        ),
    ] = None,
    target: Annotated[
        Path | None, typer.Argument(metavar="TARGET", help="Target text.")
    ] = None,
    task: TaskName = None,
    initialize_from: InitializeFrom = None,
    dev: Dev = None,
    dev_file: DevFile = None,
    columns: Columns = None,
    fields: Fields = None,
    languages: Languages = None,
    preset: Preset = None,
    recipe_file: RecipeFile = None,
    assignments: Assignments = None,
) -> None:
    """Read raw text, train tokenizers, and write a prepared corpus.

    Files may be plain or .gz. All lines are checked before anything is written. Pairs
    with an empty or too long side are dropped and listed in dropped.tsv. A corpus that
    was prepared from the same text with the same settings is reused.

    A line of JSON Lines is {"source": ..., "target": ...}, or, with --languages en de,
    {"en": ..., "de": ...} or {"translation": {"en": ..., "de": ...}}. --fields names
    other keys, such as text label.

    \b
    headwise prepare train.en train.de --out corpus
    headwise prepare pairs.tsv.gz --out corpus --set text.vocab_size=4000
    headwise prepare pairs.jsonl --languages en de --out corpus
    headwise prepare reviews.tsv --task classification --out corpus
    headwise prepare --recipe several-corpora.toml --out corpus
    """
    from headwise.data.prepare import prepare as make
    from headwise.run_folder.pretrained import given_tokenizers

    check_columns(columns, None if target else source, dev_file)
    check_fields(fields, None if target else source, dev_file)
    recipe = recipe_from_options(
        source,
        target,
        task=task,
        dev=dev,
        dev_file=dev_file,
        columns=columns,
        fields=fields,
        languages=languages,
        preset=preset,
        recipe_file=recipe_file,
        assignments=assignments or (),
        initialize_from=initialize_from or (),
        out=out,
    )
    corpus = make(
        recipe.data,
        recipe.text,
        out,
        seed=recipe.seed,
        pair_format=TASKS[recipe.task].pair_format,
        tokenizers=given_tokenizers(recipe, out),
        patch_size=recipe.patch_size,
        languages=recipe.languages,
        say=say,
    )
    noun = TASKS[recipe.task].pair_format.example_noun
    say(
        f"{out}: {count_of(corpus.facts.train.texts, f'training {noun}')}, "
        f"{corpus.facts.dev.texts:,} for validation; next: "
        f"headwise train {quote(str(out))} --out RUN"
    )
