"""Every engine under the name that users choose it by.

An engine is imported when it is chosen: CTranslate2's does without torch.
"""

from __future__ import annotations

from typing import Any

from headwise.inference.engines.engine import Engine, MakeEngine
from headwise.run_folder.model_folder import ModelFolder


def _torch(opened: ModelFolder, **options: Any) -> Engine:
    from headwise.inference.engines.torch_engine import TorchEngine

    return TorchEngine(opened, **options)


def _torch_eager(opened: ModelFolder, **options: Any) -> Engine:
    return _torch(opened, native=False, **options)


def _torch_readable(opened: ModelFolder, **options: Any) -> Engine:
    return _torch(opened, cached=False, **options)


def _ctranslate2(opened: ModelFolder, **options: Any) -> Engine:
    from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine

    return CTranslate2Engine(opened, **options)


def _auto(opened: ModelFolder, **options: Any) -> Engine:
    from headwise.inference.engines.auto_engine import AutoEngine

    return AutoEngine(opened, **options)


ENGINES: dict[str, MakeEngine] = {
    "torch": _torch,
    "torch-eager": _torch_eager,
    "torch-readable": _torch_readable,
    "ctranslate2": _ctranslate2,
    "auto": _auto,
}
