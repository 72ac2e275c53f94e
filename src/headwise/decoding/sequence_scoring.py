"""Forced decoding: the score of a given output.

Letters used for sizes: R rows, one a pair, L target positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headwise.decoding.hypothesis import Hypothesis
from headwise.errors import NumericsError


def score_sequences(
    logits: Tensor,
    targets: Sequence[Sequence[int]],
    *,
    end: int,
    score: Callable[[float, int], float],
) -> list[Hypothesis]:
    """Return each target as the hypothesis that a search would have returned.

    ``logits`` [R, L, V] are those after START, after the first token, and so on; rows
    may be padded beyond their targets. ``score`` maps a total log probability and a
    length, END counted, to the score. Raises ``NumericsError`` where it is NaN.
    """
    labels = torch.zeros(logits.shape[:2], dtype=torch.long, device=logits.device)
    for row, target in zip(labels, targets, strict=True):
        row[: len(target) + 1] = torch.tensor([*target, end], device=row.device)
    label_logits = logits.gather(2, labels[:, :, None])[:, :, 0].float()
    log_p = label_logits - torch.logsumexp(logits.float(), dim=2)
    hypotheses = []
    for target, row in zip(targets, log_p.tolist(), strict=True):
        token_log_p = tuple(row[: len(target) + 1])
        total = math.fsum(token_log_p)
        if math.isnan(total):
            raise NumericsError.of_scores()
        hypotheses.append(
            Hypothesis(
                tuple(target), total, score(total, len(token_log_p)), True, token_log_p
            )
        )
    return hypotheses
