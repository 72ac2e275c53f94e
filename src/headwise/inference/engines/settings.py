"""The engines and precisions that users choose from, by name: nothing needs torch."""

from __future__ import annotations

from headwise.errors import UsageError

PRECISIONS_OF: dict[str, tuple[str, ...]] = {
    "auto": ("float32", "bf16", "float16", "int8"),
    "ctranslate2": ("float32", "float16", "int8"),
    "torch": ("float32", "bf16"),
    "torch-eager": ("float32", "bf16"),
    "torch-readable": ("float32",),
}
"""Every engine, and the numbers that it can hold weights in."""

WITHOUT_TORCH = frozenset({"ctranslate2"})
"""Engines that leave the weights of a model folder to an export of it."""

PRECISIONS = PRECISIONS_OF["auto"]

MOST_THREADS = 1024
"""Processor threads that may be asked for: more is a slip of the finger."""


def check_engine(engine: str, precision: str, *, models: int = 1) -> None:
    """Raise a ``UsageError`` unless there is such an engine, with this precision.

    Several ``models`` write together in torch alone.
    """
    if engine not in PRECISIONS_OF:
        known = ", ".join(PRECISIONS_OF)
        raise UsageError(f"{engine!r} is not an engine; known: {known}")
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise UsageError(f"{precision!r} is not a precision; known: {known}")
    if precision not in PRECISIONS_OF[engine]:
        others = [name for name, has in PRECISIONS_OF.items() if precision in has]
        raise UsageError(
            f"the engine {engine} computes in {' or '.join(PRECISIONS_OF[engine])}, "
            f"not {precision!r}; --engine {' or '.join(others)} has it"
        )
    if models > 1 and (engine in WITHOUT_TORCH or precision != "float32"):
        raise UsageError(
            f"an ensemble runs in torch and float32 only, not with --engine {engine} "
            f"--precision {precision}; --engine torch does it"
        )
