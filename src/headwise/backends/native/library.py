"""Loads the native library: C that was compiled ahead, once for each kind of processor.

The fastest variant that this processor can run is taken
(:mod:`headwise.backends.native.cpu_variants`). PyTorch is always the fallback.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headwise import __version__
from headwise.backends.native.cpu_variants import (
    VARIANTS,
    Variant,
    missing_features,
    usable,
)
from headwise.errors import ResourceError, UsageError

SWITCH = "HEADWISE_NATIVE"
"""Environment variable: the name of a variant pins it, ``off`` disables the native
backend, ``on`` takes it even where it was measured to be slower
(:mod:`headwise.backends.native.measured_speed`)."""

OLD_SWITCH = "HEADWISE_KERNELS"
"""The same, as it was called before."""

SPELLINGS = {
    **dict.fromkeys(("off", "0", "no", "false"), False),
    **dict.fromkeys(("on", "1", "yes", "true"), True),
    **dict.fromkeys(("auto", "", *(each.name for each in VARIANTS)), None),
}
"""Values of the switch; None leaves the choice to the measurements."""

FOLDER = Path(__file__).parent / "lib"
SOURCES = Path(__file__).parent / "csrc"


class NativeLibraryError(ResourceError):
    """There is no native library to use; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class Build:
    """Facts of the loaded library, as far as rounding depends on them."""

    variant: str
    """Name in :data:`VARIANTS`."""

    compiler: str
    """Name and version, such as ``clang 22.1.8``."""

    flags: str
    """The flags passed to the compiler."""

    digest: str
    """The first digits of the library's SHA-256."""

    @property
    def vectors(self) -> str:
        """The common name of the instruction set that it was compiled for."""
        return _named(self.variant).vectors

    @property
    def amx(self) -> bool:
        """Whether matrices are multiplied by AMX."""
        return self.variant == "amx"

    @property
    def has_bf16(self) -> bool:
        """Whether bf16 matrices are multiplied by instructions for them."""
        return "avx512_bf16" in _named(self.variant).features

    def __str__(self) -> str:
        """Describe the build; checkpoints store this text, so it stays literal."""
        return (
            f"{self.variant} by {self.compiler} ({self.flags}), library {self.digest}"
        )


def switch() -> tuple[str, str]:
    """Return the environment variable that is set, and its value in lower case.

    Raises ``UsageError`` for a value that is not known.
    """
    name = OLD_SWITCH if SWITCH not in os.environ else SWITCH
    text = os.environ.get(name, "")
    value = text.strip().lower()
    if value in SPELLINGS:
        return name, value
    names = ", ".join(each.name for each in VARIANTS)
    raise UsageError(
        f"{name} must be off (or 0, no, false), on (or 1, yes, true), auto or a "
        f"variant of the native library ({names}), not {text!r}; off disables the "
        "native backend, auto takes it where it was measured to be faster"
    )


def requested() -> bool | None:
    """Return what the environment asks for: on, off, or None (no preference).

    Raises ``UsageError`` for a value that is not known.
    """
    return SPELLINGS[switch()[1]]


def why_unavailable() -> str | None:
    """Return why there is no native library here, or None if there is one."""
    found = _library_or_reason()
    return found if isinstance(found, str) else None


def description() -> str:
    """Say which variant was taken, and what multiplies its matrices.

    Raises ``NativeLibraryError``.
    """
    found = build()
    if found.amx:
        how = "AMX multiplies matrices in bf16, and in float32 in training and encoding"
    elif found.has_bf16:
        how = "bf16 matrices are multiplied by dot products of pairs"
    else:
        how = "bf16 is computed in float32, without a gain in speed"
    return f"variant {found.variant} ({found.vectors}), {found.compiler}; {how}"


def build() -> Build:
    """Return the facts that the library reports about itself.

    Raises ``NativeLibraryError``.
    """
    return _build_of(library())


