"""The thresholds of the warnings about a translation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headwise.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class WarningSettings:
    """Thresholds of the warnings; good translations should rarely reach them."""

    loop_repeats: int = 4
    """Repetitions of the same tokens in a row that make a loop; 0 never."""

    loop_tokens: int = 12
    """Least tokens of a loop in all, so that "no, no, no, no" is none."""

    loop_no_repeat_ngram: int = 3
    """The ``no_repeat_ngram`` that a loop is decoded again with; 0 leaves it."""

    longer_than: float = 3.0
    """Output tokens per source token above which it is too long; 0 never."""

    shorter_than: float = 0.4
    """Output tokens per source token below which it is too short; 0 never."""

    length_from: int = 8
    """Least tokens of the longer side for the lengths to be compared."""

    copied: float = 0.75
    """Share of the output's words in one span of the source above which it is called
    copied; 0 never. More than 1 is never too, as older model folders have it."""

    copied_from: int = 4
    """Least words of such a span."""

    unknown: bool = True
    """Warn of unknown tokens, in source or output."""

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
