"""Scores of given outputs by hand."""

import math

import pytest
import torch

from headwise.decoding.sequence_scoring import score_sequences
from headwise.errors import NumericsError

A, B, END = range(3)


def test_the_total_is_that_of_the_target_and_end():
    """A has 0.5, then B 0.25, then END 0.5: ln of 0.0625 in all; the mean of three."""
    steps = [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]
    logits = torch.tensor([steps]).log() + 3.0

    (found,) = score_sequences(
        logits, [[A, B]], end=END, score=lambda total, length: total / length
    )

    assert found.tokens == (A, B)
    assert found.finished
    assert found.log_probability == pytest.approx(math.log(0.0625))
    assert found.score == pytest.approx(math.log(0.0625) / 3)
    assert found.token_log_probabilities == pytest.approx(
        [math.log(0.5), math.log(0.25), math.log(0.5)]
    )


def test_padding_behind_a_shorter_target_counts_nothing():
    logits = torch.zeros(2, 3, 3)

    long, short = score_sequences(
        logits, [[A, B], []], end=END, score=lambda total, length: total
    )

    assert len(long.token_log_probabilities) == 3
    assert len(short.token_log_probabilities) == 1
    assert short.log_probability == pytest.approx(math.log(1 / 3))


def test_logits_without_a_score_are_refused():
    """A search refuses them too; the scores were NaN."""
    logits = torch.full((1, 2, 3), math.nan)

    with pytest.raises(NumericsError, match="NaN or infinite"):
        score_sequences(logits, [[A]], end=END, score=lambda total, length: total)
