"""What every engine does: batches of source tokens in, hypotheses out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings


class Engine(Protocol):
    """Runs one trained model."""

    name: str

    def search(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first."""
        ...
