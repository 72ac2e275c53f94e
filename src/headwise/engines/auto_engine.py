"""The engine that chooses: CTranslate2 where it gives the same words, else torch."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.engines.ctranslate2_engine import (
    CTranslate2Engine,
    reasons_against_ctranslate2,
    reasons_against_search,
)
from headwise.engines.engine import Engine
from headwise.engines.torch_engine import TorchEngine
from headwise.run_folder.model_folder import ModelFolder


class AutoEngine:
    """Asks for each search anew; ``name`` is the engine that ran last."""

    def __init__(self, opened: ModelFolder, *, precision: str = "float32") -> None:
        self.opened = opened
        self.precision = precision
        self.name = "auto"
        self._fast: Engine | None = None
        self._slow = TorchEngine(opened) if precision == "float32" else None

    def search(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first."""
        engine = self._engine_for(settings)
        self.name = engine.name
        return engine.search(sources, settings)

    def _engine_for(self, settings: DecodingSettings) -> Engine:
        impossible = reasons_against_ctranslate2(self.opened) or reasons_against_search(
            settings
        )
        if impossible and self._slow is not None:
            return self._slow
        if self._fast is None:  # which says what is impossible in another precision
            self._fast = CTranslate2Engine(self.opened, precision=self.precision)
        return self._fast
