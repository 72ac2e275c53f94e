"""The settings of training check themselves, all at once."""

import math
from dataclasses import fields, replace

import pytest

from headwise.data.source_noise import NoiseSettings
from headwise.errors import SettingsError
from headwise.training.schedule import SCHEDULES
from headwise.training.settings import LOWER_IS_BETTER, MEASURES, TrainingSettings


def test_a_weight_decay_may_be_more_than_1():
    """A step takes this times the learning rate off, which stays far below 1."""
    assert TrainingSettings(weight_decay=2.0).weight_decay == 2.0
    assert TrainingSettings(weight_decay=2.0, learning_rate=0.4).weight_decay == 2.0


def test_an_update_does_not_take_off_the_whole_of_a_weight():
    with pytest.raises(SettingsError, match=r"less than 1, not 2\.0 \* 0\.5"):
        TrainingSettings(weight_decay=2.0, learning_rate=0.5)


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
        ("r_drop", -1.0),
        ("r_drop", math.inf),
        ("simcut", math.nan),
        ("weight_decay", -0.1),
        ("weight_decay", math.inf),
        ("simcut_rate", 0.0),
        ("simcut_rate", 1.0),
        ("adam_beta1", -0.1),
        ("adam_beta2", 1.0),
        ("objective", "median"),
        ("schedule", "step"),
        ("bpe_dropout", 1.1),
        ("bpe_dropout", -0.1),
        ("unigram_alpha", -0.1),
        ("unigram_alpha", math.inf),
        ("sampled_sides", "all"),
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


def test_one_loss_of_two_passes_excludes_the_other():
    with pytest.raises(SettingsError, match=r"r_drop = 5.0 and simcut = 3.0 exclude"):
        TrainingSettings(r_drop=5.0, simcut=3.0)


@pytest.mark.parametrize("name", ["r_drop", "simcut"])
def test_torch_compile_makes_a_single_pass(name):
    with pytest.raises(SettingsError, match=f"{name} = 2.0, but backend = "):
        TrainingSettings(backend="torch_compile", **{name: 2.0})


@pytest.mark.parametrize(
    ("changes", "passes", "tokens"),
    [({}, 1, 101), ({"r_drop": 5.0}, 2, 50), ({"simcut": 3.0}, 2, 50)],
)
def test_both_passes_count_in_the_tokens_of_a_batch(changes, passes, tokens):
    settings = TrainingSettings(batch_tokens=101, **changes)

    assert (settings.num_passes, settings.example_tokens) == (passes, tokens)


def test_a_batch_holds_a_token_at_least():
    assert TrainingSettings(batch_tokens=1, r_drop=5.0).example_tokens == 1


def test_each_side_is_sampled_with_the_rate_of_its_tokenizer():
    settings = TrainingSettings(bpe_dropout=0.1, unigram_alpha=0.2)

    assert settings.segmentation_rates("bpe", "unigram") == (0.1, 0.2)
    assert settings.segmentation_rates("bpe", "labels") == (0.1, None)
    source, target = (replace(settings, sampled_sides=s) for s in ("source", "target"))
    assert source.segmentation_rates("bpe", "bpe") == (0.1, None)
    assert target.segmentation_rates("bpe", "bpe") == (None, 0.1)
    assert TrainingSettings().segmentation_rates("bpe", "unigram") == (None, None)


def test_rate_0_of_bpe_draws_nothing_and_of_unigram_draws_evenly():
    assert not TrainingSettings().draws_texts
    assert not TrainingSettings(bpe_dropout=0.0, sampled_sides="source").draws_texts
    assert TrainingSettings(unigram_alpha=0.0).draws_texts
    assert TrainingSettings(source_noise=NoiseSettings(typos=0.1)).draws_texts
