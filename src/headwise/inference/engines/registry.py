"""Every engine under the name that users choose it by.

An engine is imported when it is chosen: CTranslate2's needs no torch.
"""

from __future__ import annotations

from typing import Any

from headwise.inference.engines.engine import Engine, MakeEngine
from headwise.run_folder.model_folder import ModelFolder


def _torch(opened: ModelFolder, **chosen: Any) -> Engine:
    from headwise.inference.engines.torch_engine import TorchEngine

    return TorchEngine(opened, **chosen)


def _torch_eager(opened: ModelFolder, **chosen: Any) -> Engine:
    return _torch(opened, compiled=False, **chosen)


def _torch_readable(opened: ModelFolder, **chosen: Any) -> Engine:
    return _torch(opened, cached=False, **chosen)


def _ctranslate2(opened: ModelFolder, **chosen: Any) -> Engine:
    from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine

    return CTranslate2Engine(opened, **chosen)


def _auto(opened: ModelFolder, **chosen: Any) -> Engine:
    from headwise.inference.engines.auto_engine import AutoEngine

    return AutoEngine(opened, **chosen)


ENGINES: dict[str, MakeEngine] = {
    "torch": _torch,
    "torch-eager": _torch_eager,
    "torch-readable": _torch_readable,
    "ctranslate2": _ctranslate2,
    "auto": _auto,
}
