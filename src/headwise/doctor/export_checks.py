"""Check the exports in a model folder: files, weights, golden translations."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwise.doctor.check import FAILED, NOTE, OK, SKIPPED, Check
from headwise.doctor.file_checks import check_files
from headwise.doctor.golden_translation_checks import EXACT, compare_with_golden
from headwise.inference.engines.ctranslate2_support import (
    NO_EFFECT_IF_GREEDY,
    PENALTIES,
)
from headwise.interop import ctranslate2_script, huggingface_script
from headwise.interop.export_cache import EXPORTS_FOLDER
from headwise.interop.provenance import export_description
from headwise.interop.unsupported_decoding import ignored_settings
from headwise.interop.unsupported_models import CTRANSLATE2, HUGGINGFACE
from headwise.run_folder.model_folder import ModelFolder
from headwise.storage import read_manifest
from headwise.wording import without_surrogates

TOOLS = {
    CTRANSLATE2: ("ctranslate2", "fast", ctranslate2_script.SCRIPT),
    HUGGINGFACE: ("transformers", "export", huggingface_script.SCRIPT),
}
"""For each target: the package that runs it, the extra that installs that, and the
script of its README."""

TIMEOUT_SECONDS = 600
RECREATE = "delete it, and run headwise export again"


def check_exports(opened: ModelFolder) -> Iterator[Check]:
    """Check each folder in ``exports/``."""
    exports = opened.path / EXPORTS_FOLDER
    for folder in sorted(exports.iterdir()) if exports.is_dir() else []:
        if folder.is_dir() and not folder.name.startswith("."):
            yield from _check_export(folder, opened)


def _check_export(folder: Path, opened: ModelFolder) -> Iterator[Check]:
    what = f"{EXPORTS_FOLDER}/{folder.name}"
    checks = list(check_files(folder, what))
    if any(check.status == FAILED for check in checks):
        yield from (replace(check, advice=RECREATE) for check in checks)
        return
    yield from checks
    manifest = read_manifest(folder)
    now = export_description(opened, target=str(manifest.get("target")))
    if manifest.get("weights_sha256") != now["weights_sha256"]:
        yield Check(f"{what}, weights", FAILED, "made from other weights", RECREATE)
        return
    found = f"made from these by headwise {manifest.get('headwise')}"
    source = manifest.get("model_manifest_sha256", now["model_manifest_sha256"])
    if source != now["model_manifest_sha256"]:
        found += ", but with another tokenizer, other decoding settings or another card"
        yield Check(f"{what}, weights", NOTE, found, RECREATE)
    else:
        yield Check(f"{what}, weights", OK, found)
    yield _check_translations(f"{what}, golden translations", folder, opened, manifest)


def _check_translations(
    what: str, folder: Path, opened: ModelFolder, manifest: dict[str, Any]
) -> Check:
    """Translate with the script of the export's README, which does not use headwise."""
    target = manifest.get("target")
    if target not in TOOLS:
        return Check(what, SKIPPED, f"nothing here can run an export to {target}")
    package, extra, script = TOOLS[target]
    if find_spec(package) is None:
        found = f"{package}, which runs it, is not installed"
        return Check(what, SKIPPED, found, f"pip install 'headwise[{extra}]'")
    if not (folder / "source.spm").is_file():
        return Check(what, SKIPPED, "the export has no tokenizer: callers tokenize")
    if not opened.golden:
        return Check(what, SKIPPED, "the model folder has none")
    if str(folder) != without_surrogates(str(folder)):
        found = f"{package} cannot open a folder whose name is not UTF-8"
        return Check(what, SKIPPED, found, "rename it, or copy the export elsewhere")
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
        found = f"{package} had not finished after {TIMEOUT_SECONDS} seconds"
        return Check(what, FAILED, found, RECREATE)
    texts = done.stdout.decode("utf-8", "replace").split("\n")[:-1]
    if done.returncode or len(texts) != len(opened.golden):
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        found = f"{package} cannot run it: {errors[-1] if errors else 'no message'}"
        return Check(what, FAILED, found, RECREATE)
    exact = manifest.get("quantization") == EXACT and _same_search(opened, target)
    return compare_with_golden(what, opened, texts, must_agree=exact)


def _same_search(opened: ModelFolder, target: str) -> bool:
    """Return whether the target decodes exactly as the model does."""
    if opened.texts.source_placeholder is not None:  # which no script puts into texts
        return False
    search = opened.decoding
    if any(ignored_settings(search)):
        return False
    if search.beam == 1:
        return search.length_penalty in NO_EFFECT_IF_GREEDY["length_penalty"]
    if search.length_penalty not in PENALTIES:
        return False
    if target == HUGGINGFACE:  # which has no patience
        return search.stopping != "first-k" or search.outputs_to_finish == search.beam
    return search.stopping == "first-k"
