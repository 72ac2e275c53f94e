"""The score of an output that is given, not searched.

Letters used for sizes: R rows, one a pair, L target positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headwise.decoding.hypothesis import Hypothesis


def forced(
    logits: Tensor,
    targets: Sequence[Sequence[int]],
    *,
    end: int,
    score: Callable[[float, int], float],
) -> list[Hypothesis]:
    """Return each target as the hypothesis it would be, had a search found it.

    ``logits`` [R, L, V] score what follows START, the first token, and so on; rows may
    be longer than their targets. ``score`` takes a total and a length, END counted.
    """
    wanted = torch.zeros(logits.shape[:2], dtype=torch.long, device=logits.device)
    for row, target in zip(wanted, targets, strict=True):
        row[: len(target) + 1] = torch.tensor([*target, end], device=row.device)
    picked = logits.gather(2, wanted[:, :, None])[:, :, 0].float()
    log_p = picked - torch.logsumexp(logits.float(), dim=2)
    found = []
    for target, row in zip(targets, log_p.tolist(), strict=True):
        trace = tuple(row[: len(target) + 1])
        total = math.fsum(trace)
        found.append(
            Hypothesis(tuple(target), total, score(total, len(trace)), True, trace)
        )
    return found
