"""The settings of a search. A search is named whole: no rule is left unsaid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from headwise.decoding.length import LENGTH_PENALTIES, LengthPenalty, max_length
from headwise.decoding.stopping import STOPPING
from headwise.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingSettings:
    """A beam search; the defaults mean the same in CTranslate2 and Hugging Face."""

    beam: int = 4
    """Hypotheses kept alive for each sentence; 1 is greedy search."""

    length_penalty: Literal["n^alpha", "gnmt", "none"] = "n^alpha"
    """What a total log probability is divided by; gnmt is the paper's."""

    alpha: float = 1.0
    """Strength of the length penalty: 0 for none, more favours longer outputs."""

    stopping: Literal["first-k", "exact"] = "first-k"
    """End a sentence at ``beam`` hypotheses, or when none can become better."""

    max_length_factor: float = 2.0
    """Tokens that an output may have for each source token, both without END."""

    max_length_offset: int = 10
    """Tokens that an output may have on top of that, END among them."""

    num_best: int = 1
    """Hypotheses returned for each sentence, best first: at most ``beam``."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be 1 or more, not {getattr(self, name)}"
            for name in ("beam", "max_length_offset", "num_best")
            if getattr(self, name) < 1
        ]
        if self.num_best > max(self.beam, 1):
            problems.append(
                f"num_best must be at most beam={self.beam}, not {self.num_best}; "
                f"beam={self.num_best} would allow it"
            )
        problems += [
            f"{name} must be a finite number, 0 or more, not {getattr(self, name)}"
            for name in ("alpha", "max_length_factor")
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0)
        ]
        problems += [
            f"{name} must be at most {most:,}, not {getattr(self, name)}; a search "
            "without an end would not come back"
            for name, most in (("max_length_factor", 100), ("max_length_offset", 10**4))
            if getattr(self, name) > most
        ]
        problems += [
            f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}"
            for name, known in (
                ("length_penalty", LENGTH_PENALTIES),
                ("stopping", STOPPING),
            )
            if getattr(self, name) not in known
        ]
        if problems:
            raise SettingsError(problems)

    @property
    def penalty(self) -> LengthPenalty:
        """The length penalty with its alpha filled in."""
        divisor = LENGTH_PENALTIES[self.length_penalty]
        return lambda length: divisor(length, self.alpha)

    def max_length(self, source_tokens: int) -> int:
        """Return how many tokens, END counted, a source of this length may become."""
        return max_length(
            source_tokens, factor=self.max_length_factor, offset=self.max_length_offset
        )


def greedy() -> DecodingSettings:
    """Return the search that takes the most probable token each time."""
    return DecodingSettings(beam=1)


def paper() -> DecodingSettings:
    """Return Section 6.1: beam 4, alpha 0.6, outputs up to the source + 50."""
    return DecodingSettings(
        beam=4,
        length_penalty="gnmt",
        alpha=0.6,
        stopping="exact",
        max_length_factor=1.0,
        max_length_offset=50,
    )


PRESETS = {"default": DecodingSettings, "greedy": greedy, "paper": paper}
