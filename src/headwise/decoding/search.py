"""One door to the searches, for callers that hold settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from headwise.decoding.beam import beam_search
from headwise.decoding.coverage import Coverage
from headwise.decoding.greedy import greedy_search
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.next_token import NextToken, S
from headwise.decoding.prefix import Prefix
from headwise.decoding.rule import Rule
from headwise.decoding.rules import RuleFacts, rules_for
from headwise.decoding.sampling import Drawing, sampling_search
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.stopping import STOPPING


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be searched: one row of the state for each sentence."""

    source_lengths: Sequence[int]
    """Tokens of each source, without END."""

    start: int
    end: int
    unknown: int | None = None

    forbidden: tuple[int, ...] = ()
    """Tokens that no output holds."""

    sources: Sequence[Sequence[int]] = ()
    """The tokens of each source, of which its samples depend; else its number."""

    prefixes: Sequence[Prefix] = ()
    """What each output begins with."""

    pieces: Sequence[str] = ()
    """The text of each token, which bans on words need; see ``banned_text``."""

    rules: Sequence[Rule] = field(default=())
    """Rules of the caller's own, applied before those of the settings."""

    device: torch.device | str = "cpu"

    def max_lengths(self, settings: DecodingSettings) -> list[int]:
        """Return the limit of each sentence; a forced beginning leaves room behind."""
        limits = [settings.max_length(length) for length in self.source_lengths]
        if not self.prefixes:
            return limits
        return [
            max(limit, len(prefix) + settings.max_length_offset)
            for limit, prefix in zip(limits, self.prefixes, strict=True)
        ]

    def all_rules(self, settings: DecodingSettings) -> list[Rule]:
        """Return every rule that outputs must keep; mostly there are none."""
        facts = RuleFacts(
            end=self.end,
            unknown=self.unknown,
            pieces=self.pieces,
            prefixes=self.prefixes,
            min_lengths=[settings.min_length(each) for each in self.source_lengths],
        )
        return [*self.rules, *rules_for(settings, facts)]


SearchFunction = Callable[
    [NextToken[Any], Any, DecodingSettings, Asked], list[list[Hypothesis]]
]


def search_by_beam(
    model: NextToken[S], state: S, settings: DecodingSettings, asked: Asked
) -> list[list[Hypothesis]]:
    """Keep the best; a beam of 1 is greedy search."""
    shared = _shared(settings, asked)
    if settings.beam == 1 and not settings.coverage:
        num_rows = len(asked.source_lengths)
        outputs = greedy_search(model, state, num_rows=num_rows, **shared)
        return [[output] for output in outputs]
    coverage = None
    if settings.coverage:
        coverage = Coverage(settings.coverage, asked.source_lengths)
    return beam_search(
        model, state, coverage=coverage, **_of_a_beam(settings, asked), **shared
    )


def search_by_diverse_beam(
    model: NextToken[S], state: S, settings: DecodingSettings, asked: Asked
) -> list[list[Hypothesis]]:
    """Keep the best of several groups that avoid one another's words."""
    return beam_search(
        model,
        state,
        groups=settings.groups,
        diversity=settings.diversity,
        **_of_a_beam(settings, asked),
        **_shared(settings, asked),
    )


def search_by_sampling(
    model: NextToken[S], state: S, settings: DecodingSettings, asked: Asked
) -> list[list[Hypothesis]]:
    """Draw by chance."""
    numbered = [[number] for number in range(len(asked.source_lengths))]
    found = sampling_search(
        model,
        state,
        sources=asked.sources or numbered,
        samples=settings.samples,
        seed=settings.seed,
        drawing=Drawing.of(settings),
        **_shared(settings, asked),
    )
    return [each[: settings.num_best] for each in found]


SEARCHES: dict[str, SearchFunction] = {
    "beam": search_by_beam,
    "diverse-beam": search_by_diverse_beam,
    "sampling": search_by_sampling,
}
"""Every search under its name."""


def search(
    model: NextToken[S],
    state: S,
    settings: DecodingSettings,
    asked: Asked,
) -> list[list[Hypothesis]]:
    """Search as ``settings`` say; ``state`` holds one row for each source."""
    return SEARCHES[settings.search](model, state, settings, asked)


def _shared(settings: DecodingSettings, asked: Asked) -> dict[str, Any]:
    return {
        "start": asked.start,
        "end": asked.end,
        "forbidden": asked.forbidden,
        "device": asked.device,
        "max_lengths": asked.max_lengths(settings),
        "penalty": settings.penalty,
        "reward": settings.reward,
        "rules": asked.all_rules(settings),
        "trace": settings.token_scores,
    }


def _of_a_beam(settings: DecodingSettings, asked: Asked) -> dict[str, Any]:
    return {
        "num_sentences": len(asked.source_lengths),
        "beam": settings.beam,
        "num_best": settings.num_best,
        "stopping": STOPPING[settings.stopping],
        "patience": settings.patience,
    }
