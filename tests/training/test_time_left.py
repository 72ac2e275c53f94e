"""Time left, worked out by hand: steps in tokens, validations between them."""

import pytest

from headwise.data.prepared import CorpusFacts, PreparedFacts, SplitFacts
from headwise.training.callbacks import StepMetrics
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState
from headwise.training.time_left import FORWARD, SEARCHED, WARMUP_STEPS, TimeLeft


def settings(steps=100, **changes):
    chosen = {"validate_every": 1000, "average_last": 1, **changes}
    return TrainingSettings(steps=steps, **chosen)


def facts(*, weight=1.0, dev_pairs=10):
    """A corpus of 100 pairs with 900 tokens on each side, so 2,000 with the ENDs."""
    corpus = CorpusFacts(
        source="a",
        target="b",
        weight=weight,
        first_pair=0,
        read=100,
        train=100,
        dev=0,
        empty=0,
        too_long=0,
        held_out=0,
    )
    return PreparedFacts(
        fingerprint="f",
        seed=1,
        max_tokens=100,
        source_vocabulary=9,
        target_vocabulary=9,
        joint=True,
        train=SplitFacts(
            pairs=100,
            source_tokens=900,
            target_tokens=900,
            longest_source=9,
            longest_target=9,
        ),
        dev=SplitFacts(
            pairs=dev_pairs,
            source_tokens=9 * dev_pairs,
            target_tokens=9 * dev_pairs,
            longest_source=9,
            longest_target=9,
        ),
        corpora=(corpus,),
    )


class FakeRun:
    """A run whose steps and validations take a given time."""

    def __init__(self, estimate, chosen, *, epoch_batches=10):
        self.estimate = estimate
        self.state = TrainingState()
        estimate.on_start(self.state, chosen, epoch_batches)

    def wait(self, seconds):
        self.state = TrainingState(
            step=self.state.step, seconds=self.state.seconds + seconds
        )

    def update(self, times=1, *, tokens=100, seconds=1.0):
        for _ in range(times):
            self.state = TrainingState(
                step=self.state.step + 1, seconds=self.state.seconds + seconds
            )
            update = StepMetrics(
                step=self.state.step,
                loss=1.0,
                learning_rate=0.1,
                gradient_norm=1.0,
                tokens=tokens,
                seconds=seconds,
            )
            self.estimate.on_step(update, self.state)

    def validation(self, seconds):
        self.wait(seconds)
        self.estimate.on_validation()

    @property
    def left(self):
        return self.estimate.seconds(self.state)


def test_before_the_first_update_nothing_is_known():
    assert FakeRun(TimeLeft(), settings()).left is None


def test_updates_to_come_take_what_the_last_ones_took():
    run = FakeRun(TimeLeft(), settings(steps=100))
    run.update(10, seconds=2.0)

    assert run.left == pytest.approx(90 * 2.0)


def test_the_first_updates_are_slow_and_do_not_count_for_long():
    run = FakeRun(TimeLeft(), settings(steps=100))
    run.update(WARMUP_STEPS, seconds=60.0)
    run.update(1, seconds=1.0)

    assert run.left == pytest.approx(100 - WARMUP_STEPS - 1)


def test_what_passes_between_updates_counts_with_them():
    run = FakeRun(TimeLeft(), settings(steps=100))
    for _ in range(20):
        run.wait(0.5)
        run.update(seconds=1.0)

    assert run.left == pytest.approx(80 * 1.5)


def test_long_updates_now_do_not_mean_long_updates_later():
    """An epoch has 2,000 tokens in 10 batches; those so far were half as large."""
    run = FakeRun(TimeLeft(facts(dev_pairs=0)), settings(steps=100), epoch_batches=10)
    run.update(20, tokens=100, seconds=1.0)

    assert run.left == pytest.approx(80 * 200 * 0.01)


