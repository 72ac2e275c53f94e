"""Ensembles: the distributions of several models become one."""

import math

import pytest
import torch

from headwise.decoding.ensemble import AVERAGES, Ensemble
from headwise.decoding.search import SearchRequest, search
from headwise.decoding.settings import DecodingSettings

START, A, B, END = range(4)

SURE = [0.0, 0.90, 0.09, 0.01]
"""What the one model gives START, A, B and END."""

DOUBTFUL = [0.0, 0.02, 0.49, 0.49]
"""What the other model gives them."""


def both(table, average):
    """Let both models end after the first token, whatever it was."""
    ended = [[0.0, 0.0, 0.0, 1.0]] * 3
    pair = Ensemble([table([SURE, *ended]), table([DOUBTFUL, *ended])], average=average)
    pair.start = lambda: Ensemble.start(pair)
    for model in pair.models:
        model.start = model.state
    return pair


def said(pair):
    """Return the probabilities that are given for the first token."""
    scores, _ = pair.step(torch.tensor([START]), pair.start())
    return scores[0].exp().tolist()


def test_the_mean_of_probabilities_is_that_of_different_models(table):
    """(0.90 + 0.02) / 2 = 0.46, (0.09 + 0.49) / 2 = 0.29, (0.01 + 0.49) / 2 = 0.25.

    Once ensembles were tested with the same model twice only, where any mean is right.
    """
    assert said(both(table, "probabilities")) == pytest.approx([0, 0.46, 0.29, 0.25])


def test_the_mean_of_log_probabilities_lets_each_model_veto(table):
    """The roots of 0.90 * 0.02, 0.09 * 0.49 and 0.01 * 0.49, as parts of their sum."""
    roots = [math.sqrt(p * q) for p, q in zip(SURE, DOUBTFUL, strict=True)]

    assert said(both(table, "log-probabilities")) == pytest.approx(
        [root / sum(roots) for root in roots]
    )


@pytest.mark.parametrize(
    ("average", "token"), [("probabilities", A), ("log-probabilities", B)]
)
def test_the_two_means_choose_different_words(table, average, token):
    """A has the larger mean (0.46 to 0.29), B the larger root (0.210 to 0.134)."""
    pair = both(table, average)
    asked = SearchRequest(source_lengths=[3], start=START, end=END)

    (found,) = search(pair, pair.start(), DecodingSettings(beam=1), asked)

    assert list(found[0].tokens) == [token]


@pytest.mark.parametrize("average", AVERAGES)
def test_every_mean_of_different_models_is_a_distribution(table, average):
    assert sum(said(both(table, average))) == pytest.approx(1)
