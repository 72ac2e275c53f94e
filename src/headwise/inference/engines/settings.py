"""The names of engines and precisions; importing them needs no torch."""

from __future__ import annotations

from headwise.errors import UsageError

PRECISIONS_OF: dict[str, tuple[str, ...]] = {
    "auto": ("float32", "bf16", "float16", "int8"),
    "ctranslate2": ("float32", "float16", "int8"),
    "torch": ("float32", "bf16"),
    "torch-eager": ("float32", "bf16"),
    "torch-readable": ("float32",),
}
"""Every engine, and the precisions of its weights."""

WITHOUT_TORCH = frozenset({"ctranslate2"})
"""Engines that run an export of a model folder, and do not read its weights."""

PRECISIONS = PRECISIONS_OF["auto"]

MAX_THREADS = 1024
"""Upper bound of ``threads``: more must be a typing error."""


def check_engine(engine: str, precision: str, *, models: int = 1) -> None:
    """Raise a ``UsageError`` unless there is such an engine, with this precision.

    Only torch runs several ``models`` as an ensemble.
    """
    if engine not in PRECISIONS_OF:
        known = ", ".join(PRECISIONS_OF)
        raise UsageError(f"{engine!r} is not an engine; known: {known}")
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise UsageError(f"{precision!r} is not a precision; known: {known}")
    if precision not in PRECISIONS_OF[engine]:
        others = [name for name, its in PRECISIONS_OF.items() if precision in its]
        raise UsageError(
            f"the engine {engine} computes in {' or '.join(PRECISIONS_OF[engine])}, "
            f"not {precision!r}; --engine {' or '.join(others)} has it"
        )
    if models > 1 and (engine in WITHOUT_TORCH or precision != "float32"):
        raise UsageError(
            f"an ensemble runs in torch and float32 only, not with --engine {engine} "
            f"--precision {precision}; --engine torch does it"
        )
