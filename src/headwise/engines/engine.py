"""What every engine does: batches of source tokens in, hypotheses out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.run_folder.model_folder import ModelFolder


class Engine(Protocol):
    """Runs one trained model."""

    name: str

    @property
    def used(self) -> Mapping[str, str]:
        """The engines that ran or will, each with what should be known of that."""
        ...

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first, each with its beginning."""
        ...

    def can_search(self, settings: DecodingSettings) -> bool:
        """Tell whether ``search`` would not refuse these settings."""
        ...


class MakeEngine(Protocol):
    """Makes an engine for an opened model folder."""

    def __call__(self, opened: ModelFolder, *, precision: str = "float32") -> Engine:
        """Return it; ``precision`` names the numbers that weights are held in."""
        ...
