"""Settings of constituency parsing; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsingSettings:
    """Which trees may be written."""

    max_unary: int = 4
    """Most brackets around the same words in a tree that is written."""

    def __post_init__(self) -> None:
        if self.max_unary < 1:
            raise SettingsError([f"max_unary must be 1 or more, not {self.max_unary}"])
