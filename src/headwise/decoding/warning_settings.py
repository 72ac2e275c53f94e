"""When a translation comes with a warning."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headwise.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class WarningSettings:
    """Thresholds of the warnings; good translations should rarely meet them."""

    loop_repeats: int = 4
    """Times that the same tokens come in a row before it is called a loop; 0 never."""

    loop_tokens: int = 12
    """Tokens that a loop must have in all, so that "no, no, no, no" is none."""

    loop_no_repeat_ngram: int = 3
    """What a loop is decoded again with (``no_repeat_ngram``); 0 leaves it."""

    longer_than: float = 3.0
    """Tokens in the output for each in the source before it is too long; 0 never."""

    shorter_than: float = 0.4
    """Tokens in the output for each in the source before it is too short; 0 never."""

    length_from: int = 8
    """Tokens that the longer of both must have before their lengths are compared."""

    copied: float = 0.75
    """Share of the output's words that stand in the source in one piece before it is
    called copied; 0 never, nor more than 1, as folders of before say it."""

    copied_from: int = 4
    """Words that such a piece must have."""

    unknown: bool = True
    """Warn of tokens for what the vocabulary lacks, in source or output."""

    def __post_init__(self) -> None:
        problems = []
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                problems.append(
                    f"{name} must be a finite number, 0 or more, not {value}"
                )
        if self.loop_repeats == 1:
            problems.append("loop_repeats must be 2 or more, or 0 for never, not 1")
        if problems:
            raise SettingsError(problems)
