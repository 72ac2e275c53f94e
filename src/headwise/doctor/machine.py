"""What bears on training and translating on this machine."""

from __future__ import annotations

import locale
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from headwise import __version__
from headwise.doctor.check import FAILED, NOTE, OK, SKIPPED, Finding
from headwise.doctor.cores import allowed_cores
from headwise.doctor.kernels import look_at_kernels
from headwise.doctor.packages import look_at_packages
from headwise.training.memory_usage import ProcessMemory

LITTLE = 2 * 2**30
"""Bytes below which memory, or a disk, is little for training."""

FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_int8", "bf16")
"""What bears on speed, as Linux names it; the last is of ARM."""

ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")


def look_at_machine() -> Iterator[Finding]:
    """Check the installation and the machine, from the parts to the whole."""
    yield Finding("headwise", OK, __version__)
    yield Finding("Python", OK, platform.python_version())
    yield from look_at_packages()
    yield look_at_build(torch.version.cuda, torch.cuda.is_available())
    yield _gpus()
    yield _threads()
    yield look_at_processor(Path("/proc/cpuinfo"))
    yield look_at_kernels()
    yield look_at_allocator(sys.platform, os.environ)
    yield _memory()
    yield _disk("disk here", Path.cwd())
    yield _disk("disk for temporary files", Path(tempfile.gettempdir()))
    yield look_at_encoding(
        sys.getfilesystemencoding(), locale.getpreferredencoding(False)
    )


def look_at_build(
    cuda: str | None, usable: bool, driver: Path = Path("/proc/driver/nvidia/version")
) -> Finding:
    """Compare torch's build with the machine: a GPU, or none."""
    what = "build of torch"
    if cuda is None and driver.exists():
        found = "for the CPU, though this machine has an NVIDIA GPU"
        advice = (
            "install the CUDA build of torch: its installation page names the command"
        )
        return Finding(what, NOTE, found, advice)
    if cuda is None:
        return Finding(what, OK, "for the CPU")
    if usable:
        return Finding(what, OK, f"for CUDA {cuda}")
    found = f"for CUDA {cuda}, but it can use no GPU here"
    if driver.exists():
        advice = "see that nvidia-smi runs, and that its driver is new enough for that"
        return Finding(what, FAILED, found, advice)
    advice = "nothing; the build for the CPU does the same and is gigabytes smaller"
    return Finding(what, NOTE, found, advice)


def look_at_threads(
    threads: int, cores: float, environment: Mapping[str, str]
) -> Finding:
    """Compare torch's threads with the cores that this process may use."""
    what, variable = "threads", "OMP_NUM_THREADS"
    found = f"torch uses {threads}, and {cores:g} cores may be used"
    if variable in environment:
        found += f" ({variable}={environment[variable]})"
    whole = max(1, int(cores))
    how = f"use --threads {whole}, or set {variable}={whole}"
    if threads > max(1, cores):
        advice = f"more threads than cores slow each other down: {how}"
        return Finding(what, FAILED, found, advice)
    if threads < whole and variable in environment:
        return Finding(what, NOTE, found, f"to use them all, {how}")
    return Finding(what, OK, found)


def look_at_processor(cpuinfo: Path) -> Finding:
    """Say what the processor can do, and what that means for bf16."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    kind = (
        f"{platform.machine()}, torch takes {torch.backends.cpu.get_cpu_capability()}"
    )
    if not flags:
        return Finding("processor", OK, f"{kind}; its features are not told here")
    has = [name for name in FEATURES if name in flags]
    kind += f"; has {', '.join(has) or 'none of the features that matter'}"
    if platform.machine() in ("x86_64", "AMD64") and "avx2" not in flags:
        advice = "expect a fraction of the speed; another machine, or a GPU, helps"
        return Finding("processor", NOTE, f"{kind}, which is little", advice)
    if "amx_bf16" in flags:
        bf16 = "it multiplies matrices of bf16, so training here takes bf16"
    else:
        bf16 = "it multiplies no matrices of bf16, so training here takes float32"
    return Finding("processor", OK, f"{kind}; {bf16} (training.precision = 'auto')")


def look_at_allocator(system: str, environment: Mapping[str, str]) -> Finding:
    """Say whether freed memory can be kept, which training on a CPU gains from."""
    what = "allocator"
    preloaded = environment.get("LD_PRELOAD", "")
    other = next((name for name in ALLOCATORS if name in preloaded), None)
    if other:
        return Finding(what, OK, f"{other}, preloaded; it keeps memory in its own way")
    if system != "linux":
        return Finding(what, SKIPPED, f"nothing is asked of that of {system}")
    library, release = platform.libc_ver()
    if library != "glibc":
        advice = "training is slower than with glibc; preload jemalloc, or change over"
        return Finding(what, NOTE, f"{library or 'not glibc'}", advice)
    found = f"glibc {release}; training has it keep what was freed"
    return Finding(what, OK, found)


def look_at_encoding(files: str, text: str) -> Finding:
    """See that names of files and messages can hold any character."""
    what = "encoding"
    codes = {name.lower().replace("-", "") for name in (files, text)}
    if codes == {"utf8"}:
        return Finding(what, OK, "UTF-8")
    found = f"{files} for names of files, {text} for text"
    advice = (
        "corpora and translations are UTF-8 all the same; for names and messages set "
        "LC_ALL=C.UTF-8, or PYTHONUTF8=1"
    )
    return Finding(what, NOTE, found, advice)


def _gpus() -> Finding:
    if not torch.cuda.is_available():
        found = "none; training and translating run on the processor"
        return Finding("GPU", SKIPPED, found)
    names = []
    for index in range(torch.cuda.device_count()):
        try:
            free, whole = torch.cuda.mem_get_info(index)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            advice = "see with nvidia-smi who uses it, or whether its driver is whole"
            return Finding("GPU", FAILED, f"GPU {index}: {reason}", advice)
        name = torch.cuda.get_device_name(index)
        names.append(f"{name}, {free / 2**30:.0f} of {whole / 2**30:.0f} GiB free")
    return Finding("GPU", OK, "; ".join(names))


def _threads() -> Finding:
    return look_at_threads(torch.get_num_threads(), allowed_cores(), os.environ)


def _memory() -> Finding:
    free = ProcessMemory().free()
    if free is None:
        return Finding("memory", SKIPPED, "this system does not say how much is free")
    found = f"{free / 2**30:.1f} GiB free, limits of a container counted"
    advice = "close other programs, raise the container's limit, or --batch-tokens auto"
    if free < LITTLE:
        return Finding("memory", FAILED, found, advice)
    return Finding("memory", OK, found)


def _disk(what: str, folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(what, FAILED, f"{folder}: {error.strerror}", "see to the disk")
    found = f"{free / 2**30:.1f} GiB free in {folder}"
    if not os.access(folder, os.W_OK):
        return Finding(what, NOTE, f"{folder} may not be written", "choose another")
    if free < LITTLE:
        return Finding(what, FAILED, found, "free some space before training")
    return Finding(what, OK, found)
