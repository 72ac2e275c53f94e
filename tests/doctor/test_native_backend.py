"""The doctor says what kernels in C were compiled for, and what is taken here."""

import pytest

from headwise.backends.native.compiler import NoKernelsError
from headwise.doctor import native_backend
from headwise.doctor.check import FAILED, NOTE, OK
from headwise.doctor.native_backend import check_native_backend
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
    monkeypatch.setattr(
        native_backend, "description", lambda: "compiled by cc for AVX2"
    )
    monkeypatch.setattr(native_backend, "ranked", ways.__getitem__)

    found = check_native_backend()

    assert found.status == OK
    assert found.found == f"compiled by cc for AVX2; {said}"


@pytest.mark.parametrize(
    ("error", "status"),
    [(NoKernelsError("no compiler"), NOTE), (UsageError("not 'offf'"), FAILED)],
)
def test_an_unavailable_native_backend_is_explained(monkeypatch, error, status):
    def fails():
        raise error

    monkeypatch.setattr(native_backend, "description", fails)
    found = check_native_backend()

    assert (found.status, found.found) == (status, str(error))
    assert found.advice
