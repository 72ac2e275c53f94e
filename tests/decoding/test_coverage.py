"""The coverage penalty, by hand and through a beam."""

import math

import pytest
import torch
from tests.reference.beam_search import readable_beam_search

from headwise.decoding.beam import beam_search
from headwise.decoding.coverage import MIN_ATTENTION, Coverage
from headwise.decoding.stopping import STOPPING

START, A, B, END = range(4)


def test_the_coverage_penalty_is_the_formula():
    """Looks of 0.5 + 0.25 and 0.5 + 0.75 at two tokens: ln 0.75 + ln 1 (not 1.25)."""
    coverage = Coverage(0.2, [2])
    coverage.add(torch.tensor([[0.5, 0.5]]))
    coverage.add(torch.tensor([[0.25, 0.75]]))

    assert coverage.penalty(0, 0) == pytest.approx(0.2 * math.log(0.75))


def test_coverage_ignores_padding_and_end():
    coverage = Coverage(1.0, [1, 3])
    coverage.add(torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]))

    assert coverage.penalty(0, 0) == 0.0
    assert coverage.penalty(1, 1) == pytest.approx(
        2 * math.log(0.5) + math.log(MIN_ATTENTION)
    )


class Looking:
    """A table whose rows also say where they look: at what the last token names."""

    def __init__(self, table, looks):
        self.table = table
        self.looks = torch.tensor(looks)

    def state(self):
        return self.table.state()

    def step(self, tokens, state):
        return self.table.step(tokens, state)

    def step_with_attention(self, tokens, state):
        logits, state = self.table.step(tokens, state)
        return logits, self.looks[tokens], state


TABLE = [[0, 0.55, 0.45, 0], [0, 0.1, 0.2, 0.7], [0, 0.3, 0.1, 0.6], [0, 0, 0, 1]]
LOOKS = [[0.5, 0.5], [0.9, 0.1], [0.1, 0.9], [0.5, 0.5]]


def looked(before, beta):
    """Return what an output gains whose last token follows ``before``."""
    looks = [LOOKS[token] for token in (START, *before)]
    return beta * sum(
        math.log(min(1, sum(column))) for column in zip(*looks, strict=True)
    )


@pytest.mark.parametrize("stopping", STOPPING)
@pytest.mark.parametrize("beta", [0.1, 1.0, 5.0])
def test_batched_beam_search_agrees_with_the_reference(table, stopping, beta):
    model = Looking(table(TABLE), LOOKS)
    asked = {"end": END, "beam": 3, "penalty": float, "stopping": STOPPING[stopping]}
    (found,) = beam_search(
        model,
        model.state(),
        num_sentences=1,
        start=START,
        max_lengths=[5],
        num_best=3,
        forbidden=(START,),
        coverage=Coverage(beta, [2]),
        **asked,
    )
    plain = readable_beam_search(
        model.table.log_probabilities,
        max_length=5,
        num_best=3,
        forbidden=(START,),
        coverage=lambda before: looked(before, beta),
        **asked,
    )

    assert [each.tokens for each in found] == [each.tokens for each in plain]
    assert [each.score for each in found] == pytest.approx(
        [each.score for each in plain], abs=1e-5
    )


def test_the_coverage_penalty_can_change_the_ranking(table):
    """A END has 0.385, but has hardly looked at the second source token.

    B A END (0.45 * 0.3 * 0.7) and A B END (0.55 * 0.2 * 0.6) have looked at both.
    """
    model = Looking(table(TABLE), LOOKS)

    def best(beta):
        ((found,),) = beam_search(
            model,
            model.state(),
            num_sentences=1,
            start=START,
            end=END,
            beam=4,
            penalty=lambda length: 1.0,
            stopping=STOPPING["exact"],
            max_lengths=[5],
            coverage=Coverage(beta, [2]),
        )
        return found.tokens

    assert best(0.0) == (A,)
    assert best(5.0) == (B, A)
