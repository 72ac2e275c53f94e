import pytest

from headwise.decoding.stopping import STOPPING, outputs_to_finish


@pytest.mark.parametrize("rule", STOPPING)
def test_no_rule_stops_with_nothing_found(rule):
    assert not STOPPING[rule]([], -1.0, beam=1, num_best=1)


def test_first_k_counts_and_ignores_scores():
    stop = STOPPING["first-k"]

    assert not stop([-9.0], -1.0, beam=2, num_best=1)
    assert stop([-9.0, -8.0], -1.0, beam=2, num_best=1)


@pytest.mark.parametrize(
    ("patience", "enough"), [(0.5, 1), (1.0, 2), (1.2, 3), (1.5, 3), (2.0, 4)]
)
def test_patience_multiplies_the_outputs_that_first_k_waits_for(patience, enough):
    """Of a beam of 2: 0.5 * 2 = 1, and 1.2 * 2 = 2.4, which only 3 reach."""
    stop = STOPPING["first-k"]

    few, many = [-1.0] * (enough - 1), [-1.0] * enough
    assert not stop(few, -9.0, beam=2, num_best=1, patience=patience)
    assert stop(many, -9.0, beam=2, num_best=1, patience=patience)


def test_rounding_of_patience_times_beam_adds_no_output():
    """25 * 2.2 is 55.00000000000001 to a computer, and 55 to everybody else."""
    assert 25 * 2.2 > 55
    assert outputs_to_finish(25, 2.2) == 55


@pytest.mark.parametrize("patience", [0.5, 1.0, 2.0, 7.0])
def test_greedy_search_stops_at_its_first_output(patience):
    """Or a beam of 1 would go on past its END with the second best token."""
    assert outputs_to_finish(1, patience) == 1


def test_low_patience_still_returns_the_requested_n_best():
    stop = STOPPING["first-k"]

    assert not stop([-1.0] * 2, -9.0, beam=4, num_best=3, patience=0.25)
    assert stop([-1.0] * 3, -9.0, beam=4, num_best=3, patience=0.25)


def test_never_stops_at_the_length_limit_only():
    assert not STOPPING["never"]([-1.0] * 99, -9.0, beam=1, num_best=1)


def test_exact_compares_the_best_possible_score_with_the_worst_of_the_best():
    """Of -3, -1 and -2 the two best end with -2: a hope of -2.5 is in vain."""
    stop = STOPPING["exact"]
    found = [-3.0, -1.0, -2.0]

    assert stop(found, -2.5, beam=9, num_best=2)
    assert not stop(found, -1.5, beam=9, num_best=2)
    assert not stop(found, -2.5, beam=9, num_best=3)
    assert not stop(found, -9.0, beam=9, num_best=4)
