"""What becomes of a line of text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """One output for a line."""

    text: str

    score: float
    """Log probability divided by the length penalty; of a line that was split, the
    sum over its pieces. Comparable between candidates of one line only."""

    log_probability: float
    """Sum of ln p over the tokens of the output, END counted."""

    tokens: tuple[tuple[str, float], ...] = ()
    """Each piece of the output with its ln p, END last; with ``token_scores``."""

    alignment: str = ""
    """Word of the source - word of the output, such as ``0-0 2-1``; with
    ``alignments``. Of a line that was split there is none."""


@dataclass(frozen=True, slots=True)
class Translated:
    """What became of one line."""

    source: str
    candidates: tuple[Candidate, ...]
    """Best first: one, or ``num_best`` where they were asked for."""

    warnings: tuple[str, ...] = ()
    """What a reader of the translation should know."""

    @property
    def text(self) -> str:
        """The best candidate's text."""
        return self.candidates[0].text
