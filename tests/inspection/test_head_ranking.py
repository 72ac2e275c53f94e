"""Heads ranked by what references lose without them."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.stats import t as student
from tests.inspection.conftest import random_model
from tests.inspection.test_interventions import with_zeroed_slice
from tests.reference.numpy_transformer import NumpyTransformer

from headwise.errors import DataError, UsageError
from headwise.inspection.head_ranking import (
    HeadRanking,
    heads_zeroed,
    loss_without,
    rank_heads,
    references_of_pairs,
    zero_heads,
)
from headwise.inspection.places import all_heads, parse_head

PAIRS = [([5, 7, 4, 9], [6, 8, 11]), ([7, 5], [8, 6, 8, 4]), ([9, 10, 7], [11])]


def ranked_by_one(**options):
    """Rank the heads of a random model by one pair."""
    model = random_model()
    return rank_heads(model, references_of_pairs(model, PAIRS[:1]), **options)


def log_p(model, edit=lambda name, x: x):
    """Return ln p of each reference, END counted."""
    totals = []
    for source, target in PAIRS:
        run = NumpyTransformer(model).run([*source, 2], [1, *target], edit=edit)
        totals.append(run["log_p"][range(len(target) + 1), [*target, 2]].sum())
    return np.array(totals)


def test_losses_are_those_of_an_independent_forward_pass(model):
    whole = log_p(model)

    found = rank_heads(model, references_of_pairs(model, PAIRS))

    assert found.log_probability == pytest.approx(whole.mean(), abs=1e-4)
    losses = [each.loss for each in found.heads]
    assert losses == sorted(losses, reverse=True)
    assert {each.heads[0] for each in found.heads} == set(all_heads(model))
    for each in found.heads:
        name = f"{each.heads[0]}.head"
        without = log_p(model, lambda n, x, name=name: x * 0 if n == name else x)
        differences = whole - without
        assert each.loss == pytest.approx(differences.mean(), abs=1e-4)
        reach = student.ppf(0.975, 2) * differences.std(ddof=1) / math.sqrt(3)
        assert each.low == pytest.approx(differences.mean() - reach, abs=1e-3)
        assert each.high == pytest.approx(differences.mean() + reach, abs=1e-3)
        assert (each.sentences, each.tokens) == (3, 11)


def test_several_heads_are_lost_together(model):
    heads = [parse_head("encoder.0.1"), parse_head("cross.1.0")]
    names = {f"{head}.head" for head in heads}
    without = log_p(model, lambda name, x: x * 0 if name in names else x)

    found = loss_without(model, references_of_pairs(model, PAIRS), heads)

    assert found.heads == tuple(heads)
    assert found.loss == pytest.approx((log_p(model) - without).mean(), abs=1e-4)


def test_weights_come_back_bit_for_bit_even_after_an_error(model):
    before = copy.deepcopy(model.state_dict())
    head = parse_head("cross.0.2")
    with pytest.raises(RuntimeError, match="why"), heads_zeroed(model, [head, head]):
        raise RuntimeError("why")
    rank_heads(model, references_of_pairs(model, PAIRS))

    after = model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_zeroed_heads_are_zero_slices_of_w_o(model):
    heads = [parse_head("encoder.1.3"), parse_head("decoder.0.0")]
    expected = with_zeroed_slice(with_zeroed_slice(model, heads[0]), heads[1])

    zero_heads(model, heads)

    theirs = expected.state_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, theirs[name])


def test_the_least_useful_heads_are_the_last():
    model = random_model()
    ranking = rank_heads(model, references_of_pairs(model, PAIRS))

    assert ranking.least(2) == [ranking.heads[-2].heads[0], ranking.heads[-1].heads[0]]


@pytest.mark.parametrize("count", [0, -1, 24, 25])
def test_a_model_without_any_head_is_refused(count):
    ranking = HeadRanking(ranked_by_one().heads, 0.0)

    with pytest.raises(UsageError, match="give 1 to 23"):
        ranking.least(count)


def test_progress_is_told_before_each_head():
    seen = []

    ranking = ranked_by_one(on_head=seen.append)

    assert len(seen) == len(ranking.heads) == 24
    assert ranking.heads[0].low is None  # of one sentence there is no interval


def test_no_pairs_are_refused(model):
    with pytest.raises(DataError, match="no pairs"):
        references_of_pairs(model, [])
