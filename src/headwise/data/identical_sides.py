"""Pairs whose sides are the same text: a file that was given twice, mostly."""

from __future__ import annotations

from dataclasses import dataclass

TOO_MANY = 0.95
"""Share of such pairs from which it is said."""


@dataclass(slots=True)
class IdenticalSides:
    """Counts the pairs that say the same on both sides, empty ones left out."""

    pairs: int = 0
    same: int = 0

    def add(self, source: str, target: str) -> None:
        """Count one pair."""
        source, target = source.strip(), target.strip()
        if source or target:
            self.pairs += 1
            self.same += source == target

    def notes(self, *names: object) -> list[str]:
        """Say it, where nearly all pairs of the files of these names are so."""
        if not self.pairs or self.same < TOO_MANY * self.pairs:
            return []
        return [
            f"{' and '.join(map(str, names))}: source and target are the same text in "
            f"{self.same:,} of {self.pairs:,} pairs; was the same file named twice?"
        ]
