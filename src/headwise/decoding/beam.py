"""Beam search (Section 6.1), batched over sentences; with groups, diverse beam search.

The outputs are those of ``tests/reference/beam_search.py``, which is written for
reading. Letters used for sizes in this file:

    S  sentences still searched        C  continuations of each sentence, 2 * beam
    W  hypotheses alive in each:       L  tokens generated so far
       1 in the first step, then beam  V  vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from headwise.decoding.beam_step import Continuations, extend_hypotheses, select_alive
from headwise.decoding.checks import (
    check_beam,
    check_ids,
    check_lengths,
    no_token_allowed,
)
from headwise.decoding.coverage import Coverage
from headwise.decoding.diversity import HammingDiversity
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.incremental_decoder import (
    AttentionDecoder,
    IncrementalDecoder,
    S,
    TopK,
)
from headwise.decoding.length import LengthPenalty, best_possible_score
from headwise.decoding.rule_context import Rule
from headwise.decoding.stopping import StoppingRule
from headwise.decoding.topk import topk_step_of


def beam_search(
    decoder: IncrementalDecoder[S],
    state: S,
    *,
    num_sentences: int,
    start: int,
    end: int,
    beam: int,
    penalty: LengthPenalty,
    stopping: StoppingRule,
    max_lengths: Sequence[int],
    reward: float = 0.0,
    patience: float = 1.0,
    num_best: int = 1,
    forbidden: tuple[int, ...] = (),
    rules: Sequence[Rule] = (),
    coverage: Coverage | None = None,
    groups: int = 1,
    diversity: float = 0.0,
    token_scores: bool = False,
    check_stop: Callable[[], None] = lambda: None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return the ``num_best`` best hypotheses of each row of ``state``, a sentence.

    Fewer are returned only if the model allows fewer. ``max_lengths`` counts END. The
    ``groups`` share the beam. ``token_scores`` asks for the ln p of each token;
    ``coverage`` needs one group and an ``AttentionDecoder``. ``check_stop`` is called
    before each step, and raises to cancel the search.
    """
    check_beam(beam, num_best, groups)
    check_lengths(max_lengths, num_sentences)
    check_ids(end, forbidden)
    hamming = HammingDiversity(diversity, num_sentences) if groups > 1 else None
    options = _BeamOptions(
        end=end,
        beam=beam // groups,
        num_best=min(num_best, beam // groups),
        penalty=penalty,
        reward=reward,
        stopping=stopping,
        patience=patience,
        max_lengths=max_lengths,
        forbidden=forbidden,
        rules=(*rules, *([hamming] if hamming else [])),
        coverage=coverage,
        token_scores=token_scores,
    )
    beams = [_BeamGroup(options, num_sentences, device) for _ in range(groups)]
    if groups > 1:
        state = state.rows(torch.arange(num_sentences, device=device).repeat(groups))
    step_topk = topk_step_of(decoder)
    tokens = torch.full((groups * num_sentences,), start, device=device)

    while len(tokens):
        check_stop()
        parents: list[Tensor] = []
        if coverage is None and not options.rules:  # so there is one group
            log_p, ids, state = step_topk(
                tokens, state, options.num_continuations, forbidden
            )
            parents.append(beams[0].advance(TopK(log_p, ids)))
        else:
            if coverage is None:
                logits, state = decoder.step(tokens, state)
            else:
                logits, attention, state = cast(
                    AttentionDecoder[S], decoder
                ).step_with_attention(tokens, state)
                coverage.add(attention)
            if hamming:
                hamming.start_step()
            first = 0
            for group in beams:
                last = first + group.num_rows
                parents.append(first + group.advance(logits[first:last]))
                if hamming and len(parents[-1]):
                    hamming.add_choices(
                        group.row_sentences, group.tokens, logits.shape[1]
                    )
                first = last
        rows = parents[0] if groups == 1 else torch.cat(parents)
        if len(rows) and not _is_identity(rows, len(tokens)):
            state = state.rows(rows)
            if coverage is not None:
                coverage.rows(rows)
        tokens = torch.cat([group.tokens for group in beams])
    if groups == 1:
        return [_best_first(each)[:num_best] for each in beams[0].completed]
    return [
        _merge_groups(
            [_best_first(group.completed[sentence]) for group in beams], beam, num_best
        )
        for sentence in range(num_sentences)
    ]


@dataclass(frozen=True, kw_only=True)
class _BeamOptions:
    """The arguments of a search; ``beam`` and ``num_best`` are those of one group."""

    end: int
    beam: int
    num_best: int
    penalty: LengthPenalty
    reward: float
    stopping: StoppingRule
    patience: float
    max_lengths: Sequence[int]
    forbidden: tuple[int, ...]
    rules: tuple[Rule, ...]
    coverage: Coverage | None
    token_scores: bool

    @property
    def num_continuations(self) -> int:
        """Continuations of each sentence: enough even if half of them end."""
        return 2 * self.beam


class _BeamGroup:
    """The hypotheses of one group, alive and completed, of all sentences."""

    def __init__(
        self, options: _BeamOptions, num_sentences: int, device: torch.device | str
    ) -> None:
        self.options = options
        self.completed: list[list[Hypothesis]] = [[] for _ in range(num_sentences)]
        self.sentences = list(range(num_sentences))  # those still searched
        self.length = 0
        self.num_rows = num_sentences
        self.tokens = torch.empty(0, dtype=torch.long, device=device)  # S·W
        self.totals = torch.zeros(num_sentences, 1, device=device)  # S W
        self.generated = torch.empty(
            num_sentences, 1, 0, dtype=torch.long, device=device
        )  # S W L
        self.log_p: Tensor | None = None  # S W L, ln p of the generated tokens
        if options.token_scores or options.rules:
            self.log_p = torch.empty(num_sentences, 1, 0, device=device)

    @property
    def row_sentences(self) -> Tensor:
        """The sentence [S·W] of each row."""
        sentences = torch.tensor(self.sentences, device=self.totals.device)
        return sentences.repeat_interleave(self.totals.shape[1])

    def advance(self, next_tokens: Tensor | TopK) -> Tensor:
        """Take one step; return the parent row of each new row, as in ``tokens``.

        ``next_tokens`` holds all logits of each row, or their top-k.
        """
        if not self.sentences:
            return torch.empty(0, dtype=torch.long, device=self.totals.device)
        options, width = self.options, self.totals.shape[1]
        self.length += 1
        continuations = extend_hypotheses(
            self.totals,
            next_tokens,
            options.num_continuations,
            forbidden=options.forbidden,
            rules=options.rules,
            generated=self.generated,
            sentences=self.row_sentences if options.rules else None,
            token_scores=self.log_p is not None,
        )
        limits = [options.max_lengths[sentence] for sentence in self.sentences]
        at_limit = [limit == self.length for limit in limits]
        is_end = continuations.tokens == options.end
        self._complete(continuations, is_end, at_limit)

        alive = select_alive(continuations, is_end, options.beam)
        unfinished = []
        for index, best_total in enumerate(alive.totals[:, 0].tolist()):
            if not self._is_done(index, best_total, limits[index]):
                unfinished.append(index)

        self.sentences = [self.sentences[index] for index in unfinished]
        indices = torch.tensor(unfinished, dtype=torch.long, device=self.totals.device)
        alive = alive.select_sentences(indices)
        rows = (indices[:, None] * width + alive.parents).flatten()  # S W -> S·W
        self.generated = alive.append_to(self.generated[indices], alive.tokens)
        if self.log_p is not None and alive.log_p is not None:
            self.log_p = alive.append_to(self.log_p[indices], alive.log_p)
        self.totals = alive.totals
        self.tokens = alive.tokens.flatten()
        self.num_rows = len(self.tokens)
        return rows

    def _is_done(self, index: int, best_total: float, limit: int) -> bool:
        """Return whether the search of the sentence at ``index`` may end."""
        options = self.options
        scores = [each.score for each in self.completed[self.sentences[index]]]
        if best_total == -math.inf:
            if not scores:
                raise no_token_allowed()
            return True
        best_possible = best_possible_score(
            best_total, self.length, limit, options.penalty, options.reward
        )
        return self.length == limit or options.stopping(
            scores,
            best_possible,
            beam=options.beam,
            num_best=options.num_best,
            patience=options.patience,
        )

    def _complete(
        self, continuations: Continuations, is_end: Tensor, at_limit: list[bool]
    ) -> None:
        """Complete the hypotheses that end here, among the first ``beam`` ranks."""
        options, width = self.options, self.totals.shape[1]
        cut_off = torch.tensor(at_limit, device=is_end.device)
        completed = (is_end | cut_off[:, None]) & (continuations.totals > -math.inf)
        indices, ranks = completed[:, : options.beam].nonzero(as_tuple=True)
        if not len(indices):
            return
        parents = continuations.parents[indices, ranks]
        log_p = None
        if self.log_p is not None and continuations.log_p is not None:
            last = continuations.log_p[indices, ranks][:, None]
            log_p = torch.cat([self.log_p[indices, parents], last], dim=1).tolist()
        divisor, bonus = options.penalty(self.length), options.reward * self.length
        for number, (index, parent, before, token, total, finished) in enumerate(
            zip(
                indices.tolist(),
                parents.tolist(),
                self.generated[indices, parents].tolist(),
                continuations.tokens[indices, ranks].tolist(),
                continuations.totals[indices, ranks].tolist(),
                is_end[indices, ranks].tolist(),
                strict=True,
            )
        ):
            sentence = self.sentences[index]
            score = total / divisor + bonus
            if options.coverage is not None:
                score += options.coverage.penalty(index * width + parent, sentence)
            token_log_p = () if log_p is None else tuple(log_p[number])
            self.completed[sentence].append(
                Hypothesis(
                    tuple(before if finished else [*before, token]),
                    math.fsum(token_log_p) if token_log_p else total,
                    score,
                    finished,
                    token_log_p if options.token_scores else (),
                )
            )


def _best_first(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda each: each.score, reverse=True)


def _merge_groups(
    by_group: Sequence[Sequence[Hypothesis]], beam: int, num_best: int
) -> list[Hypothesis]:
    """Return the best hypotheses of all groups, without duplicates.

    Each group gives its share of the beam first, and more only where duplicates left
    too few.
    """
    share = beam // len(by_group)
    merged: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
    for some in (
        [each[:share] for each in by_group],
        [each[share:] for each in by_group],
    ):
        for each in _best_first([each for group in some for each in group]):
            if len(merged) < beam:
                merged.setdefault((each.tokens, each.finished), each)
    return _best_first(list(merged.values()))[:num_best]


def _is_identity(rows: Tensor, num_rows: int) -> bool:
    return len(rows) == num_rows and torch.equal(
        rows, torch.arange(num_rows, device=rows.device)
    )
