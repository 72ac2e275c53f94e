"""The exports in a model folder: whole, of these weights, and saying the same words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwise.doctor.check import FAILED, NOTE, OK, SKIPPED, Finding
from headwise.doctor.files import look_at_files
from headwise.doctor.precisions import EXACT, compared
from headwise.interop import ctranslate2_script, huggingface_script
from headwise.interop.export_cache import EXPORTS_FOLDER
from headwise.interop.limits import CTRANSLATE2, HUGGINGFACE
from headwise.interop.provenance import described
from headwise.interop.unsupported_decoding import left_behind
from headwise.run_folder.model_folder import ModelFolder
from headwise.storage import read_manifest

TOOLS = {
    CTRANSLATE2: ("ctranslate2", "fast", ctranslate2_script.SCRIPT),
    HUGGINGFACE: ("transformers", "export", huggingface_script.SCRIPT),
}
"""For each target the package that opens it, the extra that installs that, and the
program that its users run."""

TIMEOUT_SECONDS = 600
AGAIN = "delete it; headwise export makes it again"


def look_at_exports(opened: ModelFolder) -> Iterator[Finding]:
    """Check each folder in ``exports/``."""
    place = opened.path / EXPORTS_FOLDER
    for folder in sorted(place.iterdir()) if place.is_dir() else []:
        if folder.is_dir() and not folder.name.startswith("."):
            yield from _look_at_export(folder, opened)


def _look_at_export(folder: Path, opened: ModelFolder) -> Iterator[Finding]:
    what = f"{EXPORTS_FOLDER}/{folder.name}"
    findings = list(look_at_files(folder, what))
    if any(finding.status == FAILED for finding in findings):
        yield from (replace(finding, advice=AGAIN) for finding in findings)
        return
    yield from findings
    manifest = read_manifest(folder)
    now = described(opened, target=str(manifest.get("target")))
    if manifest.get("weights_sha256") != now["weights_sha256"]:
        yield Finding(f"{what}, weights", FAILED, "it was made of others", AGAIN)
        return
    found = f"made of these by headwise {manifest.get('headwise')}"
    whole = manifest.get("model_manifest_sha256", now["model_manifest_sha256"])
    if whole != now["model_manifest_sha256"]:
        found += ", while the folder held another tokenizer, search or card"
        yield Finding(f"{what}, weights", NOTE, found, AGAIN)
    else:
        yield Finding(f"{what}, weights", OK, found)
    yield _translated(f"{what}, golden translations", folder, opened, manifest)


def _translated(
    what: str, folder: Path, opened: ModelFolder, manifest: dict[str, Any]
) -> Finding:
    """Run the program that the export's users run, which knows nothing of us."""
    target = manifest.get("target")
    if target not in TOOLS:
        return Finding(what, SKIPPED, f"no program here opens an export for {target}")
    package, extra, script = TOOLS[target]
    if find_spec(package) is None:
        found = f"{package}, which opens it, is not installed"
        return Finding(what, SKIPPED, found, f"pip install 'headwise[{extra}]'")
    if not (folder / "source.spm").is_file():
        return Finding(what, SKIPPED, "it has no tokenizer: its callers cut the text")
    if not opened.golden:
        return Finding(what, SKIPPED, "the model folder holds none")
    try:
        done = subprocess.run(
            [sys.executable, "-c", script, folder],
            input="".join(f"{each.source}\n" for each in opened.golden).encode(),
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            env={
                **os.environ,
                "HF_HUB_OFFLINE": "1",
                "TRANSFORMERS_VERBOSITY": "error",
            },
        )
    except subprocess.TimeoutExpired:
        found = f"{package} had not translated them after {TIMEOUT_SECONDS} seconds"
        return Finding(what, FAILED, found, AGAIN)
    texts = done.stdout.decode("utf-8", "replace").split("\n")[:-1]
    if done.returncode or len(texts) != len(opened.golden):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        found = f"{package} cannot open it: {said[-1] if said else 'it said nothing'}"
        return Finding(what, FAILED, found, AGAIN)
    exact = manifest.get("quantization") == EXACT and _same_search(opened, target)
    return compared(what, opened, texts, must_agree=exact)


def _same_search(opened: ModelFolder, target: str) -> bool:
    """Tell whether the target searches as the model does; else others may win."""
    search = opened.decoding
    if any(left_behind(search)):
        return False
    if search.beam == 1:
        return True
    if search.length_penalty == "gnmt":
        return False
    if target == HUGGINGFACE:  # which knows no patience
        return search.stopping != "first-k" or search.outputs_to_finish == search.beam
    return search.stopping == "first-k"
