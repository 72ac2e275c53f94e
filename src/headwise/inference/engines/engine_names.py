"""The names of engines and precisions; importing them needs no torch."""

from __future__ import annotations

from headwise.errors import UsageError

PRECISIONS_OF: dict[str, tuple[str, ...]] = {
    "auto": ("float32", "bf16", "float16", "int8"),
    "ctranslate2": ("float32", "float16", "int8"),
    "torch": ("float32", "bf16"),
}
"""Every engine, and the precisions of its weights."""

BACKENDS = ("auto", "native", "torch", "reference")
"""How the engine torch computes: by C kernels if there are any, by them or not at all,
by PyTorch, or without a KV cache."""

RENAMED_ENGINES = {"torch-eager": "torch", "torch-readable": "reference"}
"""Names that engines once had -> the backend of the engine torch that they are."""

WITHOUT_TORCH = frozenset({"ctranslate2"})
"""Engines that run an export of a model folder, and do not read its weights."""

MAY_DO_WITHOUT_TORCH = WITHOUT_TORCH | {"auto"}
"""Those, and the one that may choose an engine of its own without torch."""

PRECISIONS = PRECISIONS_OF["auto"]

MAX_THREADS = 1024
"""Upper bound of ``threads``: more must be a typing error."""


def resolve_engine(engine: str, backend: str = "auto") -> tuple[str, str]:
    """Return engine and backend; the old name of an engine says both.

    Raises ``UsageError`` for a backend that is not known, or not that engine's.
    """
    if backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise UsageError(f"{backend!r} is not a backend; known: {known}")
    if not isinstance(engine, str):
        raise _unknown_engine(engine)
    if engine in RENAMED_ENGINES:
        if backend not in ("auto", RENAMED_ENGINES[engine]):
            raise UsageError(
                f"--engine {engine} is --engine torch --backend "
                f"{RENAMED_ENGINES[engine]}, not {backend}; give one of them"
            )
        return "torch", RENAMED_ENGINES[engine]
    if backend == "auto":
        return engine, backend
    if engine in WITHOUT_TORCH:
        raise UsageError(
            f"--backend {backend} says how torch computes, and --engine {engine} does "
            "without torch; leave one of them out"
        )
    return ("torch" if engine == "auto" else engine), backend


def renamed_engine(engine: str) -> str | None:
    """Return what to say of an engine by its old name, or None."""
    if engine not in RENAMED_ENGINES:
        return None
    now = f"--engine torch --backend {RENAMED_ENGINES[engine]}"
    return f"--engine {engine} is now called {now}"


def check_engine(
    engine: str, precision: str, backend: str = "auto", *, models: int = 1
) -> None:
    """Raise a ``UsageError`` unless there is such an engine, with this precision.

    Only torch runs several ``models`` as an ensemble.
    """
    engine, backend = resolve_engine(engine, backend)
    if engine not in PRECISIONS_OF:
        raise _unknown_engine(engine)
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise UsageError(f"{precision!r} is not a precision; known: {known}")
    if precision not in PRECISIONS_OF[engine]:
        others = [name for name, its in PRECISIONS_OF.items() if precision in its]
        raise UsageError(
            f"the engine {engine} computes in {' or '.join(PRECISIONS_OF[engine])}, "
            f"not {precision!r}; --engine {' or '.join(others)} has it"
        )
    if backend == "reference" and precision != "float32":
        raise UsageError(
            f"--backend reference computes in float32, not {precision!r}; --backend "
            "torch has bf16"
        )
    if models > 1 and (engine in WITHOUT_TORCH or precision != "float32"):
        raise UsageError(
            f"an ensemble runs in torch and float32 only, not with --engine {engine} "
            f"--precision {precision}; --engine torch does it"
        )


def _unknown_engine(engine: object) -> UsageError:
    if engine == "native":
        return UsageError(
            "'native' is what --engine auto takes by itself where it is the fastest; "
            "--engine torch --backend native runs the same kernels"
        )
    return UsageError(f"{engine!r} is not an engine; known: {', '.join(PRECISIONS_OF)}")
