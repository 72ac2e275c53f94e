import math

import pytest
import torch

from headwise.decoding.sampling import (
    NO_TRUNCATION,
    TRUNCATIONS,
    Sampler,
    inverse_cdf,
    keep_above_epsilon,
    keep_top_k,
    keep_top_p,
    sample_rng,
    sampling_search,
)
from headwise.decoding.settings import DecodingSettings
from headwise.errors import NumericsError

START, A, B, END = range(4)

SHARES = torch.tensor([[0.1, 0.4, 0.3, 0.2]], dtype=torch.double)


def kept(log_p):
    return (log_p > -math.inf)[0].tolist()


def test_top_k_keeps_the_k_best():
    assert kept(keep_top_k(SHARES.log(), 2)) == [False, True, True, False]
    assert kept(keep_top_k(SHARES.log(), 9)) == [True] * 4


def test_top_k_breaks_ties_by_the_lower_id():
    assert kept(keep_top_k(torch.zeros(1, 4), 2)) == [True, True, False, False]


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.3, [False, True, False, False]),
        (0.5, [False, True, True, False]),
        (0.75, [False, True, True, True]),
        (1.0, [True] * 4),
    ],
)
def test_top_p_keeps_the_fewest_tokens_that_sum_to_p(p, expected):
    """0.4 alone has 0.4, 0.4 + 0.3 has 0.7, and so on."""
    assert kept(keep_top_p(SHARES.log(), p)) == expected


def test_epsilon_keeps_tokens_of_that_probability():
    assert kept(keep_above_epsilon(SHARES.log(), 0.15)) == [False, True, True, True]


def test_epsilon_always_keeps_the_best_token():
    assert kept(keep_above_epsilon(SHARES.log(), 0.9)) == [False, True, False, False]


def test_every_truncation_is_a_setting_and_has_a_value_that_means_none():
    usual = DecodingSettings()

    assert set(TRUNCATIONS) == set(NO_TRUNCATION)
    assert {name: getattr(usual, name) for name in TRUNCATIONS} == NO_TRUNCATION
    assert Sampler.of(usual) == Sampler()


def test_temperature_and_truncation_make_a_distribution():
    """A temperature of 0.5 squares: 0.01, 0.16, 0.09, 0.04; the best two of these."""
    sampler = Sampler(temperature=0.5, truncations=(("top_k", 2),))

    found = sampler.probabilities(SHARES.log())[0].tolist()

    assert found == pytest.approx([0, 0.16 / 0.25, 0.09 / 0.25, 0])


def test_inverse_cdf_returns_the_token_whose_interval_holds_the_number():
    """The parts end at 0.1, 0.5, 0.8 and 1."""
    points = [0.0, 0.0999, 0.1001, 0.4999, 0.5001, 0.7999, 0.8001, 0.99999]
    found = inverse_cdf(SHARES.expand(len(points), -1), points)

    assert found.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_inverse_cdf_never_returns_a_token_of_probability_0():
    shares = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]], dtype=torch.double)
    points = [0.0, 0.49, 0.5, math.nextafter(1, 0)]

    assert inverse_cdf(shares.expand(4, -1), points).tolist() == [1, 1, 3, 3]


def test_random_numbers_depend_on_seed_source_and_sample():
    first = sample_rng(0, [5, 6], 0).random()

    assert sample_rng(0, [5, 6], 0).random() == first
    others = [
        sample_rng(1, [5, 6], 0),
        sample_rng(0, [56], 0),
        sample_rng(0, [5, 6], 1),
    ]
    assert first not in [other.random() for other in others]


def sampled(model, *, samples, **changes):
    asked = {
        "sources": [[7]],
        "start": START,
        "end": END,
        "max_lengths": [9],
        "samples": samples,
        "seed": 0,
        "sampler": Sampler(),
    }
    return sampling_search(model, model.state(), **(asked | changes))


def test_samples_are_as_frequent_as_they_are_probable(table):
    """A END 0.6 * 0.5, A B END 0.6 * 0.5, B END 0.4: of 4,000 each within 4 sigma."""
    model = table([[0, 0.6, 0.4, 0], [0, 0, 0.5, 0.5], [0, 0, 0, 1.0], [0, 0, 0, 1.0]])
    (found,) = sampled(model, samples=4000)

    for tokens, share in (((A,), 0.3), ((A, B), 0.3), ((B,), 0.4)):
        count = sum(each.tokens == tokens for each in found)
        assert abs(count - 4000 * share) < 4 * math.sqrt(4000 * share * (1 - share))
    assert found == sorted(found, key=lambda each: -each.score)


def test_temperature_does_not_touch_the_log_probability(table):
    model = table([[0, 0.6, 0.4, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]])
    (found,) = sampled(model, samples=50, sampler=Sampler(temperature=3.0))

    shares = {A: math.log(0.6), B: math.log(0.4)}
    for each in found:
        assert each.log_probability == pytest.approx(shares[each.tokens[0]])


def test_more_samples_are_the_same_samples_and_some_more(table):
    model = table([[0, 0.3, 0.3, 0.4]] * 3 + [[0, 0, 0, 1]])
    (few,), (many,) = sampled(model, samples=3), sampled(model, samples=9)

    remaining = [each.tokens for each in many]
    for each in few:
        remaining.remove(each.tokens)
    assert len(remaining) == 6


def test_a_model_that_allows_nothing_is_an_error(table):
    with pytest.raises(NumericsError, match="probability of 0"):
        sampled(table([[0, 1.0, 0, 0]] * 4), samples=1, forbidden=(A,))
