"""Who gets the kernels in C where nobody names them: whom they were measured to help.

What decides is what the library was compiled for, not what the processor could do: a
`cc` may have replaced the flags. ``HEADWISE_KERNELS=on`` takes kernels all the same.
"""

from __future__ import annotations

from typing import Literal

from headwise.backends.native.compiler import Build, build, why_not, wish

Use = Literal["training", "decoding"]
Way = Literal["kernels", "ctranslate2", "pytorch"]

FASTEST_FIRST: dict[str, dict[Use, tuple[Way, ...]]] = {
    "AMX": {
        "training": ("kernels", "pytorch"),
        "decoding": ("kernels", "ctranslate2", "pytorch"),
    },
    "AVX-512": {
        "training": ("kernels", "pytorch"),
        "decoding": ("kernels", "ctranslate2", "pytorch"),
    },
    "AVX2": {
        "training": ("pytorch", "kernels"),
        "decoding": ("ctranslate2", "pytorch", "kernels"),
    },
    "AVX2 by clang": {
        "training": ("pytorch", "kernels"),
        "decoding": ("ctranslate2", "kernels", "pytorch"),
    },
}
"""Ways by the vectors that kernels were compiled for (``Build.vectors``) and, where it
matters, by whom; `benchmarks/kernel_choice.py` measures them anew."""

UNMEASURED: dict[Use, tuple[Way, ...]] = {
    "training": ("pytorch", "kernels"),
    "decoding": ("ctranslate2", "pytorch", "kernels"),
}
"""For all other vectors: what others have built for years, rather than ours."""


def order(use: Use) -> tuple[Way, ...]:
    """Return the ways to do it, the one to take first; kernels only if there are any.

    Raises ``UsageError`` where the environment says of kernels what means nothing.
    """
    if why_not():
        return tuple(way for way in UNMEASURED[use] if way != "kernels")
    measured = (_measured(build()) or UNMEASURED)[use]
    if wish():
        return ("kernels", *(way for way in measured if way != "kernels"))
    return measured


def _measured(found: Build) -> dict[Use, tuple[Way, ...]] | None:
    """Return what is known of kernels like these; None where that is nothing."""
    by_whom = f"{found.vectors} by {found.compiler.split()[0]}"
    return FASTEST_FIRST.get(by_whom) or FASTEST_FIRST.get(found.vectors)


def takes_kernels(use: Use, instead: Way = "pytorch") -> bool:
    """Tell whether kernels are to do it rather than another way."""
    ways = order(use)
    return "kernels" in ways and ways.index("kernels") < ways.index(instead)


def why_not_taken(use: Use, instead: Way = "pytorch") -> str | None:
    """Return why kernels are not to do it, though they might; None where they are."""
    if reason := why_not():
        return reason
    if takes_kernels(use, instead):
        return None
    found = build()
    if _measured(found):
        return (
            f"kernels in C are slower here: {found.compiler} compiled them for "
            f"{found.vectors}"
        )
    return (
        f"kernels in C were never measured as {found.compiler} compiled them, for "
        f"{found.vectors}"
    )
