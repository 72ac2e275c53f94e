"""What is wrong with this machine, or with this model folder, and what would help."""

from __future__ import annotations

import importlib.util
import math
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from headwise import __version__
from headwise.errors import HeadwiseError
from headwise.run_folder.model_folder import (
    Golden,
    ModelFolder,
    golden_pairs,
    open_model_folder,
)
from headwise.run_folder.run import model_path

PACKAGES = (
    *("torch", "numpy", "safetensors", "sentencepiece", "sacrebleu", "sacremoses"),
    *("typer", "rich", "jaxtyping"),
)

LOG_PROBABILITY_TOLERANCE = 1e-3
"""How far a log probability may lie from the one noted when the model was written."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    found: str
    advice: str | None = None
    """What to do about it; ``None`` where nothing is wrong."""


def look_at_machine() -> Iterator[Finding]:
    """Report what bears on training and translating here."""
    yield Finding("headwise", __version__)
    yield Finding("Python", platform.python_version())
    for package in PACKAGES:
        yield _package(package)
    yield Finding(
        "processor", f"{_cores()} cores, {torch.backends.cpu.get_cpu_capability()}"
    )
    yield _threads()
    yield _memory()
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(gpus))
    yield Finding("GPU", names or "none; training and translating run on the processor")
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    advice = None if free > 2 else "free some space before training"
    yield Finding("disk here", f"{free:.1f} GiB free", advice)


def look_at_folder(folder: Path) -> Iterator[Finding]:
    """Check a run or model folder: files, weights, tokenizer, golden translations."""
    try:
        path = model_path(folder)
        opened = open_model_folder(path)
    except HeadwiseError as error:
        yield Finding("folder", str(error), "see the message; the folder was not used")
        return
    yield Finding("files", f"{path}: all as manifest.json says, names and shapes fit")
    yield _weights(opened)
    yield _tokenizers(opened)
    yield _golden(opened)


def _package(name: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(name, "missing", "install headwise again with pip")
    try:
        return Finding(name, version(name))
    except PackageNotFoundError:
        return Finding(name, "there, of an unknown version")


def _cores() -> int:
    return (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else (os.cpu_count() or 1)
    )


def _threads() -> Finding:
    threads, cores = torch.get_num_threads(), _cores()
    advice = None
    if threads > cores:
        advice = f"more threads than cores slow each other down: use --threads {cores}"
    return Finding("threads of torch", str(threads), advice)


def _memory() -> Finding:
    try:
        pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return Finding("memory", "unknown on this system")
    free = pages / 2**30
    advice = None if free > 2 else "close other programs, or use a smaller batch"
    return Finding("memory", f"{free:.1f} GiB free", advice)


def _weights(opened: ModelFolder) -> Finding:
    bad = [
        name
        for name, tensor in opened.model.state_dict().items()
        if not tensor.isfinite().all()
    ]
    count = sum(p.numel() for p in opened.model.parameters())
    if bad:
        return Finding(
            "weights",
            f"{bad[0]} and {len(bad) - 1} more hold numbers that are not finite",
            "train again; this model cannot be used",
        )
    return Finding("weights", f"{count:,} parameters, all finite")


def _tokenizers(opened: ModelFolder) -> Finding:
    """Check that text survives the tokenizers: what they wrote once, they keep."""
    for side, tokenizer in (
        ("source", opened.tokenizers.source),
        ("target", opened.tokenizers.target),
    ):
        for golden in opened.golden:
            text = golden.source if side == "source" else golden.output
            once = tokenizer.decode(tokenizer.encode(text))
            if tokenizer.decode(tokenizer.encode(once)) != once:
                return Finding(
                    "tokenizers",
                    f"the {side} tokenizer does not keep {once!r}",
                    "its vocabulary is too small for this text, or it was exchanged",
                )
    sizes = f"{opened.facts.source_vocab_size:,} and {opened.facts.target_vocab_size:,}"
    return Finding("tokenizers", f"round trips hold; {sizes} entries")


def _golden(opened: ModelFolder) -> Finding:
    """Translate again what was translated when the folder was written."""
    if not opened.golden:
        return Finding("golden translations", "the folder holds none")
    sources = [each.source for each in opened.golden]
    try:
        now = golden_pairs(opened.task, opened.model, sources, opened.decoding)
    except HeadwiseError as error:
        return Finding(
            "golden translations", str(error), "this model cannot be used here"
        )
    differing = [
        (before, after)
        for before, after in zip(opened.golden, now, strict=True)
        if not _same(before, after)
    ]
    if differing:
        before, after = differing[0]
        return Finding(
            "golden translations",
            f"{len(differing)} of {len(now)} differ: {before.source!r} gave "
            f"{before.output!r} and now gives {after.output!r}",
            "this machine or this version computes otherwise; compare scores with "
            "headwise evaluate before trusting the model here",
        )
    return Finding("golden translations", f"{len(now)} of {len(now)} as when written")


def _same(before: Golden, after: Golden) -> bool:
    return before.output == after.output and math.isclose(
        before.log_probability,
        after.log_probability,
        rel_tol=LOG_PROBABILITY_TOLERANCE,
        abs_tol=LOG_PROBABILITY_TOLERANCE,
    )
