"""The engine for an ensemble of models, in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.inference.engines.engine import Outputs
from headwise.run_folder.model_folder import ModelFolder


class EnsembleEngine:
    """Searches with the models of all folders, whose predictions are averaged."""

    name = "torch"

    def __init__(
        self,
        opened: Sequence[ModelFolder],
        *,
        cached: bool = True,
        native: bool | None = None,
    ) -> None:
        _check_vocabularies(opened)
        models = [each.model for each in opened]
        self.generator = opened[0].task.generator(models, cached=cached, native=native)
        self.used = {self.name: f"an ensemble of {len(opened)} models"}

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> Outputs:
        """Return the hypotheses of each source, best first."""
        return self.generator.search(sources, settings, prefixes)

    def can_search(self, settings: DecodingSettings) -> bool:
        """Return True: every search is supported."""
        return True


def _check_vocabularies(opened: Sequence[ModelFolder]) -> None:
    """Raise ``UsageError`` unless all models have the vocabulary of the first."""
    first = opened[0].tokenizers
    for number, other in enumerate(opened[1:], start=2):
        for side in ("source", "target"):
            ours, theirs = getattr(first, side), getattr(other.tokenizers, side)
            if ours.pieces(range(ours.size)) != theirs.pieces(range(theirs.size)):
                raise UsageError(
                    f"model {number} of the ensemble has another {side} vocabulary "
                    "than the first; an ensemble needs models of the same "
                    "vocabulary: train them from one prepared corpus"
                )
