"""``headwise doctor``: checks of the installation and the machine."""

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
from headwise.backends.native.measured_speed import bf16_is_faster
from headwise.doctor.check import FAILED, NOTE, OK, SKIPPED, Check
from headwise.doctor.cores import allowed_cores
from headwise.doctor.native_backend_checks import check_native_backend
from headwise.doctor.package_checks import check_packages
from headwise.training.memory_usage import ProcessMemory

MIN_BYTES = 2 * 2**30
"""Free bytes of memory, or of a disk, below which a check fails."""

FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_int8", "bf16")
"""CPU features that matter for speed, as Linux names them; the last is of ARM."""

ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")


def check_machine() -> Iterator[Check]:
    """Check the installation and the machine."""
    yield Check("headwise", OK, __version__)
    yield Check("Python", OK, platform.python_version())
    yield from check_packages()
    yield check_torch_build(torch.version.cuda, torch.cuda.is_available())
    yield _gpus()
    yield _threads()
    yield check_cpu(Path("/proc/cpuinfo"))
    yield check_native_backend()
    yield check_allocator(sys.platform, os.environ)
    yield _memory()
    yield check_disk_here()
    yield check_temporary_disk(os.environ)
    yield check_encoding(
        sys.getfilesystemencoding(), locale.getpreferredencoding(False)
    )


def check_torch_build(
    cuda: str | None, usable: bool, driver: Path = Path("/proc/driver/nvidia/version")
) -> Check:
    """Check that torch's build (CPU or CUDA) fits the machine."""
    what = "build of torch"
    if cuda is None and driver.exists():
        found = "for the CPU, but this machine has an NVIDIA GPU"
        advice = (
            "install the CUDA build of torch: its installation page has the command"
        )
        return Check(what, NOTE, found, advice)
    if cuda is None:
        return Check(what, OK, "for the CPU")
    if usable:
        return Check(what, OK, f"for CUDA {cuda}")
    found = f"for CUDA {cuda}, but no GPU can be used here"
    if driver.exists():
        advice = "check that nvidia-smi runs, and that the driver is new enough"
        return Check(what, FAILED, found, advice)
    advice = "nothing; the CPU build does the same and is gigabytes smaller"
    return Check(what, NOTE, found, advice)


def check_threads(threads: int, cores: float, environment: Mapping[str, str]) -> Check:
    """Check that torch uses no more threads than there are cores."""
    what, variable = "threads", "OMP_NUM_THREADS"
    found = f"torch uses {threads}, {cores:g} cores are available"
    if variable in environment:
        found += f" ({variable}={environment[variable]})"
    whole = max(1, int(cores))
    how = f"use --threads {whole}, or set {variable}={whole}"
    if threads > max(1, cores):
        advice = f"more threads than cores slow each other down: {how}"
        return Check(what, FAILED, found, advice)
    if threads < whole and variable in environment:
        return Check(what, NOTE, found, f"to use them all, {how}")
    return Check(what, OK, found)


