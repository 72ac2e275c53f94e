"""The check of the native library: which one is loaded, and the default backends."""

import pytest

from headwise.backends.native.ctypes_structs import BF16, FLOAT32
from headwise.backends.native.library import Build, NativeLibraryError
from headwise.doctor import native_backend_checks
from headwise.doctor.check import FAILED, NOTE, OK
from headwise.doctor.native_backend_checks import (
    check_native_backend,
    matmul_rate,
    matmul_rates,
)
from headwise.errors import UsageError


@pytest.mark.parametrize(
    ("ways", "said"),
    [
        (
            {
                "training": ("native", "pytorch"),
                "decoding": ("native", "ctranslate2", "pytorch"),
            },
            "training uses the native backend; translation uses the native backend, "
            "else CTranslate2, else PyTorch",
        ),
        (
            {
                "training": ("pytorch", "native"),
                "decoding": ("ctranslate2", "pytorch", "native"),
            },
            "training uses PyTorch; translation uses CTranslate2, else PyTorch",
        ),
    ],
)
def test_the_backends_used_by_default_are_shown(monkeypatch, ways, said):
    """Kernels that are slower were taken, and were called fine."""
    monkeypatch.setattr(native_backend_checks, "description", lambda: "variant v3")
    monkeypatch.setattr(native_backend_checks, "matmul_rates", lambda: "82 GFLOP/s")
    monkeypatch.setattr(native_backend_checks, "ranked", ways.__getitem__)

    found = check_native_backend()

    assert found.status == OK
    assert found.found == f"variant v3; 82 GFLOP/s; {said}"


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("v3", "matmul 82 GFLOP/s on one core"),
        ("v4-bf16", "matmul 82 GFLOP/s on one core, 150 in bf16"),
        ("amx", "matmul 82 GFLOP/s on one core, 150 in bf16"),
    ],
)
def test_the_rate_in_bf16_is_shown_where_it_differs(monkeypatch, variant, said):
    made = Build(variant, "clang 22.1.8", "-O3", "0123456789ab")
    monkeypatch.setattr(native_backend_checks, "build", lambda: made)
    rates = {FLOAT32: 81.6, BF16: 150.2}
    monkeypatch.setattr(
        native_backend_checks, "matmul_rate", lambda terms=FLOAT32: rates[terms]
    )

    assert matmul_rates() == said


@pytest.mark.usefixtures("needs_native_library")
@pytest.mark.parametrize("terms", [FLOAT32, BF16])
def test_the_rate_is_that_of_a_processor(terms):
    assert 0.5 < matmul_rate(terms, seconds=0.02) < 5000


@pytest.mark.parametrize(
    ("error", "status"),
    [(NativeLibraryError("no compiler"), NOTE), (UsageError("not 'offf'"), FAILED)],
)
def test_an_unavailable_native_backend_is_explained(monkeypatch, error, status):
    def fails():
        raise error

    monkeypatch.setattr(native_backend_checks, "description", fails)
    found = check_native_backend()

    assert (found.status, found.found) == (status, str(error))
    assert found.advice
