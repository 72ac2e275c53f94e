"""The native backend is preferred where its vectors were measured to win."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from tests.processes import environment

from headwise.backends.native import compiler, measured_speed
from headwise.backends.native.compiler import SWITCH, Build
from headwise.backends.native.measured_speed import (
    FASTEST_FIRST,
    UNMEASURED,
    Use,
    prefers_native,
    ranked,
    why_not_preferred,
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
    """Pretend that the kernels were compiled for these vectors."""

    def build(vectors, compiler="gcc 12.2.0"):
        made = Build(
            compiler=compiler,
            flags="-O3 -march=native",
            instructions=INSTRUCTIONS[vectors],
            amx=vectors == "AMX",
            digest="0123456789ab",
        )
        assert made.vectors == vectors
        monkeypatch.setattr(measured_speed, "build", lambda: made)
        monkeypatch.setattr(measured_speed, "why_unavailable", lambda: None)

    monkeypatch.delenv(SWITCH, raising=False)
    return build


@pytest.mark.parametrize("vectors", ["AMX", "AVX-512"])
@pytest.mark.parametrize("use", get_args(Use))
def test_with_avx_512_the_native_backend_is_preferred(built_for, vectors, use):
    built_for(vectors)

    assert ranked(use)[0] == "native"
    assert why_not_preferred(use) is None


def test_with_avx2_pytorch_trains_and_ctranslate2_translates(built_for):
    """As gcc compiles them for AVX2, an update took 4.3 times as long as PyTorch's."""
    built_for("AVX2")

    assert ranked("training")[0] == "pytorch"
    assert ranked("decoding")[0] == "ctranslate2"
    said = "kernels in C are slower here: gcc 12.2.0 compiled them for AVX2"
    assert why_not_preferred("training") == said
    assert why_not_preferred("decoding", "ctranslate2") == said


def test_what_clang_makes_for_avx2_translates_faster_than_pytorch_only(built_for):
    """In half of PyTorch's time; CTranslate2 takes less or as much for small models."""
    built_for("AVX2", "clang 14.0.6")

    assert not prefers_native("training")
    assert prefers_native("decoding")
    assert not prefers_native("decoding", "ctranslate2")


@pytest.mark.parametrize("vectors", ["NEON", "any processor"])
def test_what_was_never_measured_is_not_preferred(built_for, vectors):
    built_for(vectors)

    for use in get_args(Use):
        assert not prefers_native(use)
        assert f"never measured as gcc 12.2.0 compiled them, for {vectors}" in str(
            why_not_preferred(use)
        )


@pytest.mark.parametrize("vectors", INSTRUCTIONS)
def test_the_switch_on_prefers_the_native_backend(built_for, monkeypatch, vectors):
    built_for(vectors)
    monkeypatch.setenv(SWITCH, "yes")

    for use in get_args(Use):
        assert ranked(use)[0] == "native"
        assert why_not_preferred(use) is None
    assert why_not_preferred("decoding", "ctranslate2") is None


def test_without_kernels_the_native_backend_is_not_ranked(monkeypatch):
    monkeypatch.setattr(
        measured_speed, "why_unavailable", lambda: "there is no compiler"
    )
    monkeypatch.setenv(SWITCH, "on")

    for use in get_args(Use):
        assert "native" not in ranked(use)
        assert why_not_preferred(use) == "there is no compiler"


def test_an_invalid_switch_is_an_error(built_for, monkeypatch):
    built_for("AVX2")
    monkeypatch.setenv(SWITCH, "maybe")

    with pytest.raises(UsageError, match="HEADWISE_KERNELS must be off"):
        prefers_native("training")


def test_every_backend_of_every_use_is_ranked():
    for ways in (*FASTEST_FIRST.values(), UNMEASURED):
        assert sorted(ways["training"]) == ["native", "pytorch"]
        assert sorted(ways["decoding"]) == ["ctranslate2", "native", "pytorch"]


CODE = """
from headwise.backends.native import compiler
from headwise.backends.native.compiler import build
from headwise.backends.native.measured_speed import ranked
compiler.SOURCES = ("kernels.h", "matmul.h", "matmul_amx.c", "build.c")  # what is asked
print(build().vectors, ranked("training")[0])
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
    assert prefers_native("training")
    assert prefers_native("decoding", "ctranslate2")
