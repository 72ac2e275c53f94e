"""Ways to run a trained model, behind one protocol."""

from collections.abc import Callable
from functools import partial

from headwise.engines.engine import Engine
from headwise.engines.torch_engine import TorchEngine
from headwise.run_folder.model_folder import ModelFolder

ENGINES: dict[str, Callable[[ModelFolder], Engine]] = {
    "torch": TorchEngine,
    "torch-readable": partial(TorchEngine, cached=False),
}
"""Every engine under the name that users choose it by."""

__all__ = ["ENGINES", "Engine", "TorchEngine"]
