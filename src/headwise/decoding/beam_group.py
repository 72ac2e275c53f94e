"""The hypotheses of a beam search, alive and completed, step by step.

Letters used for sizes in this file:

    S  sentences still searched        C  continuations of each sentence, 2 * beam
    W  hypotheses alive in each:       L  tokens generated so far
       1 in the first step, then beam
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.decoding.argument_checks import no_token_allowed
from headwise.decoding.beam_step import Continuations, extend_hypotheses, select_alive
from headwise.decoding.beam_step_report import OnBeamStep, report_step
from headwise.decoding.coverage import Coverage
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.incremental_decoder import TopK
from headwise.decoding.length_penalty import LengthPenalty, best_possible_score
from headwise.decoding.rule_context import Rule
from headwise.decoding.stopping import StoppingRule


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
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
    on_step: OnBeamStep | None = None

    @property
    def num_continuations(self) -> int:
        """Continuations of each sentence: enough even if half of them end."""
        return 2 * self.beam


class BeamGroup:
    """The hypotheses of one group, alive and completed, of all sentences."""

    def __init__(
        self, options: BeamOptions, num_sentences: int, device: torch.device | str
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
        num_completed = [len(self.completed[each]) for each in self.sentences]
        self._complete(continuations, is_end, at_limit)

        alive = select_alive(continuations, is_end, options.beam)
        unfinished = []
        for index, best_total in enumerate(alive.totals[:, 0].tolist()):
            if not self._is_done(index, best_total, limits[index]):
                unfinished.append(index)
        if options.on_step is not None:
            for index, sentence in enumerate(self.sentences):
                options.on_step(
                    report_step(
                        continuations,
                        alive,
                        index,
                        sentence=sentence,
                        length=self.length,
                        completed=self.completed[sentence][num_completed[index] :],
                        is_done=index not in unfinished,
                        at_limit=at_limit[index],
                    )
                )

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
