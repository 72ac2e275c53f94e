"""Compiles our kernels once for a machine and user, and loads them.

A wheel cannot hold them: what a processor has beyond the common ones (tiles that
multiply bfloat16 numbers, vectors of 16 floats) makes half of their speed. They are one
small library of plain C without headers of anybody else, kept in the user's cache.
There is always another way without them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from headwise.errors import ResourceError, UsageError

SOURCES = (
    *("kernels.h", "matmul.h", "attention.h", "train.h"),
    *("matmul.c", "matmul_amx.c", "attention.c", "decoder.c", "topk.c", "build.c"),
    *("train.c", "train_weights.c", "train_loss.c"),
    *("train_attention.c", "train_layers.c"),
)
"""The files of the library, and what they include."""

SWITCH = "HEADWISE_KERNELS"
"""Environment variable: ``off`` forgoes compiled kernels, ``on`` takes them also where
they were measured to be slower (:mod:`headwise.backends.native.selection`)."""

SPELLINGS = {
    **dict.fromkeys(("off", "0", "no", "false"), False),
    **dict.fromkeys(("on", "1", "yes", "true"), True),
    **dict.fromkeys(("auto", ""), None),
}
"""Values of the switch; None leaves the choice to what was measured."""

_FLAGS = ("-O3", "-std=gnu11", "-fno-math-errno", "-fPIC", "-shared")
_NATIVE = ("-march=native", "-mcpu=native", "")
"""How compilers are asked for this very processor; one of them works everywhere."""

_PATIENCE = 120
"""Seconds that a compiler may take; it needs about 3."""


class NoKernelsError(ResourceError):
    """Compiled kernels cannot be had here; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class Build:
    """What the compiled library is, as far as the last digits depend on it."""

    compiler: str
    """Name and version, such as ``gcc 12.2.0``."""

    flags: str
    """What the compiler was asked for; it may have been given others."""

    instructions: tuple[str, ...]
    """Extensions of the instruction set that it was compiled for."""

    tiles: bool
    """Whether the processor's tiles (AMX) multiply matrices."""

    digest: str
    """The beginning of the library's SHA-256: other code, another digest."""

    @property
    def vectors(self) -> str:
        """The widest vectors it was compiled for, as people name them."""
        if self.tiles:
            return "AMX"
        named = {"avx512f": "AVX-512", "avx2": "AVX2", "sve": "SVE", "asimd": "NEON"}
        wide = [name for key, name in named.items() if key in self.instructions]
        return wide[0] if wide else "any processor"

    def __str__(self) -> str:
        instructions = " ".join(self.instructions) or "no extensions"
        tiles = ", with tiles" if self.tiles else ""
        return (
            f"{self.compiler} for {instructions}{tiles} ({self.flags}), library "
            f"{self.digest}"
        )


def wish() -> bool | None:
    """Return what the environment says of compiled kernels; None: nothing.

    Raises ``UsageError`` for what is no spelling of on, off or auto.
    """
    text = os.environ.get(SWITCH, "")
    try:
        return SPELLINGS[text.strip().lower()]
    except KeyError:
        raise UsageError(
            f"{SWITCH} must be off (or 0, no, false), on (or 1, yes, true) or auto, "
            f"not {text!r}; off forgoes the kernels in C, auto takes them where they "
            "were measured to be faster"
        ) from None


def why_not() -> str | None:
    """Return why there are no compiled kernels, or None where there are."""
    try:
        library()
    except NoKernelsError as error:
        return str(error)
    return None


def description() -> str:
    """Say what compiled the kernels, and what they make use of.

    Raises ``NoKernelsError``.
    """
    found = build()
    if found.tiles:
        how = (
            "bf16, and float32 in training and of sources, is multiplied by the "
            "processor's tiles"
        )
    else:
        how = "bf16 is multiplied as float32, in no less time than that"
    return (
        f"compiled by {shlex.join(_compiler())} ({found.compiler}) for "
        f"{found.vectors}; {how}"
    )


def build() -> Build:
    """Return what the library says of itself.

    Raises ``NoKernelsError``.
    """
    return _build_of(library())


