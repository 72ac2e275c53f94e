"""Compiles the C kernels once for a machine and user, and loads them.

A wheel cannot hold them: half of their speed comes from instruction sets that not every
processor has (AMX, AVX-512). They are one small library of plain C without other
headers, kept in a compile cache in the user's cache folder. PyTorch is always the
fallback. ``tests/backends/native/test_compiler.py`` tests the cache.
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
"""Source files and headers of the library."""

SWITCH = "HEADWISE_KERNELS"
"""Environment variable: ``off`` disables the C kernels, ``on`` takes them even where
they were measured to be slower (:mod:`headwise.backends.native.measured_speed`)."""

SPELLINGS = {
    **dict.fromkeys(("off", "0", "no", "false"), False),
    **dict.fromkeys(("on", "1", "yes", "true"), True),
    **dict.fromkeys(("auto", ""), None),
}
"""Values of the switch; None leaves the choice to the measurements."""

_FLAGS = ("-O3", "-std=gnu11", "-fno-math-errno", "-fPIC", "-shared")
_TARGETS = ("-march=native", "-mcpu=native", "")
"""Flags that target this very processor, tried in this order; the last always works."""

_TIMEOUT_SECONDS = 120
"""For the compiler, which needs about 3."""


class NoKernelsError(ResourceError):
    """The C kernels are not available; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class Build:
    """Facts of the compiled library, as far as rounding depends on them."""

    compiler: str
    """Name and version, such as ``gcc 12.2.0``."""

    flags: str
    """The flags passed to the compiler; a wrapper may have replaced them."""

    instructions: tuple[str, ...]
    """Instruction set extensions that it was compiled for."""

    amx: bool
    """Whether matrices are multiplied by AMX."""

    digest: str
    """The first digits of the library's SHA-256."""

    @property
    def vectors(self) -> str:
        """The common name of the widest vectors it was compiled for."""
        if self.amx:
            return "AMX"
        named = {"avx512f": "AVX-512", "avx2": "AVX2", "sve": "SVE", "asimd": "NEON"}
        wide = [name for key, name in named.items() if key in self.instructions]
        return wide[0] if wide else "any processor"

    def __str__(self) -> str:
        """Describe the build; checkpoints store this text, so it stays literal."""
        instructions = " ".join(self.instructions) or "no extensions"
        tiles = ", with tiles" if self.amx else ""
        return (
            f"{self.compiler} for {instructions}{tiles} ({self.flags}), library "
            f"{self.digest}"
        )


def requested() -> bool | None:
    """Return what the environment asks for: on, off, or None (no preference).

    Raises ``UsageError`` for a value that is not on, off or auto.
    """
    text = os.environ.get(SWITCH, "")
    try:
        return SPELLINGS[text.strip().lower()]
    except KeyError:
        raise UsageError(
            f"{SWITCH} must be off (or 0, no, false), on (or 1, yes, true) or auto, "
            f"not {text!r}; off disables the kernels in C, auto takes them where "
            "they were measured to be faster"
        ) from None


def why_unavailable() -> str | None:
    """Return why there are no C kernels here, or None if there are."""
    try:
        library()
    except NoKernelsError as error:
        return str(error)
    return None


def description() -> str:
    """Say which compiler built the kernels, and what multiplies their matrices.

    Raises ``NoKernelsError``.
    """
    found = build()
    if found.amx:
        how = "AMX multiplies matrices in bf16, and in float32 in training and encoding"
    else:
        how = "bf16 is computed in float32, without a gain in speed"
    return (
        f"compiled by {shlex.join(_compiler())} ({found.compiler}) for "
        f"{found.vectors}; {how}"
    )


def build() -> Build:
    """Return the facts that the library reports about itself.

    Raises ``NoKernelsError``.
    """
    return _build_of(library())


