"""Whether the native backend is the fastest one here, and in which precision.

What decides is the variant of the native library that was loaded, as it was measured.
``HEADWISE_NATIVE=on`` takes the native backend all the same.
``tests/backends/native/test_measured_speed.py`` has a case for each row.
"""

from __future__ import annotations

from typing import Literal

from headwise.backends.api import Precision
from headwise.backends.native.library import build, requested, why_unavailable

Use = Literal["training", "decoding"]
Backend = Literal["native", "ctranslate2", "pytorch"]

FASTEST_FIRST: dict[str, dict[Use, tuple[Backend, ...]]] = {
    each: {
        "training": ("native", "pytorch"),
        "decoding": ("native", "ctranslate2", "pytorch"),
    }
    for each in ("amx", "v4-bf16", "v4", "v3")
}
"""Backends by the variant of the native library, in float32, where v4-bf16 is the same
as v4; ``benchmarks/backend_choice.py`` measures them anew."""

UNMEASURED: dict[Use, tuple[Backend, ...]] = {
    "training": ("pytorch", "native"),
    "decoding": ("ctranslate2", "pytorch", "native"),
}
"""For all other variants: the established libraries come before the native one."""

BF16_IS_FASTER: dict[str, bool] = {"amx": True}
"""Whether training in bf16 is as fast as in float32, or faster, by those variants that
have instructions for it. One that is not listed was never measured, which
``benchmarks/matmul.py`` and ``benchmarks/training.py --precisions float32,bf16`` do."""


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


def fastest_precision() -> Precision | None:
    """Return the precision in which the native backend was measured to train fastest.

    float32 if that was never measured; None if the library is not available or
    multiplies bf16 by no instructions for it, so that there is no choice. Raises
    ``UsageError`` if ``HEADWISE_NATIVE`` has no valid value.
    """
    if why_unavailable() or not build().has_bf16:
        return None
    return "bf16" if BF16_IS_FASTER.get(build().variant) else "float32"


def why_not_bf16() -> str | None:
    """Return why the bf16 products of the library are not the default; else None."""
    if fastest_precision() != "float32":
        return None
    found = build()
    if found.variant in BF16_IS_FASTER:
        return f"bf16 is slower here, with {found.vectors}"
    return f"bf16 was never measured to be faster with {found.vectors}"
