"""Labels with their probabilities, best first, by a row of log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from headwise.tasks.prediction import Prediction
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import SPECIALS


def labels_of(tokenizers: TokenizerPair) -> list[str]:
    """Return all labels, in the order of the logits."""
    target = tokenizers.target
    return target.pieces(range(len(SPECIALS), target.size))


def ranked_labels(labels: Sequence[str], row: Tensor | None) -> Prediction:
    """Return the prediction of log-probabilities [K]; None is that of a blank line."""
    if row is None:
        return Prediction(output="", log_probability=0.0)
    order = row.argsort(descending=True, stable=True).tolist()
    ranked = [(labels[index], math.exp(row[index])) for index in order]
    best = row[order[0]].item()
    return Prediction(output=ranked[0][0], log_probability=best, ranked=ranked)