@cache
def _build_of(found: ctypes.CDLL) -> Build:
    def text_of(name: str) -> str:
        function = getattr(found, name)
        function.restype = ctypes.c_char_p
        text: bytes = function()
        return text.decode().strip()

    return Build(
        compiler=text_of("build_compiler"),
        flags=text_of("build_flags"),
        instructions=tuple(text_of("build_instructions").split()),
        amx=bool(found.amx_enable()),
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
    if requested() is False:
        value = os.environ[SWITCH]
        raise NoKernelsError(f"the C kernels are switched off by {SWITCH}={value}")
    compiler = _compiler()
    home = Path(__file__).parent / "csrc"
    sources = b"".join((home / name).read_bytes() for name in SOURCES)
    facts = "\n".join([*compiler, *_FLAGS, _fingerprint(compiler[0]), _processor()])
    folder = _cache()
    note = folder / hashlib.sha256(sources + facts.encode()).hexdigest()[:32]
    file = _cached(note) or _compiled(compiler, home, note)
    try:
        found = ctypes.CDLL(str(file))
    except OSError as error:
        raise NoKernelsError(
            f"the C kernels {file} cannot be loaded ({error}); where programs "
            "in that folder may not be run, XDG_CACHE_HOME may name another folder"
        ) from error
    found.amx_enable()
    return found


def _compiler() -> list[str]:
    configured = shlex.split(os.environ.get("CC", ""))
    if configured and shutil.which(configured[0]):
        return configured
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
    """Return a folder that only this user can write to: its content is executed."""
    folder = Path("headwise", "kernels")
    try:
        root = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        folder = root / folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        ours = _is_ours(folder)
    except (OSError, RuntimeError) as error:  # the latter where there is no home
        reason = getattr(error, "strerror", None) or error
        raise NoKernelsError(
            f"the C kernels are kept in {folder}, which cannot be created "
            f"({reason}); XDG_CACHE_HOME may name another folder"
        ) from error
    if not ours:
        raise NoKernelsError(
            f"others may write to {folder}, so nothing that is compiled there is run; "
            f"`chmod 700 {folder}` as its owner would help, or another folder in "
            "XDG_CACHE_HOME"
        )
    return folder


def _is_ours(path: Path) -> bool:
    """Tell whether only this user can have written it."""
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _library(note: Path, digest: str) -> Path:
    return note.with_name(f"kernels-{digest[:32]}.so")


def _cached(note: Path) -> Path | None:
    """Return the library in the cache, if its checksum is right.

    Loading a damaged one could end the process without a message.
    """
    try:
        digest = note.read_text(encoding="ascii").strip()
        file = _library(note, digest)
        intact = hashlib.sha256(file.read_bytes()).hexdigest() == digest
        return file if intact and _is_ours(note) and _is_ours(file) else None
    except (OSError, ValueError):
        return None


def _compiled(compiler: list[str], home: Path, note: Path) -> Path:
    """Compile the library and store it under its checksum.

    So two processes may do this at once, in any order.
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
            f"the C kernels cannot be kept in {note.parent}: "
            f"{error.strerror or error}; XDG_CACHE_HOME may name another folder"
        ) from error
    return file


def _write(file: Path, content: bytes) -> None:
    """Write a file atomically, writable by this user only."""
    beside = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        beside.write_bytes(content)
        beside.chmod(0o600)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def _compile(compiler: list[str], home: Path, made: Path) -> None:
    message = ""
    for target in _TARGETS:
        flags = [*_FLAGS, *([target] if target else [])]
        flags_macro = f'-DBUILD_FLAGS="{" ".join(flags)}"'
        sources = [str(home / name) for name in SOURCES if name.endswith(".c")]
        command = [*compiler, *flags, flags_macro, *sources, "-o", str(made), "-lm"]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoKernelsError(f"{compiler[0]} does not run: {error}") from error
        if done.returncode == 0 and made.exists():
            return
        message = done.stderr.decode(errors="replace").strip() or "it wrote no library"
    lines = message.splitlines()[:3]
    raise NoKernelsError(
        f"{shlex.join(compiler)} cannot compile the kernels: {' / '.join(lines)}"
    )


def _fingerprint(program: str) -> str:
    """Return text that changes when the compiler does."""
    try:
        status = Path(shutil.which(program) or program).stat()
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"


def _processor() -> str:
    """Describe the processor: several machines may share one home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    fields = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(fields)))
