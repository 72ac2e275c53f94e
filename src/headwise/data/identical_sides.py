"""Detect pairs with identical source and target, as when one file was given twice."""

from __future__ import annotations

from dataclasses import dataclass

TOO_MANY = 0.95
"""Share of identical pairs from which a warning is given."""


@dataclass(slots=True)
class IdenticalSides:
    """Counts pairs with identical sides; empty pairs are ignored."""

    pairs: int = 0
    same: int = 0

    def add(self, source: str, target: str) -> None:
        """Count one pair."""
        source, target = source.strip(), target.strip()
        if source or target:
            self.pairs += 1
            self.same += source == target

    def notes(self, *names: object) -> list[str]:
        """Return a warning for files ``names`` if nearly all pairs are identical."""
        if not self.pairs or self.same < TOO_MANY * self.pairs:
            return []
        return [
            f"{' and '.join(map(str, names))}: source and target are the same text in "
            f"{self.same:,} of {self.pairs:,} pairs; was the same file named twice?"
        ]
