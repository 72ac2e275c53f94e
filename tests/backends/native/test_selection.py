"""Kernels in C are taken where they were measured to win, by their vectors."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from tests.processes import environment

from headwise.backends.native import compiler, selection
from headwise.backends.native.compiler import SWITCH, Build
from headwise.backends.native.selection import (
    FASTEST_FIRST,
    UNMEASURED,
    Use,
    order,
    takes_kernels,
    why_not_taken,
)
from headwise.errors import UsageError

INSTRUCTIONS = {
    "AMX": ("avx2", "avx512f", "amx_bf16"),
    "AVX-512": ("avx2", "avx512f"),
    "AVX2": ("avx2", "fma"),
    "NEON": ("asimd",),
    "any processor": (),
}


@pytest.fixture
def built_for(monkeypatch):
    """Let there be kernels that were compiled for these vectors."""

    def build(vectors, compiler="gcc 12.2.0"):
        made = Build(
            compiler=compiler,
            flags="-O3 -march=native",
            instructions=INSTRUCTIONS[vectors],
            tiles=vectors == "AMX",
            digest="0123456789ab",
        )
        assert made.vectors == vectors
        monkeypatch.setattr(selection, "build", lambda: made)
        monkeypatch.setattr(selection, "why_not", lambda: None)

    monkeypatch.delenv(SWITCH, raising=False)
    return build


@pytest.mark.parametrize("vectors", ["AMX", "AVX-512"])
@pytest.mark.parametrize("use", get_args(Use))
def test_with_avx_512_kernels_are_taken(built_for, vectors, use):
    built_for(vectors)

    assert order(use)[0] == "kernels"
    assert why_not_taken(use) is None


def test_with_avx2_pytorch_trains_and_ctranslate2_translates(built_for):
    """As gcc compiles them for AVX2, an update took 4.3 times as long as PyTorch's."""
    built_for("AVX2")

    assert order("training")[0] == "pytorch"
    assert order("decoding")[0] == "ctranslate2"
    said = "kernels in C are slower here: gcc 12.2.0 compiled them for AVX2"
    assert why_not_taken("training") == said
    assert why_not_taken("decoding", "ctranslate2") == said


def test_what_clang_makes_for_avx2_translates_faster_than_pytorch_only(built_for):
    """In half of PyTorch's time; CTranslate2 takes less or as much for small models."""
    built_for("AVX2", "clang 14.0.6")

    assert not takes_kernels("training")
    assert takes_kernels("decoding")
    assert not takes_kernels("decoding", "ctranslate2")


@pytest.mark.parametrize("vectors", ["NEON", "any processor"])
def test_what_was_never_measured_is_not_taken(built_for, vectors):
    built_for(vectors)

    for use in get_args(Use):
        assert not takes_kernels(use)
        assert f"never measured as gcc 12.2.0 compiled them, for {vectors}" in str(
            why_not_taken(use)
        )


@pytest.mark.parametrize("vectors", INSTRUCTIONS)
def test_who_wishes_for_kernels_gets_them(built_for, monkeypatch, vectors):
    built_for(vectors)
    monkeypatch.setenv(SWITCH, "yes")

    for use in get_args(Use):
        assert order(use)[0] == "kernels"
        assert why_not_taken(use) is None
    assert why_not_taken("decoding", "ctranslate2") is None


def test_without_kernels_none_are_taken(monkeypatch):
    monkeypatch.setattr(selection, "why_not", lambda: "there is no compiler")
    monkeypatch.setenv(SWITCH, "on")

    for use in get_args(Use):
        assert "kernels" not in order(use)
        assert why_not_taken(use) == "there is no compiler"


def test_a_wish_that_means_nothing_is_an_error(built_for, monkeypatch):
    built_for("AVX2")
    monkeypatch.setenv(SWITCH, "maybe")

    with pytest.raises(UsageError, match="HEADWISE_KERNELS must be off"):
        takes_kernels("training")


def test_every_way_of_every_use_has_its_place():
    for ways in (*FASTEST_FIRST.values(), UNMEASURED):
        assert sorted(ways["training"]) == ["kernels", "pytorch"]
        assert sorted(ways["decoding"]) == ["ctranslate2", "kernels", "pytorch"]


CODE = """
from headwise.backends.native import compiler
from headwise.backends.native.compiler import build
from headwise.backends.native.selection import order
compiler.SOURCES = ("kernels.h", "matmul.h", "matmul_amx.c", "build.c")  # what is asked
print(build().vectors, order("training")[0])
"""


def in_a_process_of_its_own(**more):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment(**more),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    return done.stdout.split()


@pytest.mark.usefixtures("a_compiler_here")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="is about x86-64")
def test_a_compiler_that_is_told_another_processor_is_seen_through(tmp_path):
    """A `cc` that builds for AVX2 where the processor has more, as farms have it.

    What the processor can do would have chosen kernels that take four times the time.
    """
    real = shutil.which("gcc") or shutil.which("clang")
    if real is None:
        pytest.skip("neither gcc nor clang is here")
    program = tmp_path / "cc"
    program.write_text(
        "#!/bin/bash\n" + f'exec {real} "${{@/-march=native/-march=haswell}}"\n'
    )
    program.chmod(0o755)

    found = in_a_process_of_its_own(
        CC=str(program), XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path)
    )

    assert found == ["AVX2", "pytorch"]


@pytest.mark.usefixtures("a_compiler_here")
def test_a_processor_with_avx_512_gets_kernels_for_it(monkeypatch):
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists() or " avx512f " not in cpuinfo.read_text():
        pytest.skip("this processor has no AVX-512")
    if "-march=native" not in compiler.build().flags:
        pytest.skip("this compiler does not know -march=native")
    monkeypatch.delenv(SWITCH, raising=False)

    assert compiler.build().vectors in ("AMX", "AVX-512")
    assert takes_kernels("training")
    assert takes_kernels("decoding", "ctranslate2")
