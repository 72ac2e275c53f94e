"""The result of a step: its metrics, and the flag of a number that is not finite."""

import math
import time

import pytest
import torch

from headwise.training.step_result import PendingStep


def a_step(loss, gradient_norm=2.0, started=0.0):
    return PendingStep(
        step=7,
        loss=loss,
        gradient_norm=gradient_norm,
        batches=[],
        num_targets=4,
        tokens=9,
        learning_rate=0.5,
        started=started,
    )


@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_metrics_have_the_loss_per_target_token(kind):
    metrics = a_step(kind(10.0), kind(2.0)).to_metrics(since=0.0)

    assert (metrics.loss, metrics.gradient_norm) == (2.5, 2.0)
    assert (metrics.step, metrics.tokens, metrics.learning_rate) == (7, 9, 0.5)


def test_the_time_of_a_step_begins_where_the_one_before_was_reported(monkeypatch):
    """With async metrics a step is started before the last one is reported."""
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)

    assert a_step(1.0, started=90.0).to_metrics(since=0.0).seconds == 10.0
    assert a_step(1.0, started=90.0).to_metrics(since=97.0).seconds == 3.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_or_norm_that_is_not_finite_is_found(value):
    good, bad = torch.tensor(1.0), torch.tensor(value)

    assert not a_step(value).is_finite
    assert not a_step(1.0, value).is_finite
    for step in (a_step(bad, good), a_step(good, bad)):
        assert not step.is_finite
        assert step.found_inf().item() == 1.0
    assert a_step(good, good).is_finite
    assert a_step(good, good).found_inf().item() == 0.0


def test_numbers_on_the_host_need_no_flag_on_the_device():
    assert a_step(math.nan).found_inf() is None
