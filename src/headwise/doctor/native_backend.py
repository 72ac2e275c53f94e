"""Check that the native backend (C) can be compiled here, and where it is used."""

from __future__ import annotations

from headwise.backends.native.compiler import NoKernelsError, description
from headwise.backends.native.measured_speed import ranked
from headwise.doctor.check import FAILED, NOTE, OK, Check
from headwise.errors import UsageError


def check_native_backend() -> Check:
    """Compile the C library if it is not in the cache, and load it."""
    what = "native backend"
    try:
        return Check(what, OK, f"{description()}; {backends_used()}")
    except NoKernelsError as error:
        advice = (
            "translations are the same without it, but with AVX-512 PyTorch takes two "
            "to three times as long"
        )
        return Check(what, NOTE, str(error), advice)
    except UsageError as error:
        return Check(what, FAILED, str(error), "set it to another value, or unset it")


def backends_used() -> str:
    """Return which backends are used for training and translation by default."""
    names = {
        "native": "the native backend",
        "pytorch": "PyTorch",
        "ctranslate2": "CTranslate2",
    }
    ways = list(ranked("decoding"))
    usable = ways[: ways.index("pytorch") + 1]  # PyTorch supports every search
    translating = ", else ".join(names[way] for way in usable)
    training = names[ranked("training")[0]]
    return f"training uses {training}; translation uses {translating}"
