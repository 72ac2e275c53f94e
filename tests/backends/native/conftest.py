"""The variants of the native library, each where this processor can run it."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import environment

from headwise.backends.native.cpu_variants import VARIANTS, usable
from headwise.backends.native.functions import typed
from headwise.backends.native.library import NativeLibraryError, load_variant

EMULATED = "v4-bf16-emulated"
"""v4-bf16 for processors with AVX2, its instructions in plain C."""


def build_script():
    """Return the module ``hatch_build.py``."""
    path = Path(__file__).parents[3] / "hatch_build.py"
    spec = importlib.util.spec_from_file_location("hatch_build", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(
    scope="module", params=[*(each.name for each in usable() or VARIANTS[:1]), EMULATED]
)
def each_library(request):
    """Return each variant of the native library that this processor can run."""
    if request.param == EMULATED:
        return request.getfixturevalue("emulated_library")
    variant = next(each for each in VARIANTS if each.name == request.param)
    try:
        return typed(load_variant(variant))
    except NativeLibraryError as error:
        pytest.skip(f"{variant.name}: {error}")


@pytest.fixture(scope="session")
def emulated_library(tmp_path_factory):
    """Return v4-bf16 with the instructions that benchmarks/sanitizers has in C."""
    pytest.importorskip("ziglang", reason="the compiler is not here")
    script = build_script()
    target = script.this_platform()
    if platform.system() != "Linux" or not any(each.name == "v3" for each in usable()):
        pytest.skip("this machine cannot run v3")
    made = tmp_path_factory.mktemp("emulated") / "headwise.so"
    emulated = script.ROOT / "benchmarks" / "sanitizers" / "emulated"
    flags = [*script.FLAGS, *script.PROCESSORS["v3"], "-O1", "-Wno-psabi"]
    flags += ["-D__AVX512F__", "-D__AVX512BF16__", f"-I{emulated}"]
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target.zig, *flags]
    cache = str(script.ROOT / "build" / "zig-cache")
    subprocess.run(
        [*command, *map(str, script.SOURCES.glob("*.c")), "-o", str(made)],
        env=environment(ZIG_GLOBAL_CACHE_DIR=cache, ZIG_LOCAL_CACHE_DIR=cache),
        check=True,
    )
    return typed(ctypes.CDLL(str(made)))
