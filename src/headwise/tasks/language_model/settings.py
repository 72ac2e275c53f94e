"""Settings of language modelling; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageModelSettings:
    """What a position of the text may attend to."""

    window: int | None = None
    """Positions that each one attends to, itself included (sliding window attention);
    not set: all earlier ones of the training window (data.max_tokens)."""

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise SettingsError([f"window must be 1 or more, not {self.window}"])
