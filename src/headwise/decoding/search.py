"""Dispatch from ``DecodingSettings`` to a search function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headwise.decoding.beam import beam_search
from headwise.decoding.beam_step_report import OnBeamStep
from headwise.decoding.coverage import Coverage
from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.greedy import greedy_search
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.incremental_decoder import IncrementalDecoder, S
from headwise.decoding.logits_processors import RuleFacts, rules_for
from headwise.decoding.rule_context import Rule
from headwise.decoding.sampling import Sampler, sampling_search
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.stopping import STOPPING


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """The sentences of one batch, and the vocabulary facts that a search needs."""

    source_lengths: Sequence[int]
    """Tokens of each source, without END; the decoder state has a row for each."""

    start: int
    end: int
    unknown: int | None = None

    forbidden: tuple[int, ...] = ()
    """Tokens that no output may contain."""

    sources: Sequence[Sequence[int]] = ()
    """The tokens of each source, which seed its samples; by default its index does."""

    prefixes: Sequence[Prefix] = ()
    """The forced prefix of each output."""

    pieces: Sequence[str] = ()
    """The text of each token, which banned phrases need; see ``banned_text``."""

    rules: Sequence[Rule] = ()
    """Further rules, applied before those of the settings."""

    device: torch.device | str = "cpu"

    check_stop: Callable[[], None] = lambda: None
    """Called before each step; raises to cancel the search."""

    on_beam_step: OnBeamStep | None = None
    """Called after each step of a beam; a beam of 1 is greedy search, and has none."""

    def max_lengths(self, settings: DecodingSettings) -> list[int]:
        """Return the length limit of each sentence; a forced prefix raises it."""
        limits = [settings.max_length(length) for length in self.source_lengths]
        if not self.prefixes:
            return limits
        return [
            max(limit, len(prefix) + settings.max_length_offset)
            for limit, prefix in zip(limits, self.prefixes, strict=True)
        ]

    def all_rules(self, settings: DecodingSettings) -> list[Rule]:
        """Return all rules of the request and the settings; usually there are none."""
        facts = RuleFacts(
            end=self.end,
            unknown=self.unknown,
            pieces=self.pieces,
            prefixes=self.prefixes,
            min_lengths=[settings.min_length(each) for each in self.source_lengths],
        )
        return [*self.rules, *rules_for(settings, facts)]


SearchFunction = Callable[
    [IncrementalDecoder[Any], Any, DecodingSettings, SearchRequest],
    list[list[Hypothesis]],
]


def search_by_beam(
    decoder: IncrementalDecoder[S],
    state: S,
    settings: DecodingSettings,
    request: SearchRequest,
) -> list[list[Hypothesis]]:
    """Run beam search, or greedy search for a beam of 1."""
    shared = _shared_arguments(settings, request)
    if settings.beam == 1 and not settings.coverage:
        num_rows = len(request.source_lengths)
        outputs = greedy_search(decoder, state, num_rows=num_rows, **shared)
        return [[output] for output in outputs]
    coverage = None
    if settings.coverage:
        coverage = Coverage(settings.coverage, request.source_lengths)
    return beam_search(
        decoder,
        state,
        coverage=coverage,
        **_beam_arguments(settings, request),
        **shared,
    )


def search_by_diverse_beam(
    decoder: IncrementalDecoder[S],
    state: S,
    settings: DecodingSettings,
    request: SearchRequest,
) -> list[list[Hypothesis]]:
    """Run diverse beam search: groups that avoid one another's tokens."""
    return beam_search(
        decoder,
        state,
        groups=settings.groups,
        diversity=settings.diversity,
        **_beam_arguments(settings, request),
        **_shared_arguments(settings, request),
    )


def search_by_sampling(
    decoder: IncrementalDecoder[S],
    state: S,
    settings: DecodingSettings,
    request: SearchRequest,
) -> list[list[Hypothesis]]:
    """Draw samples, and return the best of them."""
    indices = [[index] for index in range(len(request.source_lengths))]
    samples = sampling_search(
        decoder,
        state,
        sources=request.sources or indices,
        samples=settings.samples,
        seed=settings.seed,
        sampler=Sampler.of(settings),
        **_shared_arguments(settings, request),
    )
    return [each[: settings.num_best] for each in samples]


SEARCHES: dict[str, SearchFunction] = {
    "beam": search_by_beam,
    "diverse-beam": search_by_diverse_beam,
    "sampling": search_by_sampling,
}
"""Every search under its name."""


def search(
    decoder: IncrementalDecoder[S],
    state: S,
    settings: DecodingSettings,
    request: SearchRequest,
) -> list[list[Hypothesis]]:
    """Run the search that ``settings`` name; ``state`` holds a row for each source."""
    with torch.inference_mode():
        return SEARCHES[settings.search](decoder, state, settings, request)


def _shared_arguments(
    settings: DecodingSettings, request: SearchRequest
) -> dict[str, Any]:
    return {
        "start": request.start,
        "end": request.end,
        "forbidden": request.forbidden,
        "device": request.device,
        "max_lengths": request.max_lengths(settings),
        "penalty": settings.penalty,
        "reward": settings.reward,
        "rules": request.all_rules(settings),
        "token_scores": settings.token_scores,
        "check_stop": request.check_stop,
    }


def _beam_arguments(
    settings: DecodingSettings, request: SearchRequest
) -> dict[str, Any]:
    return {
        "num_sentences": len(request.source_lengths),
        "beam": settings.beam,
        "num_best": settings.num_best,
        "stopping": STOPPING[settings.stopping],
        "patience": settings.patience,
        "on_step": request.on_beam_step,
    }
