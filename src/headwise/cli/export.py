"""``headwise export``: a trained model for programs other than this one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.options import say, to_folder


def export(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A run folder or a model folder.")
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="ctranslate2|huggingface",
            help="The program that is to run the model.",
        ),
    ],
    out: Annotated[Path, to_folder("Folder to write to.")],
    quantization: Annotated[
        str,
        typer.Option(
            metavar="float32|float16|int8",
            help="Numbers to write the weights in; the smaller ones are for "
            "CTranslate2, and may change words.",
        ),
    ] = "float32",
) -> None:
    """Write a trained model as a folder that other programs run.

    In float32 they give the same words. What the other program cannot express is
    refused, with every reason. docs/export.md says more.

    \b
    headwise export en-de --to ctranslate2 --out en-de-ct2 --quantization int8
    headwise export en-de --to huggingface --out en-de-hf
    """
    from headwise.interop.exports import export as write
    from headwise.run_folder.model_folder import open_model_folder
    from headwise.run_folder.run import model_path

    opened = open_model_folder(model_path(folder))
    notes = write(out, opened, target=target, quantization=quantization)
    for note in notes:
        say(f"note: {note}")
    say(
        f"{out}: for {target}, in {quantization}; how to run it stands in its README.md"
    )
