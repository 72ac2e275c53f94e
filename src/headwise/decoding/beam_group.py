"""The hypotheses of a beam search, alive and completed, step by step.

Letters used for sizes in this file:

    S  sentences still searched        C  continuations of each sentence, 2 * beam
    W  hypotheses alive in each:       L  tokens generated so far
       1 in the first step, then beam
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headwise.decoding.beam_progress import BeamOptions, BeamProgress
from headwise.decoding.beam_step import Continuations, extend_hypotheses, select_alive
from headwise.decoding.beam_step_report import report_step
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.incremental_decoder import TopK


class BeamGroup(BeamProgress):
    """The hypotheses of one group, alive and completed, of all sentences."""

    def __init__(
        self, options: BeamOptions, num_sentences: int, device: torch.device | str
    ) -> None:
        super().__init__(options, num_sentences)
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
