"""``headwise doctor``: whether this machine, or a model folder, is in order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.errors import ModelError, ResourceError


def doctor(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="A run folder or a model folder to check."
        ),
    ] = None,
) -> None:
    """Check this machine, or with FOLDER a trained model.

    Of a model: every file against the manifest, shapes, finite weights, the tokenizers,
    and translations that were noted when the model was written.

    \b
    headwise doctor
    headwise doctor en-de
    """
    from headwise.doctor import look_at_folder, look_at_machine

    findings = list(look_at_machine() if folder is None else look_at_folder(folder))
    for finding in findings:
        mark = "ok  " if finding.advice is None else "BAD "
        typer.echo(f"{mark}{finding.what}: {finding.found}")
        if finding.advice is not None:
            typer.echo(f"    {finding.advice}")
    faults = sum(finding.advice is not None for finding in findings)
    if faults:
        summary = f"{faults} of {len(findings)} checks failed"
        raise ResourceError(summary) if folder is None else ModelError(summary)
