"""Whether the kernels in C can be had here, and what takes them."""

from __future__ import annotations

from headwise.backends.native.compiler import NoKernelsError, description
from headwise.backends.native.selection import ranked
from headwise.doctor.check import FAILED, NOTE, OK, Finding
from headwise.errors import UsageError


def look_at_kernels() -> Finding:
    """Compile them, if that was not done before, and load them."""
    what = "compiled kernels"
    try:
        return Finding(what, OK, f"{description()}; {taken()}")
    except NoKernelsError as error:
        advice = (
            "nothing for the same words: PyTorch finds them without, with AVX-512 in "
            "two to three times the time"
        )
        return Finding(what, NOTE, str(error), advice)
    except UsageError as error:
        return Finding(what, FAILED, str(error), "set it to another value, or unset it")


def taken() -> str:
    """Say what trains and translates here where nobody asks for anything else."""
    named = {
        "native": "these kernels",
        "pytorch": "PyTorch",
        "ctranslate2": "CTranslate2",
    }
    ways = list(ranked("decoding"))
    able = ways[: ways.index("pytorch") + 1]  # which can search in every way
    translating = ", else ".join(named[way] for way in able)
    return f"training takes {named[ranked('training')[0]]}; translating {translating}"
