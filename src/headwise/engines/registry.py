"""Every engine under the name that users choose it by."""

from __future__ import annotations

from functools import partial

from headwise.engines.auto_engine import AutoEngine
from headwise.engines.ctranslate2_engine import CTranslate2Engine
from headwise.engines.engine import MakeEngine
from headwise.engines.torch_engine import TorchEngine

ENGINES: dict[str, MakeEngine] = {
    "torch": TorchEngine,
    "torch-eager": partial(TorchEngine, compiled=False),
    "torch-readable": partial(TorchEngine, cached=False),
    "ctranslate2": CTranslate2Engine,
    "auto": AutoEngine,
}
