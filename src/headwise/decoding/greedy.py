"""Greedy search: the most probable token at each step.

Letters used for sizes: B rows still in the batch, T steps of one call, L tokens so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.decoding.argument_checks import check_ids, check_lengths, no_token_allowed
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.incremental_decoder import GreedyDecoder, IncrementalDecoder, S
from headwise.decoding.length_penalty import LengthPenalty
from headwise.decoding.rule_context import Rule
from headwise.decoding.topk import topk_step_of, topk_tokens_with_rules

COMPACT_AT = 1 / 8
"""Fraction of finished rows at which the batch is compacted, which copies the KV cache
of the others."""


def greedy_search(
    decoder: IncrementalDecoder[S],
    state: S,
    *,
    num_rows: int,
    start: int,
    end: int,
    max_lengths: Sequence[int],
    forbidden: tuple[int, ...] = (),
    penalty: LengthPenalty = float,
    reward: float = 0.0,
    rules: Sequence[Rule] = (),
    token_scores: bool = False,
    check_stop: Callable[[], None] = lambda: None,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """Return one hypothesis for each row of ``state``.

    ``max_lengths`` counts END. ``penalty`` and ``reward`` change the score only; by
    default that is the mean ln p. ``token_scores`` asks for the ln p of each token.
    ``check_stop`` is called before each step, and raises to cancel the search.
    """
    check_lengths(max_lengths, num_rows)
    check_ids(end, forbidden)
    batch = _GreedyBatch(
        num_rows, end, max_lengths, records_log_p=token_scores or bool(rules)
    )
    greedy_decoder = decoder if isinstance(decoder, GreedyDecoder) else None
    step_topk = topk_step_of(decoder)
    tokens = torch.full((num_rows,), start, device=device)

    while batch.rows:
        check_stop()
        compact_at = 1 if rules else math.ceil(len(batch.rows) * COMPACT_AT)
        if rules:
            logits, state = decoder.step(tokens, state)
            best = topk_tokens_with_rules(
                logits,
                1,
                rules=rules,
                generated=torch.tensor(
                    [batch.outputs[row] for row in batch.rows],
                    dtype=torch.long,
                    device=device,
                ),
                sentences=torch.tensor(batch.rows, device=device),
                forbidden=forbidden,
            )
            scores, ids, log_p = (each.T for each in best)
        elif greedy_decoder is not None:
            log_p, ids, state = greedy_decoder.decode_greedily(
                tokens,
                state,
                max_steps=batch.max_steps,
                end=end,
                stop_at_finished=max(1, compact_at - batch.num_finished),
                forbidden=forbidden,
            )
            scores = log_p
        else:
            log_p, ids, state = step_topk(tokens, state, 1, forbidden)
            scores, ids, log_p = log_p.T, ids.T, log_p.T
        for step in zip(scores.cpu(), ids.tolist(), log_p.tolist(), strict=True):
            unfinished = batch.append(*step)

        tokens, kept = (
            ids[-1],
            torch.tensor(unfinished, dtype=torch.long, device=device),
        )
        num_finished = batch.num_finished
        if num_finished and (num_finished >= compact_at or not unfinished):
            batch.compact(unfinished)
            if unfinished:
                tokens, state = tokens[kept], state.index_select(kept)
        elif num_finished:  # finished rows stay until the batch is compacted
            tokens = torch.full_like(tokens, end).index_copy(0, kept, tokens[kept])
    return [
        Hypothesis(
            tuple(each.tokens),
            math.fsum(each.log_p) if batch.records_log_p else each.total,
            each.total / penalty(each.length) + reward * each.length,
            each.finished,
            tuple(each.log_p) if token_scores else (),
        )
        for each in (batch.finished[row] for row in range(num_rows))
    ]


@dataclass(frozen=True)
class _Output:
    """The output of one row; its length counts END."""

    tokens: list[int]
    log_p: list[float]
    total: float
    length: int
    finished: bool


class _GreedyBatch:
    """The tokens of each row so far, and the rows that are finished."""

    def __init__(
        self,
        num_rows: int,
        end: int,
        max_lengths: Sequence[int],
        *,
        records_log_p: bool,
    ) -> None:
        self.end = end
        self.max_lengths = max_lengths
        self.records_log_p = records_log_p
        self.rows = list(range(num_rows))  # those still in the batch
        self.length = 0
        self.totals = torch.zeros(num_rows)
        self.outputs: list[list[int]] = [[] for _ in self.rows]
        self.log_p: list[list[float]] = [[] for _ in self.rows]
        self.finished: dict[int, _Output] = {}

    @property
    def max_steps(self) -> int:
        """The largest number of tokens that any row may still get."""
        return max(self.max_lengths[row] for row in self.rows) - self.length

    @property
    def num_finished(self) -> int:
        """The number of finished rows that are still in the batch."""
        return sum(row in self.finished for row in self.rows)

    def append(
        self, scores: Tensor, tokens: Sequence[int], log_p: Sequence[float]
    ) -> list[int]:
        """Append one token [B] to each row; return the indices of unfinished rows."""
        self.length += 1
        self.totals = self.totals + scores
        unfinished = []
        for index, (row, token, total) in enumerate(
            zip(self.rows, tokens, self.totals.tolist(), strict=True)
        ):
            if row in self.finished:
                continue
            if total == -torch.inf:
                raise no_token_allowed()
            is_end = token == self.end
            if not is_end:
                self.outputs[row].append(token)
            if self.records_log_p:
                self.log_p[row].append(log_p[index])
            if is_end or self.length == self.max_lengths[row]:
                self.finished[row] = _Output(
                    self.outputs[row], self.log_p[row], total, self.length, is_end
                )
            else:
                unfinished.append(index)
        return unfinished

    def compact(self, indices: Sequence[int]) -> None:
        """Keep only the rows at ``indices``."""
        self.rows = [self.rows[index] for index in indices]
        self.totals = self.totals[list(indices)]
