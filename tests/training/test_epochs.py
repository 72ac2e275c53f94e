"""Epochs as steps: each pair so many times."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.training.conftest import QUICK, Recorder, assert_same_weights, weights_of

from headwise.errors import SettingsError
from headwise.training.epochs import epochs_to_steps, steps_done_reason
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState

TWICE = replace(
    QUICK, steps=None, epochs=2, batch_tokens=1024, validate_every=100, average_last=1
)


def count_pairs(trainer):
    """Count how often each pair is trained on, by whichever backend."""
    seen, accumulate = Counter(), trainer.gradients.accumulate

    def counting(batches, **others):
        if others["step"]:  # the trial of the largest batch is none
            seen.update(int(index) for _, batch in batches for index in batch.indices)
        return accumulate(batches, **others)

    trainer.gradients.accumulate = counting
    return seen


@pytest.mark.parametrize("accumulate", [1, 4])
def test_two_epochs_see_each_pair_exactly_twice(make_trainer, corpus, accumulate):
    """Also where updates of four batches do not come out even: the last is smaller."""
    recorder = Recorder()
    trainer = make_trainer(replace(TWICE, accumulate=accumulate), callback=recorder)
    seen = count_pairs(trainer)
    trainer.run()

    batches = trainer.order.num_batches(0) + trainer.order.num_batches(1)
    assert batches % 4, "the test is to have a smaller last update"
    assert seen == dict.fromkeys(range(len(corpus.train)), 2)
    assert len(recorder.updates) == trainer.state.step == -(-batches // accumulate)
    assert (trainer.state.epoch, trainer.state.batch) == (2, 0)
    assert recorder.validations, "the end is validated, as any end is"


def test_a_run_by_epochs_that_was_cut_is_the_same_run_bit_for_bit(make_trainer):
    """With the schedule that depends most on how long the whole is to be."""
    settings = replace(TWICE, batch_tokens=256, schedule="linear", accumulate=3)
    whole, rest = Recorder(), Recorder()
    uninterrupted = make_trainer(settings, callback=whole)
    uninterrupted.run()
    part = make_trainer(settings, until=3)
    part.run()
    state, weights, optimizer = part.checkpoint_writer.saved[-1]
    resumed = make_trainer(
        settings, state=state, weights=weights, optimizer=optimizer, callback=rest
    )
    resumed.run()

    assert state.step == 3 < uninterrupted.state.step
    assert resumed.settings.steps == uninterrupted.settings.steps
    assert rest.losses == whole.losses[3:]
    assert_same_weights(weights_of(uninterrupted), weights_of(resumed))


def test_of_steps_and_epochs_what_ends_first_counts(make_trainer):
    assert make_trainer(replace(TWICE, steps=3)).last_step == 3
    assert make_trainer(replace(TWICE, steps=10_000)).last_step < 100


def test_a_straight_line_down_ends_with_the_last_epoch(make_trainer):
    recorder = Recorder()
    trainer = make_trainer(replace(TWICE, schedule="linear"), callback=recorder)
    trainer.run()

    steps = trainer.state.step
    fall = [0.01 * (steps + 1 - step) / (steps + 1 - 3) for step in range(3, steps + 1)]
    assert [each.learning_rate for each in recorder.updates[2:]] == pytest.approx(fall)


def test_one_more_epoch_resumes_where_the_last_ended(make_trainer, corpus):
    """Two epochs in updates of four, the last one smaller, and then a third."""
    first = make_trainer(replace(TWICE, accumulate=4))
    first.run()
    state, weights, optimizer = first.checkpoint_writer.saved[-1]
    longer = make_trainer(
        replace(TWICE, epochs=3, accumulate=4),
        state=state,
        weights=weights,
        optimizer=optimizer,
    )
    seen = count_pairs(longer)
    longer.run()

    assert seen == dict.fromkeys(range(len(corpus.train)), 1)
    assert longer.state.epoch == 3


@pytest.mark.parametrize(
    ("fewer", "said"),
    [
        ({"epochs": 1}, "12 updates are done, more than the 1 epoch asked for"),
        (
            {"epochs": None, "steps": 3},
            "12 updates are done, more than the 3 asked for",
        ),
        ({"epochs": 2}, "12 updates are done"),
        ({"epochs": 2, "steps": 3}, "12 updates are done, more than the 3 asked for"),
    ],
)
def test_a_run_resumed_with_fewer_than_it_has_made_says_so(make_trainer, fewer, said):
    """It went "up to 12 steps, 1 epoch at most", and ended as if that were so."""
    first = make_trainer(TWICE)
    first.run()
    state, weights, optimizer = first.checkpoint_writer.saved[-1]
    recorder = Recorder()
    again = make_trainer(
        replace(TWICE, **fewer),
        state=state,
        weights=weights,
        optimizer=optimizer,
        callback=recorder,
    )
    again.run()

    assert recorder.updates == []
    assert recorder.reason == said.replace("12", str(state.step))


def test_one_update_is_done():
    reason = steps_done_reason(TrainingSettings(), TrainingState(step=1), 1)

    assert reason == "1 update is done"


def test_the_count_is_the_same_from_wherever_a_run_stands(make_trainer):
    trainer = make_trainer(replace(TWICE, accumulate=1))
    order, first = trainer.order, trainer.order.num_batches(0)
    whole = epochs_to_steps(TWICE, order).steps

    for epoch, batch in ((0, 2), (0, first), (1, 0), (1, 1)):
        step = epoch * first + batch
        state = TrainingState(step=step, epoch=epoch, batch=batch)
        assert epochs_to_steps(TWICE, order, state).steps == whole


def test_steps_or_epochs_must_be_set():
    with pytest.raises(SettingsError, match="steps or epochs must say when"):
        TrainingSettings(steps=None)
    with pytest.raises(SettingsError, match="epochs must be 1 or more, not 0"):
        TrainingSettings(epochs=0)


class Nothing:
    """An order whose epochs take no pair."""

    def num_batches(self, epoch):
        return 0


def test_epochs_that_take_no_pair_are_refused():
    with pytest.raises(SettingsError, match="2 epochs take no training pair"):
        epochs_to_steps(TWICE, Nothing())
    begun = epochs_to_steps(TWICE, Nothing(), TrainingState(step=5, epoch=2))
    assert begun.steps == 5
