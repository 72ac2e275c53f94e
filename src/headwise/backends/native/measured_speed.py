"""Whether the native backend is the fastest one here, as it was measured.

What decides is the variant of the native library that was loaded.
``HEADWISE_NATIVE=on`` takes it all the same.
``tests/backends/native/test_measured_speed.py`` has a case for each row.
"""

from __future__ import annotations

from typing import Literal

from headwise.backends.native.library import build, requested, why_unavailable

Use = Literal["training", "decoding"]
Backend = Literal["native", "ctranslate2", "pytorch"]

FASTEST_FIRST: dict[str, dict[Use, tuple[Backend, ...]]] = {
    each: {
        "training": ("native", "pytorch"),
        "decoding": ("native", "ctranslate2", "pytorch"),
    }
    for each in ("amx", "v4", "v3")
}
"""Backends by the variant of the native library; ``benchmarks/backend_choice.py``
measures them anew."""

UNMEASURED: dict[Use, tuple[Backend, ...]] = {
    "training": ("pytorch", "native"),
    "decoding": ("ctranslate2", "pytorch", "native"),
}
"""For all other variants: the established libraries come before the native one."""


def ranked(use: Use) -> tuple[Backend, ...]:
    """Return the backends for a use, fastest first; native only if it is available.

    Raises ``UsageError`` if ``HEADWISE_NATIVE`` has no valid value.
    """
    if why_unavailable():
        return tuple(each for each in UNMEASURED[use] if each != "native")
    order = FASTEST_FIRST.get(build().variant, UNMEASURED)[use]
    if requested():
        return ("native", *(each for each in order if each != "native"))
    return order


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
    if found.variant in FASTEST_FIRST:
        return f"the native backend is slower here, with {found.vectors}"
    return f"the native backend was never measured with {found.vectors}"