def check_cpu(cpuinfo: Path) -> Check:
    """Check the CPU features, and what they mean for bf16."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    named = re.search(r"^vendor_id\s*:\s*(\S+)$", text, re.MULTILINE)
    vendor = named[1] if named else ""
    kind = f"{platform.machine()}, torch uses {torch.backends.cpu.get_cpu_capability()}"
    if not flags:
        return Check("processor", OK, f"{kind}; its features are not known")
    has = [name for name in FEATURES if name in flags]
    kind += f"; has {', '.join(has) or 'none of the features that matter'}"
    if platform.machine() in ("x86_64", "AMD64") and "avx2" not in flags:
        advice = "expect a fraction of the speed; use another machine, or a GPU"
        return Check("processor", NOTE, kind, advice)
    if "amx_bf16" in flags:
        bf16 = "bf16 matrix multiplication (AMX), so training uses bf16"
    elif "avx512_bf16" in flags and bf16_is_faster("v4-bf16", vendor):
        bf16 = "bf16 dot products (AVX-512 BF16), so training uses bf16"
    elif "avx512_bf16" in flags:
        bf16 = "bf16 dot products, not measured to be faster, so training uses float32"
    else:
        bf16 = "no bf16 matrix multiplication (AMX), so training uses float32"
    return Check("processor", OK, f"{kind}; {bf16} (training.precision = 'auto')")


def check_allocator(system: str, environment: Mapping[str, str]) -> Check:
    """Check the allocator: training on a CPU is faster if freed memory is kept."""
    what = "allocator"
    preloaded = environment.get("LD_PRELOAD", "")
    other = next((name for name in ALLOCATORS if name in preloaded), None)
    if other:
        return Check(what, OK, f"{other}, preloaded; it keeps freed memory itself")
    if system != "linux":
        return Check(what, SKIPPED, f"not configured on {system}")
    library, release = platform.libc_ver()
    if library != "glibc":
        advice = "training is slower than with glibc; preload jemalloc"
        return Check(what, NOTE, f"{library or 'not glibc'}", advice)
    found = f"glibc {release}; training configures it to keep freed memory"
    return Check(what, OK, found)


def check_disk_here() -> Check:
    """Check the disk of the current folder."""
    what = "disk here"
    try:
        return _disk(what, Path.cwd())
    except FileNotFoundError:
        found = "the current folder was deleted"
        return Check(what, FAILED, found, "change to another folder")


def check_temporary_disk(environment: Mapping[str, str]) -> Check:
    """Check that there is a folder for temporary files, and its disk."""
    what = "disk for temporary files"
    advice = "free some space there, or set TMPDIR to another folder"
    try:
        folder = Path(tempfile.gettempdir())
    except OSError as error:  # all of them are full, or not writable
        return Check(what, FAILED, error.strerror or str(error), advice)
    chosen = environment.get("TMPDIR")
    if chosen and Path(chosen).absolute() != folder:
        found = f"TMPDIR={chosen} cannot be written to; {folder} is used instead"
        return Check(what, NOTE, found, advice)
    return _disk(what, folder)


def check_encoding(files: str, text: str) -> Check:
    """Check that file names and messages are encoded in UTF-8."""
    what = "encoding"
    codes = {name.lower().replace("-", "") for name in (files, text)}
    if codes == {"utf8"}:
        return Check(what, OK, "UTF-8")
    found = f"{files} for file names, {text} for text"
    advice = (
        "corpora and translations are UTF-8 anyway; for file names and messages set "
        "LC_ALL=C.UTF-8, or PYTHONUTF8=1"
    )
    return Check(what, NOTE, found, advice)


def _gpus() -> Check:
    if not torch.cuda.is_available():
        found = "none; training and translation run on the CPU"
        return Check("GPU", SKIPPED, found)
    names = []
    for index in range(torch.cuda.device_count()):
        try:
            free, whole = torch.cuda.mem_get_info(index)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            advice = "check with nvidia-smi who uses it, and that the driver works"
            return Check("GPU", FAILED, f"GPU {index}: {reason}", advice)
        name = torch.cuda.get_device_name(index)
        names.append(f"{name}, {free / 2**30:.0f} of {whole / 2**30:.0f} GiB free")
    return Check("GPU", OK, "; ".join(names))


def _threads() -> Check:
    return check_threads(torch.get_num_threads(), allowed_cores(), os.environ)


def _memory() -> Check:
    free = ProcessMemory().free()
    if free is None:
        return Check("memory", SKIPPED, "free memory is not known on this system")
    found = f"{free / 2**30:.1f} GiB free, container limits included"
    advice = "close other programs, raise the container's limit, or --batch-tokens auto"
    if free < MIN_BYTES:
        return Check("memory", FAILED, found, advice)
    return Check("memory", OK, found)


def _disk(what: str, folder: Path) -> Check:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(what, FAILED, f"{folder}: {error.strerror}", "check the disk")
    found = f"{free / 2**30:.1f} GiB free in {folder}"
    if not os.access(folder, os.W_OK):
        return Check(what, NOTE, f"{folder} is not writable", "choose another")
    if free < MIN_BYTES:
        return Check(what, FAILED, found, "free some space before training")
    return Check(what, OK, found)
