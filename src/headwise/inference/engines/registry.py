"""Every engine under the name that users choose it by.

An engine is imported when it is chosen: CTranslate2's does without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwise.errors import UsageError
from headwise.inference.engines.engine import Engine, MakeEngine
from headwise.inference.engines.engine_names import resolve_engine
from headwise.run_folder.model_folder import ModelFolder


def _torch(opened: ModelFolder, *, backend: str = "auto", **options: Any) -> Engine:
    from headwise.inference.engines.torch_engine import TorchEngine

    options = {"native": True, **_decoder_options(backend), **options}
    return TorchEngine(opened, **options)


def _decoder_options(backend: str) -> dict[str, bool]:
    """Return which decoders a backend takes; nothing for auto, where engines choose."""
    from headwise.backends.native.library import why_unavailable

    if backend == "auto":
        return {}
    if backend == "native" and (reason := why_unavailable()):
        raise UsageError(
            f"--backend native cannot be used: {reason}; --backend torch can"
        )
    return {"native": backend == "native", "cached": backend != "reference"}


def _ctranslate2(opened: ModelFolder, **options: Any) -> Engine:
    from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine

    return CTranslate2Engine(opened, **options)


def _auto(opened: ModelFolder, **options: Any) -> Engine:
    from headwise.inference.engines.auto_engine import AutoEngine

    return AutoEngine(opened, **options)


ENGINES: dict[str, MakeEngine] = {
    "torch": _torch,
    "ctranslate2": _ctranslate2,
    "auto": _auto,
}


def make_engine(
    opened: ModelFolder, engine: str, backend: str = "auto", precision: str = "float32"
) -> Engine:
    """Return the engine of this name, old names included, for an opened folder."""
    engine, backend = resolve_engine(engine, backend)
    options = {} if backend == "auto" else {"backend": backend}
    return ENGINES[engine](opened, precision=precision, **options)


def make_ensemble(
    opened: Sequence[ModelFolder], engine: str, backend: str = "auto"
) -> Engine:
    """Return the engine of several opened folders, which is always torch."""
    from headwise.inference.engines.ensemble_engine import EnsembleEngine

    _, backend = resolve_engine(engine, backend)
    return EnsembleEngine(opened, **_decoder_options(backend))
