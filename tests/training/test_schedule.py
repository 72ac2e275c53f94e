"""The learning rate of each update: Equation 3 and its relatives."""

from dataclasses import replace

import pytest

from headwise.training.schedule import SCHEDULES, learning_rate, paper_rate
from headwise.training.settings import TrainingSettings

PAPER = TrainingSettings()


@pytest.mark.parametrize(
    ("step", "by_hand"),
    [
        (1, 512**-0.5 * 4000**-1.5),  # 1.75e-7: the first step of the warm-up
        (4000, 512**-0.5 * 4000**-0.5),  # 7.0e-4: the peak
        (100_000, 512**-0.5 * 100_000**-0.5),  # 1.4e-4: the last update of base
    ],
)
def test_equation_3_by_hand(step, by_hand):
    assert learning_rate(step, PAPER, 512) == pytest.approx(by_hand, rel=1e-12)


def test_equation_3_in_numbers_one_can_check_with_a_calculator():
    assert learning_rate(1, PAPER, 512) == pytest.approx(1.7469e-7, rel=1e-4)
    assert learning_rate(4000, PAPER, 512) == pytest.approx(6.9877e-4, rel=1e-4)
    assert learning_rate(100_000, PAPER, 512) == pytest.approx(1.3975e-4, rel=1e-4)


@pytest.mark.parametrize("step", [1, 2, 399, 400, 401, 9999])
def test_the_schedule_is_equation_3_at_every_step(step):
    settings = replace(PAPER, warmup_steps=400)

    assert learning_rate(step, settings, 64) == pytest.approx(paper_rate(step, 64, 400))


def test_a_wider_model_learns_more_slowly():
    assert learning_rate(7, PAPER, 2048) == pytest.approx(
        learning_rate(7, PAPER, 512) / 2
    )


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_rises_straight_to_the_peak_that_is_set(name):
    settings = replace(
        PAPER, schedule=name, learning_rate=0.5, warmup_steps=10, steps=100
    )
    rates = [learning_rate(step, settings, 512) for step in range(1, 101)]

    assert rates[:10] == pytest.approx([0.05 * step for step in range(1, 11)])
    assert max(rates) == pytest.approx(0.5)
    assert all(rate > 0 for rate in rates)


def test_linear_falls_in_equal_parts_and_would_be_0_after_the_last_update():
    """Warm-up 2, 6 updates: 1/2, 1, then 4/5, 3/5, 2/5, 1/5 of the peak."""
    settings = replace(
        PAPER, schedule="linear", learning_rate=1.0, warmup_steps=2, steps=6
    )
    rates = [learning_rate(step, settings, 512) for step in range(1, 8)]

    assert rates == pytest.approx([0.5, 1.0, 0.8, 0.6, 0.4, 0.2, 0.0])


def test_constant_stays_at_the_peak():
    settings = replace(PAPER, schedule="constant", warmup_steps=2, learning_rate=0.1)

    assert {learning_rate(step, settings, 512) for step in (2, 3, 10**6)} == {0.1}


def test_without_a_rate_of_its_own_every_schedule_peaks_where_equation_3_does():
    for name in SCHEDULES:
        settings = replace(PAPER, schedule=name)
        peak = learning_rate(4000, settings, 512)
        assert peak == pytest.approx(paper_rate(4000, 512, 4000)), name


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_run_that_ends_during_warm_up_never_divides_by_0(name):
    settings = replace(PAPER, schedule=name, warmup_steps=100, steps=3)

    assert all(0 < learning_rate(step, settings, 512) < 1 for step in (1, 2, 3))


def test_cosine_falls_by_half_a_cosine_and_would_be_0_after_the_last_update():
    """Warm-up 2, 5 updates: 1/2, 1, then t = 1/4, 1/2, 3/4 of (1 + cos(π t)) / 2."""
    settings = replace(
        PAPER, schedule="cosine", learning_rate=1.0, warmup_steps=2, steps=5
    )
    rates = [learning_rate(step, settings, 512) for step in range(1, 8)]

    quarter = 0.5**0.5  # cos(π / 4)
    by_hand = [0.5, 1.0, (1 + quarter) / 2, 0.5, (1 - quarter) / 2, 0.0, 0.0]
    assert rates == pytest.approx(by_hand)


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_schedule_that_falls_to_0_never_divides_by_0(name):
    settings = replace(PAPER, schedule=name, warmup_steps=100, steps=100)

    rates = [learning_rate(step, settings, 512) for step in range(1, 101)]
    assert all(rate > 0 for rate in rates)
    assert rates == sorted(rates)


def test_constant_with_a_cooldown_is_warm_up_stable_decay():
    """Hu et al. 2024: warm-up 2, stable up to step 6, decay over the last 4 of 10."""
    settings = replace(
        PAPER,
        schedule="constant",
        learning_rate=1.0,
        warmup_steps=2,
        steps=10,
        cooldown=0.4,
    )
    rates = [learning_rate(step, settings, 512) for step in range(1, 11)]

    assert rates[:6] == [0.5, 1, 1, 1, 1, 1]
    assert rates[6:] == pytest.approx([1 - (k / 5) ** 0.5 for k in (1, 2, 3, 4)])
