"""Whether the native backend is the fastest one here, and in which precision.

What decides is the variant of the native library that was loaded, as it was measured.
``HEADWISE_NATIVE=on`` takes the native backend all the same.
``tests/backends/native/test_measured_speed.py`` has a case for each row.
"""

from __future__ import annotations

from typing import Literal

from headwise.backends.native.cpu_variants import cpu_vendor
from headwise.backends.native.library import build, requested, why_unavailable
from headwise.backends.precision import Precision

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

BF16_IS_FASTER: dict[tuple[str, str], bool] = {
    ("amx", "GenuineIntel"): True,
    ("v4-bf16", "AuthenticAMD"): True,
    ("v4-bf16", "GenuineIntel"): False,
}
"""Whether training in bf16 is as fast as in float32, or faster, by the variants that
have instructions for it and the vendor of the processor: AMD's dot products of bf16
have twice the rate of float32 (Zen 4), Intel's do not. What is not listed was never
measured, which ``benchmarks/matmul.py`` and ``benchmarks/training.py`` do."""


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
    return "bf16" if bf16_is_faster(build().variant, cpu_vendor()) else "float32"


def bf16_is_faster(variant: str, vendor: str) -> bool | None:
    """Tell whether bf16 was measured to be faster; None if it was not measured."""
    return BF16_IS_FASTER.get((variant, vendor))


def why_not_bf16() -> str | None:
    """Return why the bf16 products of the library are not the default; else None."""
    if fastest_precision() != "float32":
        return None
    found = build()
    if bf16_is_faster(found.variant, cpu_vendor()) is False:
        return f"bf16 is slower here, with {found.vectors}"
    return f"bf16 was never measured to be faster here, with {found.vectors}"
