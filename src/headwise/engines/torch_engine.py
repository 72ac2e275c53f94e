"""The engine that can do everything: the model itself, in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.run_folder.model_folder import ModelFolder


class TorchEngine:
    """Searches with the model of an opened folder, on the device it is on.

    Without ``cached`` every step runs the whole stack again: the same words by the
    readable way, slowly (:mod:`headwise.model.refill`).
    """

    name = "torch"

    def __init__(self, opened: ModelFolder, *, cached: bool = True) -> None:
        self.model = opened.model
        self.task = opened.task
        self.cached = cached

    def search(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first."""
        return self.task.search(self.model, sources, settings, cached=self.cached)
