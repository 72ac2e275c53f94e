"""The rows of a greedy search: their tokens so far, and which of them are finished.

Needs no torch. Letters used for sizes: B rows still in the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.decoding.argument_checks import no_token_allowed
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.length_penalty import LengthPenalty

Array = NDArray[Any]

COMPACT_AT = 1 / 8
"""Fraction of finished rows at which the batch is compacted, which copies the KV cache
of the others."""


@dataclass(frozen=True)
class _Output:
    """The output of one row; its length counts END."""

    tokens: list[int]
    log_p: list[float]
    total: float
    length: int
    finished: bool


class GreedyBatch:
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
        self.totals: Array = np.zeros(num_rows, dtype=np.float32)
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
        self, scores: Array, tokens: Sequence[int], log_p: Sequence[float]
    ) -> list[int]:
        """Append one token [B] to each row; return the indices of unfinished rows."""
        self.length += 1
        self.totals = self.totals + scores
        unfinished = []
        of_rows = self.rows, tokens, scores.tolist(), self.totals.tolist()
        for index, (row, token, score, total) in enumerate(zip(*of_rows, strict=True)):
            if row in self.finished:
                continue
            if score == -math.inf:
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

    def hypotheses(
        self, penalty: LengthPenalty, reward: float, *, token_scores: bool
    ) -> list[Hypothesis]:
        """Return the outputs of all rows, which are finished."""
        return [
            Hypothesis(
                tuple(each.tokens),
                math.fsum(each.log_p) if self.records_log_p else each.total,
                each.total / penalty(each.length) + reward * each.length,
                each.finished,
                tuple(each.log_p) if token_scores else (),
            )
            for _, each in sorted(self.finished.items())
        ]

    def compact(self, indices: Sequence[int]) -> None:
        """Keep only the rows at ``indices``."""
        self.rows = [self.rows[index] for index in indices]
        self.totals = self.totals[list(indices)]
