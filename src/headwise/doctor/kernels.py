"""Whether the kernels that translation on a CPU is faster by can be had here."""

from __future__ import annotations

from headwise.doctor.finding import NOTE, OK, Finding
from headwise.native.compiler import NoKernelsError, description


def look_at_kernels() -> Finding:
    """Compile them, if that was not done before, and load them."""
    what = "compiled kernels"
    try:
        return Finding(what, OK, description())
    except NoKernelsError as error:
        advice = (
            "nothing for the same words: PyTorch finds them without, in two to three "
            "times the time"
        )
        return Finding(what, NOTE, str(error), advice)
