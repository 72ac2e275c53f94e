"""The golden translations, by every engine and in all the numbers there are here."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from headwise.doctor.check import FAILED, OK, SKIPPED, Finding, Status
from headwise.errors import HeadwiseError
from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine
from headwise.inference.engines.ctranslate2_support import (
    unsupported_lengths,
    unsupported_model,
    unsupported_search,
)
from headwise.interop.exports import export
from headwise.interop.limits import CTRANSLATE2, QUANTIZATIONS
from headwise.run_folder.model_folder import ModelFolder, golden_pairs

LOG_PROBABILITY_TOLERANCE = 1e-3
"""How far a log probability may lie from the one noted when the model was written."""

EXACT = "float32"
"""The numbers in which every engine must find the same words."""

OTHERWISE = (
    "this machine or this version computes otherwise; compare scores with headwise "
    "evaluate before trusting the model here"
)


def look_at_precisions(opened: ModelFolder) -> Iterator[Finding]:
    """Translate again what was translated when the folder was written."""
    if not opened.golden:
        found = "the folder holds none: nothing says what it should translate"
        yield Finding("golden translations", SKIPPED, found)
        return
    yield _torch(opened, "cpu", torch.float32)
    if torch.cuda.is_available():
        yield _torch(opened, "cuda", torch.float32)
    yield _torch(opened, "cpu", torch.bfloat16)
    for precision in QUANTIZATIONS:
        yield _ctranslate2(opened, precision)


def compared(
    what: str, opened: ModelFolder, texts: Sequence[str], *, must_agree: bool
) -> Finding:
    """Compare translations of the golden sources with those in the folder."""
    pairs = list(zip(opened.golden, texts, strict=True))
    differing = [(before, now) for before, now in pairs if before.output != now]
    found = f"{len(pairs) - len(differing)} of {len(pairs)} as when written"
    if not differing:
        return Finding(what, OK, found)
    before, now = differing[0]
    found += f"; {before.source!r} gave {before.output!r} and now gives {now!r}"
    if must_agree:
        return Finding(what, FAILED, found, OTHERWISE)
    return Finding(what, OK, found)


def _torch(opened: ModelFolder, device: str, numbers: torch.dtype) -> Finding:
    name = str(numbers).removeprefix("torch.")
    exact = name == EXACT
    what = f"golden translations, torch, {device}, {name}"
    model = opened.model
    if not (exact and device == model.device.type):
        model = copy.deepcopy(model).to(device, numbers)
    sources = [each.source for each in opened.golden]
    try:
        now = golden_pairs(opened.task, model, sources, opened.decoding)
    except (HeadwiseError, RuntimeError) as error:
        status: Status = FAILED if exact else SKIPPED
        return Finding(what, status, str(error), "this model cannot be used so here")
    finding = compared(what, opened, [each.output for each in now], must_agree=exact)
    furthest = max(
        abs(after.log_probability - before.log_probability)
        / max(1.0, abs(before.log_probability))
        for before, after in zip(opened.golden, now, strict=True)
    )
    near = math.isfinite(furthest) and furthest <= LOG_PROBABILITY_TOLERANCE
    if exact and finding.status == OK and not near:
        found = f"the words are the same, but log probabilities are {furthest:.2g} off"
        return Finding(what, FAILED, found, OTHERWISE)
    return finding


def _ctranslate2(opened: ModelFolder, precision: str) -> Finding:
    """Export into a folder that is then deleted: a doctor leaves things as they are."""
    what = f"golden translations, ctranslate2, {precision}"
    sources = opened.task.encode([each.source for each in opened.golden])
    reasons = [
        *unsupported_model(opened),
        *unsupported_search(opened.decoding),
        *unsupported_lengths(opened, sources, opened.decoding),
    ]
    if reasons:
        return Finding(what, SKIPPED, "; ".join(map(str, reasons)))
    exact = precision == EXACT
    try:
        with tempfile.TemporaryDirectory(prefix="headwise-") as place:
            folder = Path(place) / "export"
            export(folder, opened, target=CTRANSLATE2, quantization=precision)
            engine = CTranslate2Engine(opened, precision=precision, folder=folder)
            outputs = engine.search(sources, opened.decoding)
    except (HeadwiseError, RuntimeError) as error:
        return Finding(what, FAILED, str(error), "--engine torch does without it")
    texts = [opened.task.decode(best) for best, *_ in outputs]
    return compared(what, opened, texts, must_agree=exact)