def test_an_update_of_several_batches_has_the_tokens_of_them_all():
    chosen = settings(steps=100, accumulate=4)
    run = FakeRun(TimeLeft(facts(dev_pairs=0)), chosen, epoch_batches=10)
    run.update(20, tokens=800, seconds=4.0)

    assert run.left == pytest.approx(80 * 4.0)


def test_where_corpora_are_weighed_the_last_updates_say_how_large_they_are():
    estimate = TimeLeft(facts(weight=3.0, dev_pairs=0))
    run = FakeRun(estimate, settings(steps=100), epoch_batches=10)
    run.update(20, tokens=100, seconds=1.0)

    assert run.left == pytest.approx(80 * 1.0)


def test_validations_to_come_take_what_the_last_one_took():
    """After step 40 of 100: validations at 60, 80 and 100."""
    run = FakeRun(TimeLeft(), settings(steps=100, validate_every=20))
    run.update(20)
    run.validation(7.0)
    run.update(20)
    run.validation(5.0)
    run.update(1)

    assert run.left == pytest.approx(59 * 1.0 + 3 * 5.0)


def test_before_the_first_validation_its_estimated_cost_is_counted():
    """10 held-out pairs, 200 tokens with the ENDs, of which all are translated."""
    run = FakeRun(
        TimeLeft(facts()), settings(steps=100, validate_every=50), epoch_batches=20
    )
    run.update(20, tokens=100, seconds=1.0)

    validation = 200 * (FORWARD + SEARCHED) * 0.01
    assert run.left == pytest.approx(80 * 1.0 + 2 * validation)


def test_where_few_pairs_are_translated_a_validation_costs_less():
    chosen = settings(steps=100, validate_every=100, validation_pairs=5)
    run = FakeRun(TimeLeft(facts()), chosen, epoch_batches=20)
    run.update(20, tokens=100, seconds=1.0)

    validation = 200 * (FORWARD + SEARCHED / 2) * 0.01
    assert run.left == pytest.approx(80 * 1.0 + validation)


@pytest.mark.parametrize(
    ("steps", "every", "average", "validations"),
    [
        (100, 20, 1, 4),  # 40, 60, 80, 100
        (110, 20, 1, 5),  # and 110
        (100, 20, 5, 5),  # and at the mean
        (100, 1000, 1, 1),  # the end alone
        (100, 1000, 5, 1),  # of one checkpoint there is no mean
    ],
)
def test_validations_are_counted_up_to_the_end(steps, every, average, validations):
    chosen = settings(steps=steps, validate_every=every, average_last=average)
    run = FakeRun(TimeLeft(), chosen)
    run.update(20)
    run.validation(5.0)
    run.update(1)

    assert run.left == pytest.approx(steps - 21 + 5.0 * validations)


def test_the_time_limit_counts_if_it_comes_first_with_the_validation_in_it():
    run = FakeRun(
        TimeLeft(), settings(steps=10_000, max_minutes=1.0, validate_every=20)
    )
    run.update(20)
    run.validation(5.0)
    run.update(15)

    assert run.left == pytest.approx(60 - 40)


def test_what_is_left_when_the_time_is_over_is_the_validation():
    run = FakeRun(
        TimeLeft(), settings(steps=10_000, max_minutes=0.5, validate_every=20)
    )
    run.update(20)
    run.validation(5.0)
    run.update(15)

    assert run.left == pytest.approx(5.0)


def test_a_limit_that_will_not_be_reached_changes_nothing():
    run = FakeRun(TimeLeft(), settings(steps=50, max_minutes=10.0))
    run.update(20)

    assert run.left == pytest.approx(30.0)


def test_a_resumed_run_counts_from_where_it_is():
    estimate = TimeLeft()
    run = FakeRun(estimate, settings(steps=100))
    run.state = TrainingState(step=90, seconds=9000.0)
    run.update(5, seconds=1.0)

    assert run.left == pytest.approx(5.0)


def test_at_the_end_nothing_is_left():
    run = FakeRun(TimeLeft(), settings(steps=20, validate_every=30))
    run.update(20)

    assert run.left == 0.0
