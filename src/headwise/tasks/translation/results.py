"""The results of translating a line of text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """One translation of a line."""

    text: str

    score: float
    """Log probability divided by the length penalty; for a line that was split, the
    sum over its pieces. Comparable between candidates of one line only."""

    log_probability: float
    """Sum of ln p over the tokens of the output, END counted."""

    tokens: tuple[tuple[str, float], ...] = ()
    """Each piece of the output with its ln p, END last; with ``token_scores``."""

    alignment: str = ""
    """Source word - output word, such as ``0-0 2-1``; with ``alignments``. Empty for a
    line that was split."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A line with its translations."""

    source: str
    candidates: tuple[Candidate, ...]
    """Best first: one, or ``num_best`` if more were asked for."""

    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The best candidate's text."""
        return self.candidates[0].text
