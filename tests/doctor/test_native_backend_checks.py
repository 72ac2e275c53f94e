"""The check of the native library: which one is loaded, and the default backends."""

import pytest

from headwise.backends.native.library import NativeLibraryError
from headwise.doctor import native_backend_checks
from headwise.doctor.check import FAILED, NOTE, OK
from headwise.doctor.native_backend_checks import check_native_backend, matmul_rate
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
    monkeypatch.setattr(native_backend_checks, "matmul_rate", lambda: 81.6)
    monkeypatch.setattr(native_backend_checks, "ranked", ways.__getitem__)

    found = check_native_backend()

    assert found.status == OK
    assert found.found == f"variant v3; matmul 82 GFLOP/s on one core; {said}"


@pytest.mark.usefixtures("needs_native_library")
def test_the_rate_is_that_of_a_processor():
    assert 0.5 < matmul_rate(seconds=0.02) < 5000


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
