"""Repeat the golden translations with every engine and precision available."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from headwise.data.picture_entries import shown_source
from headwise.decoding.native_search import why_not_searched
from headwise.doctor.check import FAILED, OK, SKIPPED, Check, Status
from headwise.errors import HeadwiseError, ResourceError
from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine
from headwise.inference.engines.ctranslate2_support import (
    unsupported_lengths,
    unsupported_model,
    unsupported_placeholders,
    unsupported_search,
)
from headwise.inference.engines.engine import Outputs
from headwise.inference.engines.native_engine import NativeEngine, why_no_native_engine
from headwise.interop.exports import export
from headwise.interop.unsupported_models import CTRANSLATE2, QUANTIZATIONS
from headwise.run_folder.model_folder import LazyModel, ModelFolder, golden_pairs

LOG_PROBABILITY_TOLERANCE = 1e-3
"""Largest relative difference of a log-probability from the stored one."""

EXACT = "float32"
"""The precision in which every engine must give the same translations."""

DIFFERENT = (
    "this machine or this version computes differently; compare scores with headwise "
    "evaluate before using the model here"
)


def check_golden_translations(opened: ModelFolder) -> Iterator[Check]:
    """Translate the golden sources again, and compare with the stored translations."""
    if not opened.golden:
        found = "the folder has none"
        yield Check("golden translations", SKIPPED, found)
        return
    yield _torch(opened, "cpu", torch.float32)
    if torch.cuda.is_available():
        yield _torch(opened, "cuda", torch.float32)
    yield _torch(opened, "cpu", torch.bfloat16)
    if opened.task_name != "translation":
        return  # the other engines are for translation
    yield _native(opened)
    for precision in QUANTIZATIONS:
        yield _ctranslate2(opened, precision)


def compare_with_golden(
    what: str, opened: ModelFolder, texts: Sequence[str], *, must_agree: bool
) -> Check:
    """Compare translations of the golden sources with the stored ones."""
    pairs = list(zip(opened.golden, texts, strict=True))
    differing = [
        (before, now) for before, now in pairs if not _same(before.output, now)
    ]
    found = f"{len(pairs) - len(differing)} of {len(pairs)} as stored"
    if not differing:
        return Check(what, OK, found)
    before, now = differing[0]
    source = shown_source(before.source)
    found += f"; {source!r} gave {before.output!r} and now gives {now!r}"
    if must_agree:
        return Check(what, FAILED, found, DIFFERENT)
    return Check(what, OK, found)


def _same(before: str, now: str) -> bool:
    """Tell whether outputs are the same; numbers may differ by rounding."""
    if before == now:
        return True
    try:
        return math.isclose(float(before), float(now), rel_tol=1e-3, abs_tol=1e-6)
    except ValueError:
        return False


def _torch(opened: ModelFolder, device: str, dtype: torch.dtype) -> Check:
    name = str(dtype).removeprefix("torch.")
    exact = name == EXACT
    what = f"golden translations, torch, {device}, {name}"
    model = opened.model
    if not (exact and device == model.device.type):
        model = copy.deepcopy(model).to(device, dtype)
    sources = [each.source for each in opened.golden]
    try:
        now = golden_pairs(opened.any_task, model, sources, opened.decoding)
    except (HeadwiseError, RuntimeError) as error:
        status: Status = FAILED if exact else SKIPPED
        return Check(what, status, str(error), "this precision cannot be used here")
    check = compare_with_golden(
        what, opened, [each.output for each in now], must_agree=exact
    )
    largest = max(
        abs(after.log_probability - before.log_probability)
        / max(1.0, abs(before.log_probability))
        for before, after in zip(opened.golden, now, strict=True)
    )
    is_close = math.isfinite(largest) and largest <= LOG_PROBABILITY_TOLERANCE
    if exact and check.status == OK and not is_close:
        found = f"same words, but log-probabilities differ by {largest:.2g}"
        return Check(what, FAILED, found, DIFFERENT)
    return check


def _native(opened: ModelFolder) -> Check:
    """Translate with the weights as they are read without torch."""
    what = f"golden translations, native, {EXACT}"
    on_disk = replace(opened, weights=LazyModel())
    reason = why_no_native_engine(on_disk) or why_not_searched(opened.decoding)
    if reason:
        return Check(what, SKIPPED, reason)
    sources, copied = _encoded(opened)
    try:
        outputs = NativeEngine(on_disk).search(sources, opened.decoding)
    except HeadwiseError as error:
        return Check(what, FAILED, str(error), "use --engine torch")
    texts = _texts(opened, outputs, copied)
    return compare_with_golden(what, opened, texts, must_agree=True)


def _encoded(opened: ModelFolder) -> tuple[list[list[int]], list[tuple[str, ...]]]:
    """Return the tokens of each golden source, and what is copied from it."""
    lines = [each.source for each in opened.golden]
    return opened.task.encode_masked(lines, opened.decoding)


def _texts(
    opened: ModelFolder, outputs: Outputs, copied: Sequence[tuple[str, ...]]
) -> list[str]:
    return [
        opened.task.decode(best, of_line)
        for (best, *_), of_line in zip(outputs, copied, strict=True)
    ]


def _ctranslate2(opened: ModelFolder, precision: str) -> Check:
    """Translate with an export in a temporary folder."""
    what = f"golden translations, ctranslate2, {precision}"
    sources, copied = _encoded(opened)
    reasons = [
        *unsupported_model(opened),
        *unsupported_search(opened.decoding),
        *unsupported_lengths(opened, sources, opened.decoding),
        *unsupported_placeholders(opened, sources),
    ]
    if reasons:
        return Check(what, SKIPPED, "; ".join(map(str, reasons)))
    exact = precision == EXACT
    try:
        with tempfile.TemporaryDirectory(prefix="headwise-") as temporary:
            folder = Path(temporary) / "export"
            export(folder, opened, target=CTRANSLATE2, quantization=precision)
            engine = CTranslate2Engine(opened, precision=precision, folder=folder)
            outputs = engine.search(sources, opened.decoding)
    except (OSError, ResourceError) as error:  # the disk for temporary files is full
        advice = "free some space there, or set TMPDIR to another folder"
        return Check(what, SKIPPED, f"not tried: {error}", advice)
    except (HeadwiseError, RuntimeError) as error:
        return Check(what, FAILED, str(error), "use --engine torch")
    texts = _texts(opened, outputs, copied)
    return compare_with_golden(what, opened, texts, must_agree=exact)
