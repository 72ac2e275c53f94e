"""``headwise doctor``: whether this machine, or a folder, is in order."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.checks import check_folders
from headwise.cli.options import named
from headwise.cli.streams import output
from headwise.errors import ModelError, ResourceError, UsageError
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.doctor import Finding


def doctor(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help="A run folder or a model folder to check.",
            parser=named,
        ),
    ] = None,
    loader: Annotated[
        bool,
        typer.Option(
            "--loader",
            help="Print a program of 60 lines that opens a model folder with torch and "
            "safetensors alone.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON instead, for programs.")
    ] = False,
) -> None:
    """Check this machine, or with FOLDER a trained model or a run.

    Of a model: every file against the manifest, shapes, finite weights, the tokenizers,
    the translations noted when the model was written, by every engine and precision
    there is here, and each export beside it. Of a run: its recipe, its prepared corpus,
    its checkpoints, and its best model.

    \b
    headwise doctor
    headwise doctor en-de
    headwise doctor --loader > loader.py
    """
    if loader:
        if folder is not None or as_json:
            raise UsageError("--loader prints one program for all folders; name none")
        from headwise.run_folder.loader_script import SCRIPT

        output(SCRIPT, end="")
        return
    if folder is not None:
        check_folders(folder)
    from headwise.doctor import FAILED, look_at_folder, look_at_machine

    findings = []
    for finding in look_at_machine() if folder is None else look_at_folder(folder):
        findings.append(finding)
        if not as_json:
            _show(finding)
    faults = sum(finding.status == FAILED for finding in findings)
    if as_json:
        checks = [asdict(finding) for finding in findings]
        table = {"ok": not faults, "checks": checks}
        output(json.dumps(table, indent=2, ensure_ascii=False))
    if faults:
        summary = f"{faults} of {count_of(len(findings), 'check')} failed"
        raise ResourceError(summary) if folder is None else ModelError(summary)


def _show(finding: Finding) -> None:
    output(f"{finding.status:<8}{finding.what}: {finding.found}")
    if finding.advice is not None:
        output(f"{'':<8}→ {finding.advice}")
