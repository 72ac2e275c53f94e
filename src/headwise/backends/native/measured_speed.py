"""Whether the native backend is the fastest one here, as it was measured.

What decides are the vectors that the kernels were compiled for, not the processor: a
`cc` may have replaced the flags. ``HEADWISE_KERNELS=on`` takes the kernels all the
same. ``tests/backends/native/test_measured_speed.py`` has a case for each row.
"""

from __future__ import annotations

from typing import Literal

from headwise.backends.native.compiler import (
    Build,
    build,
    requested,
    why_unavailable,
)

Use = Literal["training", "decoding"]
Backend = Literal["native", "ctranslate2", "pytorch"]

FASTEST_FIRST: dict[str, dict[Use, tuple[Backend, ...]]] = {
    "AMX": {
        "training": ("native", "pytorch"),
        "decoding": ("native", "ctranslate2", "pytorch"),
    },
    "AVX-512": {
        "training": ("native", "pytorch"),
        "decoding": ("native", "ctranslate2", "pytorch"),
    },
    "AVX2": {
        "training": ("pytorch", "native"),
        "decoding": ("ctranslate2", "pytorch", "native"),
    },
    "AVX2 by clang": {
        "training": ("pytorch", "native"),
        "decoding": ("ctranslate2", "native", "pytorch"),
    },
}
"""Backends by the vectors that the kernels were compiled for (``Build.vectors``) and,
where it matters, by the compiler; `benchmarks/kernel_choice.py` measures them anew."""

UNMEASURED: dict[Use, tuple[Backend, ...]] = {
    "training": ("pytorch", "native"),
    "decoding": ("ctranslate2", "pytorch", "native"),
}
"""For all other vectors: the established libraries come before the C kernels."""


def ranked(use: Use) -> tuple[Backend, ...]:
    """Return the backends for a use, fastest first; native only if it is available.

    Raises ``UsageError`` if ``HEADWISE_KERNELS`` has no valid value.
    """
    if why_unavailable():
        return tuple(each for each in UNMEASURED[use] if each != "native")
    order = (_measured(build()) or UNMEASURED)[use]
    if requested():
        return ("native", *(each for each in order if each != "native"))
    return order


def _measured(found: Build) -> dict[Use, tuple[Backend, ...]] | None:
    """Return the measured order for kernels built like these, if there is one."""
    by_compiler = f"{found.vectors} by {found.compiler.split()[0]}"
    return FASTEST_FIRST.get(by_compiler) or FASTEST_FIRST.get(found.vectors)


def prefers_native(use: Use, over: Backend = "pytorch") -> bool:
    """Tell whether the native backend is available and ranks above another."""
    order = ranked(use)
    return "native" in order and order.index("native") < order.index(over)


def why_not_preferred(use: Use, over: Backend = "pytorch") -> str | None:
    """Return why the native backend does not rank above another; None if it does."""
    if reason := why_unavailable():
        return reason
    if prefers_native(use, over):
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
