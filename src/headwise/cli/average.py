"""``headwise average``: average the weights of models into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.argument_checks import check_models, check_new_folder
from headwise.cli.options import output_folder, parse_path, say
from headwise.errors import UsageError


def average(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...",
            help="Run folders, model folders, or names of installed models: two or "
            "more. Search, languages and all else are those of the first.",
            parser=parse_path,
            show_default=False,
        ),
    ],
    out: Annotated[Path, output_folder("Folder of the new model.")],
    shares: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES",
            help="Share of each model in the average, such as 3,1 or 0.75,0.25. "
            "Default: equal ones.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Average the weights of models into one.

    For models of which one was trained from the other, or all from the same one. A
    fine-tuned model and the one that it started from, averaged, keep most of what was
    learned and forget less: see docs/tasks.md, fine-tuning. Models that were trained
    apart have no useful average.

    \b
    headwise average my-en-fr en-fr --shares 3,1 --out my-en-fr-average
    headwise average captions-1 captions-2 captions-3 en-fr --out mean
    """
    check_models(*folders)
    check_new_folder(out)
    parts = [] if shares is None else _parsed(shares)

    from headwise.run_folder.model_average import average_models

    models = average_models(folders, out, shares=parts)
    for each in models:
        if each.is_unrelated:
            say(
                f"note: the weights of {each.folder} have a cosine similarity of "
                f"{each.similarity:.2f} to those of {folders[0]}; such models were "
                "hardly trained from the same one, and then their average is of no use"
            )
    listed = ", ".join(f"{each.share:.4g} of {each.folder}" for each in models)
    say(f"{out}: {listed}; nothing has scored it yet: headwise evaluate does")


def _parsed(text: str) -> list[float]:
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--shares must be numbers with commas between them, such as 3,1; not "
            f"{text!r}"
        ) from None