@cache
def _build_of(found: ctypes.CDLL) -> Build:
    return Build(
        variant=_text(found, "build_variant"),
        compiler=_text(found, "build_compiler"),
        flags=_text(found, "build_flags"),
        digest=hashlib.sha256(Path(found._name).read_bytes()).hexdigest()[:12],
    )


@cache
def _library_or_reason() -> ctypes.CDLL | str:
    """Return the library, or why there is none.

    The reason is text: an error raised again and again would keep the frames of all
    its callers alive.
    """
    try:
        return _loaded()
    except NativeLibraryError as error:
        return str(error)


def library() -> ctypes.CDLL:
    """Return the loaded library.

    Raises ``NativeLibraryError``.
    """
    found = _library_or_reason()
    if isinstance(found, str):
        raise NativeLibraryError(found)
    return found


def _loaded() -> ctypes.CDLL:
    name, value = switch()
    if SPELLINGS[value] is False:
        raise NativeLibraryError(f"{name}={value} switches the native backend off")
    pinned = value in {each.name for each in VARIANTS}
    reasons = []
    for variant in [_named(value)] if pinned else usable():
        try:
            return load_variant(variant)
        except NativeLibraryError as error:
            reasons.append(str(error))
    if pinned:
        raise NativeLibraryError(f"{name}={value} cannot be used: {reasons[0]}")
    if reasons:
        raise NativeLibraryError("; ".join(reasons))
    known = [each for each in VARIANTS if platform.machine() in each.machines]
    if not known:
        raise NativeLibraryError(
            f"there is no native library for processors of the kind "
            f"{platform.machine()}; PyTorch does the work"
        )
    raise NativeLibraryError(
        f"the native library needs {known[-1].vectors}, but this processor lacks "
        f"{', '.join(missing_features(known[-1]))}; PyTorch does the work"
    )


def load_variant(variant: Variant) -> ctypes.CDLL:
    """Load one variant, if this processor can run it.

    Raises ``NativeLibraryError``.
    """
    if platform.machine() not in variant.machines:
        raise NativeLibraryError(f"this processor is of the kind {platform.machine()}")
    if missing := missing_features(variant):
        raise NativeLibraryError(f"this processor has no {', '.join(missing)}")
    suffix = ".dylib" if platform.system() == "Darwin" else ".so"
    file = FOLDER / f"headwise-{variant.name}{suffix}"
    if not file.exists():
        raise NativeLibraryError(
            f"this installation has no {file.name}; a wheel for this platform has it, "
            "and `scripts/setup` compiles it in a checkout"
        )
    try:
        found = ctypes.CDLL(str(file))
    except OSError as error:
        raise NativeLibraryError(
            f"the native library cannot be loaded ({error}); where programs in that "
            "folder may not be run, another place for the installation would help"
        ) from error
    if SOURCES.is_dir() and _text(found, "build_sources") != _source_digest():
        raise NativeLibraryError(
            f"{file} was compiled from other sources than those in {SOURCES}; "
            "`scripts/setup` compiles it anew"
        )
    if (version := _text(found, "build_version")) != __version__:
        raise NativeLibraryError(
            f"{file} is of another version of headwise "
            f"({version or 'unknown'}), not of {__version__}; installing headwise "
            "again (in a checkout, `scripts/setup`) would help"
        )
    found.amx_enable.restype = ctypes.c_int64
    if variant.name == "amx" and not found.amx_enable():
        raise NativeLibraryError("the operating system does not permit AMX")
    return found


def _text(found: ctypes.CDLL, name: str) -> str:
    """Return what a function of the library says of its build; "" without it."""
    function = getattr(found, name, None)
    if function is None:
        return ""
    function.restype = ctypes.c_char_p
    text: bytes = function()
    return text.decode()


def _source_digest() -> str:
    """Return the digest of the C sources as ``hatch_build.py`` computes it."""
    files = sorted(each for each in SOURCES.iterdir() if each.suffix in (".c", ".h"))
    content = b"".join(each.read_bytes() for each in files)
    return hashlib.sha256(content).hexdigest()[:16]


def _named(name: str) -> Variant:
    return next(each for each in VARIANTS if each.name == name)
