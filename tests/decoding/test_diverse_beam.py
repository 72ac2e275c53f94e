"""Diverse beams by hand."""

import math

import pytest
import torch

from headwise.decoding.beam import _merge_groups, beam_search
from headwise.decoding.diversity import HammingDiversity
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.rule_context import RuleContext
from headwise.decoding.stopping import STOPPING
from headwise.errors import UsageError

START, A, B, END = range(4)


def searched(model, *, beam, groups, diversity, num_best):
    (found,) = beam_search(
        model,
        model.state(),
        num_sentences=1,
        start=START,
        end=END,
        beam=beam,
        groups=groups,
        diversity=diversity,
        num_best=num_best,
        penalty=lambda length: 1.0,
        stopping=STOPPING["first-k"],
        max_lengths=[6],
    )
    return found


SPLIT = [[0, 0.7, 0.3, 0], [0, 0, 0, 1.0], [0, 0, 0, 1.0], [0, 0, 0, 1.0]]


def test_the_second_group_avoids_the_tokens_of_the_first(table):
    """ln 0.7 - ln 0.3 = 0.85: a strength of 1 turns the second group to B, 0.5 not."""
    strong = searched(table(SPLIT), beam=2, groups=2, diversity=1.0, num_best=2)
    weak = searched(table(SPLIT), beam=2, groups=2, diversity=0.5, num_best=2)

    assert [each.tokens for each in strong] == [(A,), (B,)]
    assert [each.tokens for each in weak] == [(A,)]


def test_the_diversity_penalty_counts_in_the_score_only(table):
    """The third group writes A again, for which it pays 1: two groups have A and B."""
    first, second = searched(table(SPLIT), beam=2, groups=2, diversity=1.0, num_best=2)

    assert second.log_probability == pytest.approx(math.log(0.3))
    assert first.score == pytest.approx(math.log(0.7))


def test_the_count_grows_with_every_group():
    rule = HammingDiversity(0.5, num_sentences=2)
    rule.add_choices(torch.tensor([1, 1]), torch.tensor([2, 2]), 3)
    rule.add_choices(torch.tensor([0]), torch.tensor([0]), 3)
    rows = torch.zeros(2, 3)
    written = RuleContext(torch.empty(2, 0), torch.tensor([0, 1]), rows)

    assert rule(rows, written).tolist() == [[-0.5, 0, 0], [0, 0, -1.0]]
    rule.start_step()
    assert rule(rows, written).tolist() == rows.tolist()


def test_each_group_gives_its_best_before_any_gives_another():
    """The first group's second is better than the second's best, and comes too late."""

    def found(token, score):
        return Hypothesis((token,), score, score, finished=True)

    first, second = [found(1, -1.0), found(2, -2.0)], [found(3, -3.0), found(4, -4.0)]

    assert _merge_groups([first, second], 2, 2) == [found(1, -1.0), found(3, -3.0)]
    # A group that ended with nothing leaves its share to the others.
    assert _merge_groups([first, []], 2, 2) == first
    # What two groups found counts once.
    assert _merge_groups([first, first], 2, 2) == first


def test_groups_must_share_the_beam(table):
    with pytest.raises(UsageError, match="groups must share beam=4"):
        searched(table(SPLIT), beam=4, groups=3, diversity=1.0, num_best=1)
