"""The settings of training check themselves, all at once."""

import math
from dataclasses import fields, replace

import pytest

from headwise.errors import SettingsError
from headwise.training.schedule import SCHEDULES
from headwise.training.settings import LOWER_IS_BETTER, MEASURES, TrainingSettings


def test_the_defaults_are_the_papers():
    """Sections 5.2 to 5.4: 100,000 updates, about 25,000 tokens, Adam, ε_ls 0.1."""
    settings = TrainingSettings()

    assert settings.steps == 100_000
    assert settings.batch_tokens == 25_000
    assert settings.warmup_steps == 4000
    assert (settings.adam_beta1, settings.adam_beta2) == (0.9, 0.98)
    assert settings.adam_epsilon == 1e-9
    assert settings.label_smoothing == 0.1
    assert settings.schedule == "paper"
    assert settings.learning_rate is None
    assert settings.clip_norm is None
    assert settings.average_last == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("batch_tokens", -1),
        ("batch_pairs", 0),
        ("accumulate", 0),
        ("warmup_steps", 0),
        ("validate_every", 0),
        ("validation_pairs", 0),
        ("average_last", 0),
        ("patience", 0),
        ("max_minutes", 0.0),
        ("max_minutes", math.nan),
        ("learning_rate", -0.1),
        ("learning_rate", math.inf),
        ("clip_norm", 0.0),
        ("adam_epsilon", 0.0),
        ("label_smoothing", 1.0),
        ("adam_beta1", -0.1),
        ("adam_beta2", 1.0),
        ("objective", "median"),
        ("schedule", "step"),
        ("precision", "int8"),
        ("measure", "bluerscore"),
    ],
)
def test_a_value_that_cannot_work_is_named_with_what_came(name, value):
    with pytest.raises(SettingsError) as caught:
        replace(TrainingSettings(), **{name: value})

    (problem,) = caught.value.problems
    assert problem.startswith(f"{name} must be ")
    assert str(value) in problem


def test_all_problems_come_at_once():
    with pytest.raises(SettingsError) as caught:
        TrainingSettings(steps=0, learning_rate=-1.0, schedule="step", adam_beta1=2.0)

    assert len(caught.value.problems) == 4


def test_the_plain_objective_takes_no_smoothing():
    with pytest.raises(SettingsError, match=r"set label_smoothing = 0\.0"):
        TrainingSettings(objective="sum")

    assert TrainingSettings(objective="sum", label_smoothing=0.0).objective == "sum"


def test_every_schedule_can_be_chosen():
    for name in SCHEDULES:
        assert TrainingSettings(schedule=name).schedule == name


def test_every_measure_says_which_way_is_better():
    for measure in MEASURES:
        settings = TrainingSettings(measure=measure)
        assert settings.lower_is_better == (measure in LOWER_IS_BETTER)


def test_as_many_checkpoints_stay_as_are_averaged_and_never_fewer_than_two():
    kept = [TrainingSettings(average_last=n).keep_checkpoints for n in (1, 2, 5)]

    assert kept == [2, 2, 5]


def test_every_measure_and_metric_of_training_is_known_to_the_metrics():
    from headwise.metrics.registry import METRICS

    assert set(MEASURES) - {"loss"} <= set(METRICS)


def test_every_setting_can_be_left_out():
    assert all(
        field.default is not field.default_factory for field in fields(TrainingSettings)
    )
    TrainingSettings()


def test_epochs_have_a_bound_as_all_are_planned_before_training():
    """10^20 of them were once counted one by one, without a word."""
    with pytest.raises(SettingsError, match="epochs must be at most 10,000, not"):
        TrainingSettings(epochs=10**20)
