"""The native library is compiled ahead; the fastest variant for this CPU is loaded."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
from tests.backends.native.conftest import build_script

from headwise.backends.native import cpu_variants, library
from headwise.backends.native.cpu_variants import VARIANTS, usable
from headwise.backends.native.ctypes_structs import Matrix
from headwise.backends.native.functions import check_sizes
from headwise.backends.native.library import NativeLibraryError
from headwise.errors import UsageError

X86 = ("amx", "v4-bf16", "v4", "v3")
V3 = next(each for each in VARIANTS if each.name == "v3").features
V4 = next(each for each in VARIANTS if each.name == "v4").features
V4_BF16 = next(each for each in VARIANTS if each.name == "v4-bf16").features
AMX = next(each for each in VARIANTS if each.name == "amx").features


@pytest.fixture(autouse=True)
def no_switch(monkeypatch):
    monkeypatch.delenv(library.SWITCH, raising=False)
    monkeypatch.delenv(library.OLD_SWITCH, raising=False)


@pytest.fixture
def processor(monkeypatch):
    """Pretend that this is another processor."""

    def pretend(machine="x86_64", features=()):
        monkeypatch.setattr(cpu_variants.platform, "machine", lambda: machine)
        monkeypatch.setattr(cpu_variants, "cpu_features", lambda: frozenset(features))

    return pretend


@pytest.fixture
def loads(monkeypatch):
    """Let every variant load but those that are refused; return what was tried."""

    def refuse(*names):
        tried = []

        def load(variant):
            tried.append(variant.name)
            if variant.name in names:
                raise NativeLibraryError(f"{variant.name} is refused")
            return variant.name

        monkeypatch.setattr(library, "load_variant", load)
        return tried

    return refuse


def refusal() -> str:
    with pytest.raises(NativeLibraryError) as raised:
        library._loaded()
    return str(raised.value)


@pytest.mark.parametrize(
    ("machine", "features", "taken"),
    [
        ("x86_64", AMX, "amx"),
        ("x86_64", V4_BF16, "v4-bf16"),
        ("x86_64", V4_BF16 | {"amx_tile"}, "v4-bf16"),  # without amx_bf16
        ("x86_64", V4_BF16 - {"avx512vl"}, "v3"),
        ("x86_64", V4, "v4"),
        ("x86_64", V4 | {"amx_tile", "amx_bf16"}, "v4"),  # without avx512_bf16
        ("x86_64", V4 - {"avx512vl"}, "v3"),
        ("AMD64", V3, "v3"),
        ("aarch64", {"asimd"}, "neon"),
        ("arm64", (), "neon"),
    ],
)
def test_the_fastest_variant_of_the_processor_is_taken(
    processor, loads, machine, features, taken
):
    processor(machine, features)
    loads()

    assert library._loaded() == taken


def test_where_amx_is_not_permitted_avx_512_is_taken(processor, loads):
    processor(features=AMX)
    tried = loads("amx")

    assert library._loaded() == "v4-bf16"
    assert tried == ["amx", "v4-bf16"]


@pytest.mark.parametrize("name", ["HEADWISE_NATIVE", "HEADWISE_KERNELS"])
@pytest.mark.parametrize("variant", ["v3", " V4 ", "V4-BF16"])
def test_a_variant_can_be_pinned(processor, loads, monkeypatch, name, variant):
    processor(features=AMX)
    loads()
    monkeypatch.setenv(name, variant)

    assert library._loaded() == variant.strip().lower()
    assert library.requested() is None


def test_a_pinned_variant_that_does_not_run_here_is_not_replaced(
    processor, monkeypatch
):
    processor(features=V3)
    monkeypatch.setenv(library.SWITCH, "v4")

    assert refusal() == (
        "HEADWISE_NATIVE=v4 cannot be used: this processor has no avx512bw, avx512cd, "
        "avx512dq, avx512f, avx512vl"
    )
    processor(features=V4)
    monkeypatch.setenv(library.SWITCH, "v4-bf16")
    assert refusal() == (
        "HEADWISE_NATIVE=v4-bf16 cannot be used: this processor has no avx512_bf16"
    )
    monkeypatch.setenv(library.SWITCH, "neon")
    assert "this processor is of the kind x86_64" in refusal()


def test_a_processor_without_a_variant_gets_pytorch(processor):
    processor("riscv64")
    assert "no native library for processors of the kind riscv64" in refusal()

    processor(features=V3 - {"fma"})
    assert refusal() == (
        "the native library needs AVX2, but this processor lacks fma; PyTorch does "
        "the work"
    )


@pytest.mark.parametrize("off", ["off", "0", "no", "false", "OFF", " No "])
def test_it_can_be_switched_off(loads, monkeypatch, off):
    """``0`` and ``no`` were ignored once, and the native backend ran."""
    tried = loads()
    monkeypatch.setenv(library.SWITCH, off)

    value = off.strip().lower()
    assert refusal() == f"HEADWISE_NATIVE={value} switches the native backend off"
    assert tried == []


@pytest.mark.parametrize("on", ["on", "1", "yes", "true", "True", "auto", ""])
def test_what_means_on_or_nothing_switches_nothing_off(loads, monkeypatch, on):
    loads()
    monkeypatch.setenv(library.SWITCH, on)

    assert library._loaded()
    assert library.requested() is (None if on in ("auto", "") else True)


def test_a_switch_that_means_nothing_is_refused(monkeypatch):
    monkeypatch.setenv(library.SWITCH, "v5")

    with pytest.raises(
        UsageError, match=r"must be off .*\(amx, v4-bf16, v4, v3, neon\), not"
    ):
        library._loaded()


@pytest.fixture
def installed(needs_native_library, tmp_path, monkeypatch):
    """Return a copy of the library that is loaded here, and its variant."""
    variant = next(each for each in VARIANTS if each.name == library.build().variant)
    real = Path(library.library()._name)
    copy = shutil.copy(real, tmp_path / real.name)
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    return copy, variant


def test_an_installation_without_the_library_says_so(installed):
    file, variant = installed
    file.unlink()

    with pytest.raises(NativeLibraryError, match=r"has no headwise-.*a wheel for this"):
        library.load_variant(variant)


@pytest.mark.parametrize("content", [b"", b"\x7fELF, but no more", b"nonsense"])
def test_a_damaged_library_is_not_loaded(installed, content):
    file, variant = installed
    file.write_bytes(content)

    with pytest.raises(NativeLibraryError, match="the native library cannot be loaded"):
        library.load_variant(variant)


def test_a_library_of_other_sources_is_not_loaded(installed, monkeypatch, tmp_path):
    """Edited C would be tested as it was before."""
    _, variant = installed
    library.load_variant(variant)
    edited = shutil.copytree(library.SOURCES, tmp_path / "csrc")
    with (edited / "topk.c").open("a") as file:
        file.write("int more;\n")
    monkeypatch.setattr(library, "SOURCES", edited)

    with pytest.raises(NativeLibraryError, match="compiled from other sources than"):
        library.load_variant(variant)


def test_a_library_of_another_version_is_not_loaded(installed, monkeypatch):
    """As a wheel without sources finds it after half of an update."""
    _, variant = installed
    monkeypatch.setattr(library, "__version__", "0.0.9")

    with pytest.raises(
        NativeLibraryError, match=r"another version of headwise \(.*\), not of 0.0.9"
    ):
        library.load_variant(variant)


@pytest.mark.usefixtures("needs_native_library")
def test_structs_of_another_size_are_refused():
    with pytest.raises(NativeLibraryError, match="its Matrix has 24 bytes, not 40"):
        # The second in the table is matmul_opts.
        check_sizes(library.library(), (Matrix, Matrix))


@pytest.mark.parametrize("ask", [library.why_unavailable, library.library])
def test_asking_in_vain_keeps_no_caller_alive(monkeypatch, ask):
    """An error that was raised again and again kept every batch of a training."""
    find = functools.cache(library._library_or_reason.__wrapped__)
    monkeypatch.setattr(library, "_library_or_reason", find)
    monkeypatch.setenv(library.SWITCH, "off")

    class Held:
        pass

    def call():
        held = Held()
        with contextlib.suppress(NativeLibraryError):
            ask()
        return weakref.ref(held)

    assert [call()() for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda each: each.name)
def test_every_variant_that_this_processor_can_run_is_there(variant):
    """Or else the tests of the native library would all be skipped."""
    if variant not in usable():
        pytest.skip(f"this processor cannot run {variant.name}")

    assert library.load_variant(variant)


def test_imports_load_nothing():
    code = (
        "import headwise.model, headwise.inference.translator\n"
        "from headwise.backends.native import library\n"
        "print(library._library_or_reason.cache_info().currsize)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, stdout=subprocess.PIPE
    )

    assert done.stdout == b"0\n"


@pytest.mark.usefixtures("needs_native_library")
def test_the_library_says_what_it_is():
    """The compiler fills in its own name and version."""
    found = library.build()
    content = Path(library.library()._name).read_bytes()

    assert found.variant in [each.name for each in usable()]
    assert found.compiler.startswith("clang ")
    assert "-ffp-contract=on" in found.flags
    assert hashlib.sha256(content).hexdigest().startswith(found.digest)
    for part in (found.variant, found.compiler, found.flags, found.digest):
        assert part in str(found)


@pytest.mark.usefixtures("needs_native_library")
def test_it_takes_nothing_from_a_mathematical_library():
    """``expf`` of another version of libm would give other bits."""
    if not shutil.which("nm"):
        pytest.skip("nm is not here")
    file = library.library()._name
    done = subprocess.run(
        ["nm", "-D", "--undefined-only", file], capture_output=True, check=True
    )
    lines = done.stdout.decode().splitlines()
    needed = {line.split()[-1].partition("@")[0] for line in lines}

    assert needed <= {"memcpy", "memset", "memmove", "syscall"}


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("amx", "AMX multiplies matrices in bf16"),
        ("v4-bf16", "bf16 matrices are multiplied by dot products of pairs"),
        ("v4", "bf16 is computed in float32"),
        ("v3", "bf16 is computed in float32"),
        ("neon", "bf16 is computed in float32"),
    ],
)
def test_what_multiplies_bf16_is_said(monkeypatch, variant, said):
    made = library.Build(variant, "clang 22.1.8", "-O3", "0123456789ab")
    monkeypatch.setattr(library, "build", lambda: made)

    assert said in library.description()
    assert made.has_bf16 == (variant in ("amx", "v4-bf16"))


def test_the_build_and_the_loader_know_the_same_variants():
    script = build_script()

    names = {each.name for each in VARIANTS}
    made = {each for target in script.TARGETS.values() for each in target.variants}
    assert set(script.PROCESSORS) == made == names
    assert script.source_digest() == library._source_digest()
    assert script.LIBRARIES == library.FOLDER


@pytest.mark.usefixtures("needs_native_library")
def test_the_same_sources_give_the_same_bytes(tmp_path):
    """As the library that is loaded here, compiled anew in an empty cache."""
    pytest.importorskip("ziglang", reason="the compiler is not here")
    script = build_script()
    target = script.this_platform()
    here = Path(library.library()._name)
    script.ROOT = tmp_path

    made = script.compile_variant(library.build().variant, target, tmp_path)

    assert made.read_bytes() == here.read_bytes()


def test_processors_with_bf16_dot_products_have_a_variant(tmp_path):
    """It compiles, and to that instruction, though nothing here may run it."""
    pytest.importorskip("ziglang", reason="the compiler is not here")
    script = build_script()
    target = script.TARGETS["Linux", "x86_64"]

    (made,) = script.compile_variants(("v4-bf16",), target, tmp_path)

    assert made.name == "headwise-v4-bf16.so"
    if shutil.which("objdump"):
        assert b"vdpbf16ps" in subprocess.check_output(["objdump", "-d", made])


def test_arm_processors_have_a_variant(tmp_path):
    """It compiles, though nothing here may run it."""
    pytest.importorskip("ziglang", reason="the compiler is not here")
    script = build_script()
    target = script.TARGETS["Linux", "aarch64"]

    (made,) = script.compile_variants(target.variants, target, tmp_path)

    assert made.read_bytes()[18:20] == b"\xb7\x00"  # the machine: AArch64
