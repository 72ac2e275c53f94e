"""``headwise doctor``: check this machine, a model folder or a run folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.argument_checks import check_folders
from headwise.cli.options import parse_path
from headwise.cli.standard_streams import output
from headwise.errors import ModelError, ResourceError, UsageError
from headwise.run_folder.installed_models import find_installed
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.doctor import Check


def doctor(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help="A run folder or a model folder to check.",
            parser=parse_path,
        ),
    ] = None,
    loader: Annotated[
        bool,
        typer.Option(
            "--loader",
            help="Print a short script that loads a model folder with torch and "
            "safetensors only.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check this machine, or with FOLDER a trained model or a run.

    Of a model: files against the manifest, tensor shapes, finite weights, tokenizers,
    golden translations (stored with the model) with every engine and precision, and
    exports in the folder. Of a run: recipe, prepared corpus, checkpoints, and the best
    model.

    \b
    headwise doctor
    headwise doctor en-de
    headwise doctor --loader > loader.py
    """
    if loader:
        if folder is not None or as_json:
            raise UsageError(
                "--loader prints one script for all folders; give no FOLDER or --json"
            )
        from headwise.run_folder.loader_script import SCRIPT

        output(SCRIPT, end="")
        return
    if folder is not None and not find_installed(folder):
        check_folders(folder)
    from headwise.doctor import FAILED, check_folder, check_machine

    checks = []
    for check in check_machine() if folder is None else check_folder(folder):
        checks.append(check)
        if not as_json:
            _print(check)
    failed = sum(check.status == FAILED for check in checks)
    if as_json:
        table = {"ok": not failed, "checks": [asdict(check) for check in checks]}
        output(json.dumps(table, indent=2, ensure_ascii=False))
    if failed:
        summary = f"{failed} of {count_of(len(checks), 'check')} failed"
        raise ResourceError(summary) if folder is None else ModelError(summary)


def _print(check: Check) -> None:
    output(f"{check.status:<8}{check.what}: {check.found}")
    if check.advice is not None:
        output(f"{'':<8}→ {check.advice}")
