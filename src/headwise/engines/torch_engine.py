"""The engine that can do everything: the model itself, in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.run_folder.model_folder import ModelFolder


class TorchEngine:
    """Searches with the model of an opened folder, on the device it is on.

    Without ``cached`` every step runs the whole stack again: the same words by the
    readable way, slowly (:mod:`headwise.model.refill`).
    """

    name = "torch"

    def __init__(
        self, opened: ModelFolder, *, precision: str = "float32", cached: bool = True
    ) -> None:
        if precision != "float32":
            raise UsageError(
                f"the engine torch computes in float32, not {precision!r}; --engine "
                "ctranslate2 has float16 and int8"
            )
        self.model = opened.model
        self.task = opened.task
        self.cached = cached
        self.used = {self.name: ""}

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first."""
        return self.task.search(
            self.model, sources, settings, prefixes=prefixes, cached=self.cached
        )

    def can_search(self, settings: DecodingSettings) -> bool:
        """Tell whether ``search`` would not refuse these settings."""
        return True
