"""Compiles our kernels once for a machine and user, and loads them.

A wheel cannot hold them: what a processor has beyond the common ones (tiles that
multiply bfloat16 numbers, vectors of 16 floats) makes half of their speed. They are one
small library of plain C without headers of anybody else, kept in the user's cache. There
is always another way without them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from headwise.errors import ResourceError

SOURCES = ("kernels.h", "products.c", "decoder.c", "choice.c")
"""The files of the library; the first is included by the others."""

SWITCH = "HEADWISE_KERNELS"
"""Environment variable: ``off`` forgoes compiled kernels."""

_FLAGS = ("-O3", "-std=gnu11", "-fno-math-errno", "-fPIC", "-shared")
_NATIVE = ("-march=native", "-mcpu=native", "")
"""How compilers are asked for this very processor; one of them works everywhere."""

_PATIENCE = 120
"""Seconds that a compiler may take; it needs about 3."""


class NoKernelsError(ResourceError):
    """Compiled kernels cannot be had here; the message says why and what would help."""


def why_not() -> str | None:
    """Return why there are no compiled kernels, or None where there are."""
    try:
        library()
    except NoKernelsError as error:
        return str(error)
    return None


@cache
def _outcome() -> ctypes.CDLL | NoKernelsError:
    try:
        return _loaded()
    except NoKernelsError as error:
        return error


def library() -> ctypes.CDLL:
    """Return the compiled library; the first call of all compiles it.

    Raises ``NoKernelsError``.
    """
    found = _outcome()
    if isinstance(found, NoKernelsError):
        raise found
    return found


def _loaded() -> ctypes.CDLL:
    if os.environ.get(SWITCH) == "off":
        raise NoKernelsError(f"compiled kernels are switched off by {SWITCH}=off")
    compiler = _compiler()
    home = Path(__file__).parent
    written = b"".join((home / name).read_bytes() for name in SOURCES)
    facts = "\n".join([*compiler, *_FLAGS, _age(compiler[0]), _processor()])
    name = hashlib.sha256(written + facts.encode()).hexdigest()[:32]
    file = _cache() / f"kernels-{name}.so"
    if not file.exists():
        _compile(compiler, home, file)
    try:
        found = ctypes.CDLL(str(file))
    except OSError as error:
        raise NoKernelsError(
            f"the compiled kernels {file} cannot be loaded ({error}); without that "
            "file they are compiled anew"
        ) from error
    found.product_prepare()
    return found


def _compiler() -> list[str]:
    asked = os.environ.get("CC", "").split()
    if asked and shutil.which(asked[0]):
        return asked
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return [found]
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    raise NoKernelsError(
        "no C compiler was found (cc, gcc, clang, or what CC names); installing one, "
        "or the Python package ziglang, which is one, makes translation several times "
        "as fast"
    )


def _cache() -> Path:
    """Return a folder that only this user can write to: what is in it is run."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "headwise" / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError as error:
        raise NoKernelsError(
            f"compiled kernels are kept in {folder}, which cannot be made "
            f"({error.strerror or error}); XDG_CACHE_HOME may name another place"
        ) from error
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise NoKernelsError(
            f"others may write to {folder}, so that what is compiled there is not "
            f"run; `chmod 700 {folder}` as its owner would help, or another place in "
            "XDG_CACHE_HOME"
        )
    return folder


def _compile(compiler: list[str], home: Path, file: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="headwise-") as scratch:
        made = Path(scratch) / file.name
        said = ""
        for native in _NATIVE:
            flags = [*_FLAGS, *([native] if native else [])]
            sources = [str(home / name) for name in SOURCES[1:]]
            command = [*compiler, *flags, *sources, "-o", str(made), "-lm"]
            try:
                done = subprocess.run(
                    command, capture_output=True, timeout=_PATIENCE, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise NoKernelsError(f"{compiler[0]} does not run: {error}") from error
            if done.returncode == 0:
                break
            said = done.stderr.decode(errors="replace").strip()
        else:
            lines = said.splitlines()[:3]
            raise NoKernelsError(
                f"{' '.join(compiler)} cannot compile the kernels: {' / '.join(lines)}"
            )
        try:
            beside = file.with_suffix(f".{os.getpid()}")
            shutil.copyfile(made, beside)
            beside.replace(file)  # whole or not at all, whoever else does the same
        except OSError as error:
            raise NoKernelsError(
                f"compiled kernels cannot be kept in {file.parent}: "
                f"{error.strerror or error}"
            ) from error


def _age(program: str) -> str:
    """Return what changes when a compiler is another one."""
    try:
        status = Path(shutil.which(program) or program).stat()
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"


def _processor() -> str:
    """Return what this processor can do: a home may be seen from several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    told = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(told)))
