"""The engine for several models that write one output together."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.backends.api import DecoderBackend
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.model.transformer import Transformer
from headwise.run_folder.model_folder import ModelFolder


class EnsembleEngine:
    """Searches with the models of all folders at once, in PyTorch."""

    name = "torch"

    def __init__(self, opened: Sequence[ModelFolder], *, cached: bool = True) -> None:
        first = opened[0].tokenizers
        for number, other in enumerate(opened[1:], start=2):
            for side in ("source", "target"):
                ours, theirs = getattr(first, side), getattr(other.tokenizers, side)
                if ours.pieces(range(ours.size)) != theirs.pieces(range(theirs.size)):
                    raise UsageError(
                        f"model {number} of the ensemble has another {side} "
                        "vocabulary than the first, and only models of the same "
                        "vocabulary can write together; train them from one prepared "
                        "corpus"
                    )
        self.models = [each.model for each in opened]
        self.task = opened[0].task
        self.cached = cached
        self.laid_out: dict[Transformer, DecoderBackend] = {}
        self.used = {self.name: f"an ensemble of {len(opened)} models"}

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first."""
        return self.task.search(
            self.models,
            sources,
            settings,
            prefixes=prefixes,
            cached=self.cached,
            laid_out=self.laid_out,
        )

    def can_search(self, settings: DecodingSettings) -> bool:
        """Tell whether ``search`` would not refuse these settings."""
        return True


def ensemble(opened: Sequence[ModelFolder], engine: str) -> EnsembleEngine:
    """Return the engine for these models; :func:`check_engine` says which it may be."""
    return EnsembleEngine(opened, cached=engine != "torch-readable")
