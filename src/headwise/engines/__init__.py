"""Ways to run a trained model, behind one protocol."""

from functools import partial

from headwise.engines.auto_engine import AutoEngine
from headwise.engines.ctranslate2_engine import CTranslate2Engine
from headwise.engines.engine import Engine, MakeEngine
from headwise.engines.torch_engine import TorchEngine

ENGINES: dict[str, MakeEngine] = {
    "torch": TorchEngine,
    "torch-eager": partial(TorchEngine, compiled=False),
    "torch-readable": partial(TorchEngine, cached=False),
    "ctranslate2": CTranslate2Engine,
    "auto": AutoEngine,
}
"""Every engine under the name that users choose it by."""

__all__ = ["ENGINES", "AutoEngine", "CTranslate2Engine", "Engine", "TorchEngine"]