@cache
def _build_of(found: ctypes.CDLL) -> Build:
    def said(name: str) -> str:
        function = getattr(found, name)
        function.restype = ctypes.c_char_p
        text: bytes = function()
        return text.decode().strip()

    return Build(
        compiler=said("build_compiler"),
        flags=said("build_flags"),
        instructions=tuple(said("build_instructions").split()),
        tiles=bool(found.product_prepare()),
        digest=hashlib.sha256(Path(found._name).read_bytes()).hexdigest()[:12],
    )


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
    if wish() is False:
        value = os.environ[SWITCH]
        raise NoKernelsError(f"compiled kernels are switched off by {SWITCH}={value}")
    compiler = _compiler()
    home = Path(__file__).parent / "csrc"
    written = b"".join((home / name).read_bytes() for name in SOURCES)
    facts = "\n".join([*compiler, *_FLAGS, _age(compiler[0]), _processor()])
    folder = _cache()
    note = folder / hashlib.sha256(written + facts.encode()).hexdigest()[:32]
    file = _kept(note) or _compiled(compiler, home, note)
    try:
        found = ctypes.CDLL(str(file))
    except OSError as error:
        raise NoKernelsError(
            f"the compiled kernels {file} cannot be loaded ({error}); where programs "
            "in that folder may not be run, XDG_CACHE_HOME may name another place"
        ) from error
    found.product_prepare()
    return found


def _compiler() -> list[str]:
    asked = shlex.split(os.environ.get("CC", ""))
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
        "or the Python package ziglang, which is one, makes translation on a CPU with "
        "AVX-512 two to three times as fast"
    )


def _cache() -> Path:
    """Return a folder that only this user can write to: what is in it is run."""
    folder = Path("headwise", "kernels")
    try:
        root = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        folder = root / folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        ours = _is_ours(folder)
    except (OSError, RuntimeError) as error:  # the latter where there is no home
        reason = getattr(error, "strerror", None) or error
        raise NoKernelsError(
            f"compiled kernels are kept in {folder}, which cannot be made "
            f"({reason}); XDG_CACHE_HOME may name another place"
        ) from error
    if not ours:
        raise NoKernelsError(
            f"others may write to {folder}, so that what is compiled there is not "
            f"run; `chmod 700 {folder}` as its owner would help, or another place in "
            "XDG_CACHE_HOME"
        )
    return folder


def _is_ours(path: Path) -> bool:
    """Tell whether nobody else could have written this; the system's owner may."""
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _library(note: Path, digest: str) -> Path:
    return note.with_name(f"kernels-{digest[:32]}.so")


def _kept(note: Path) -> Path | None:
    """Return the library that was compiled before, if it is whole.

    To run one that is not ends the process, without a word.
    """
    try:
        digest = note.read_text(encoding="ascii").strip()
        file = _library(note, digest)
        whole = hashlib.sha256(file.read_bytes()).hexdigest() == digest
        return file if whole and _is_ours(note) and _is_ours(file) else None
    except (OSError, ValueError):
        return None


def _compiled(compiler: list[str], home: Path, note: Path) -> Path:
    """Compile the library, and keep it under a name that says what it holds.

    So two processes may do this at once, whichever of them is the last.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="headwise-") as scratch:
            made = Path(scratch) / "kernels.so"
            _compile(compiler, home, made)
            library = made.read_bytes()
        digest = hashlib.sha256(library).hexdigest()
        file = _library(note, digest)
        _write(file, library)
        _write(note, digest.encode())
    except OSError as error:
        raise NoKernelsError(
            f"compiled kernels cannot be kept in {note.parent}: "
            f"{error.strerror or error}; XDG_CACHE_HOME may name another place"
        ) from error
    return file


def _write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all, that only we may change."""
    beside = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        beside.write_bytes(content)
        beside.chmod(0o600)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def _compile(compiler: list[str], home: Path, made: Path) -> None:
    said = ""
    for native in _NATIVE:
        flags = [*_FLAGS, *([native] if native else [])]
        noted = f'-DBUILD_FLAGS="{" ".join(flags)}"'
        sources = [str(home / name) for name in SOURCES if name.endswith(".c")]
        command = [*compiler, *flags, noted, *sources, "-o", str(made), "-lm"]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoKernelsError(f"{compiler[0]} does not run: {error}") from error
        if done.returncode == 0 and made.exists():
            return
        said = done.stderr.decode(errors="replace").strip() or "it wrote no library"
    lines = said.splitlines()[:3]
    raise NoKernelsError(
        f"{shlex.join(compiler)} cannot compile the kernels: {' / '.join(lines)}"
    )


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
