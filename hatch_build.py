"""Compile the native library while a wheel is built, for every kind of processor.

The compiler is Zig's Clang, a package of PyPI, pinned: so the same sources give the
same bytes on any machine, and no user needs a compiler. A wheel holds all variants for
its platform, an editable installation those that this processor can run, in
``src/headwise/backends/native/lib``. On a platform without a variant the wheel is a
pure one, and PyTorch does the work.

    python hatch_build.py          compile what an editable installation has
    python hatch_build.py v3 v4    compile these variants
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ZIG = "ziglang==0.17.1"

ROOT = Path(__file__).parent
NATIVE = Path("src", "headwise", "backends", "native")
SOURCES = ROOT / NATIVE / "csrc"
PACKAGE = ROOT / "src" / "headwise" / "__init__.py"
LIBRARIES = ROOT / NATIVE / "lib"

FLAGS = (
    *("-O3", "-std=gnu11", "-fPIC", "-shared", "-Wall", "-Werror"),
    # An expression a * b + c is one operation, on all processors; nothing else is.
    "-ffp-contract=on",
    *("-fno-math-errno", "-fno-sanitize=all", "-fvisibility=hidden"),
    *("-g0", "-Wl,-s"),
)


class Target(NamedTuple):
    """A platform: Zig's name of it, the tag of its wheel, its variants."""

    zig: str
    wheel: str
    variants: tuple[str, ...]
    suffix: str = ".so"


X86 = ("v3", "v4", "v4-bf16", "amx")
TARGETS = {
    ("Linux", "x86_64"): Target(
        "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64", X86
    ),
    ("Linux", "aarch64"): Target(
        *("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
        ("neon",),
    ),
    ("Darwin", "arm64"): Target(
        "aarch64-macos.11.0", "macosx_11_0_arm64", ("neon",), ".dylib"
    ),
    ("Darwin", "x86_64"): Target(
        "x86_64-macos.11.0", "macosx_11_0_x86_64", ("v3", "v4"), ".dylib"
    ),
}
"""By operating system and machine, as ``platform`` names them."""

PROCESSORS: dict[str, tuple[str, ...]] = {
    "v3": ("-mcpu=x86_64_v3",),
    "v4": ("-mcpu=x86_64_v4", "-mprefer-vector-width=512"),
    "v4-bf16": ("-mcpu=x86_64_v4+avx512bf16", "-mprefer-vector-width=512"),
    "amx": (
        "-mcpu=x86_64_v4+avx512bf16+amx_tile+amx_bf16",
        "-mprefer-vector-width=512",
    ),
    "neon": ("-mcpu=generic",),
}
"""Flags of each variant; ``backends/native/cpu_variants.py`` says who can run it."""


def this_platform() -> Target | None:
    """Return the target of this machine; None where there is no variant for it."""
    return TARGETS.get((platform.system(), platform.machine()))


def source_digest() -> str:
    """Return a digest of the C sources, which the library and Python compare."""
    files = sorted(each for each in SOURCES.iterdir() if each.suffix in (".c", ".h"))
    content = b"".join(each.read_bytes() for each in files)
    return hashlib.sha256(content).hexdigest()[:16]


def headwise_version() -> str:
    """Return the version that the library and Python compare as well."""
    text = PACKAGE.read_text(encoding="utf-8")
    found = re.search('^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found
    return found[1]


def compile_variant(variant: str, target: Target, folder: Path) -> Path:
    """Compile one variant into ``folder``; return its path."""
    made = folder / f"headwise-{variant}{target.suffix}"
    flags = (*FLAGS, *PROCESSORS[variant])
    facts = {
        "BUILD_VARIANT": variant,
        "BUILD_FLAGS": " ".join(flags),
        "BUILD_VERSION": headwise_version(),
        "BUILD_SOURCES": source_digest(),
    }
    cache = ROOT / "build" / "zig-cache"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        out = Path(scratch) / made.name
        subprocess.run(
            [
                *(sys.executable, "-m", "ziglang", "cc", "-target", target.zig, *flags),
                *(f'-D{name}="{value}"' for name, value in facts.items()),
                *sorted(each.name for each in SOURCES.glob("*.c")),
                *("-o", str(out)),
            ],
            cwd=SOURCES,
            env={
                **os.environ,
                "ZIG_GLOBAL_CACHE_DIR": str(cache),
                "ZIG_LOCAL_CACHE_DIR": str(cache),
            },
            check=True,
        )
        out.chmod(0o644)
        out.replace(made)  # in one step: another process may have the old one open
    return made


def compile_variants(variants: tuple[str, ...], target: Target, to: Path) -> list[Path]:
    """Compile variants into a folder, several at a time."""
    to.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda each: compile_variant(each, target, to), variants))


def usable_variants(target: Target) -> tuple[str, ...]:
    """Return the variants that this processor can run."""
    sys.path.insert(0, str(ROOT / "src"))
    from headwise.backends.native.cpu_variants import usable

    return tuple(each.name for each in usable() if each.name in target.variants)


class NativeLibraryHook(BuildHookInterface[Any]):
    """Adds the native library to a wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return the compiler, where there is something to compile."""
        return [ZIG] if this_platform() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what the wheel is for."""
        target = this_platform()
        if target is None or find_spec("ziglang") is None:
            self.app.display_warning("a wheel without the native library")
            return
        if version == "editable":
            compile_variants(usable_variants(target), target, LIBRARIES)
            return
        self._folder = tempfile.TemporaryDirectory()
        made = compile_variants(target.variants, target, Path(self._folder.name))
        package = Path(*NATIVE.parts[1:], LIBRARIES.name)
        build_data["force_include"].update(
            {str(each): str(package / each.name) for each in made}
        )
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{target.wheel}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact: str) -> None:
        """Remove what was compiled for the wheel."""
        if folder := getattr(self, "_folder", None):
            folder.cleanup()


if __name__ == "__main__":
    here = this_platform()
    if here is None:
        raise SystemExit(f"no variant for {platform.system()} on {platform.machine()}")
    chosen = tuple(sys.argv[1:]) or usable_variants(here)
    try:
        for path in compile_variants(chosen, here, LIBRARIES):
            print(path.relative_to(ROOT))
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.returncode) from None
