"""A run that is stopped, killed, resumed or made longer loses nothing."""

import os
import signal
from dataclasses import replace

import pytest
from tests.training.conftest import QUICK, Recorder, assert_same_weights, weights_of

from headwise.errors import Stopped
from headwise.training.signals import StopSignals


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("cut", [1, 3, 4])
def test_an_interrupted_run_is_the_same_run_bit_for_bit(make_trainer, cut, accumulate):
    settings = replace(QUICK, accumulate=accumulate)
    whole, rest = Recorder(), Recorder()
    uninterrupted = make_trainer(settings, callback=whole)
    uninterrupted.run()
    make_part = make_trainer(replace(settings, steps=cut, average_last=1))
    make_part.run()
    state, weights, optimizer = make_part.checkpoint_writer.saved[-1]

    resumed = make_trainer(
        settings, state=state, weights=weights, optimizer=optimizer, callback=rest
    )
    resumed.run()

    assert rest.losses == whole.losses[cut:]
    assert_same_weights(weights_of(uninterrupted), weights_of(resumed))


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, Stopped), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_stop_signal_saves_and_the_run_resumes_from_there(
    make_trainer, number, error
):
    class Stopper(Recorder):
        def on_step(self, update, state):
            super().on_step(update, state)
            if state.step == 2:
                os.kill(os.getpid(), number)

    whole = Recorder()
    make_trainer(callback=whole).run()
    with StopSignals() as signals:
        trainer = make_trainer(callback=Stopper(), signals=signals)
        with pytest.raises(error):
            trainer.run()
    state, weights, optimizer = trainer.checkpoint_writer.saved[-1]
    rest = Recorder()
    make_trainer(state=state, weights=weights, optimizer=optimizer, callback=rest).run()

    assert state.step == 2
    assert rest.losses == whole.losses[2:]


def test_a_stop_during_validation_does_the_validation_again(make_trainer):
    """The checkpoint of the stop is of step 3, but step 3 was not yet validated."""

    class Stopper(Recorder):
        def on_step(self, update, state):
            super().on_step(update, state)
            if state.step == 3:
                signals.received = signal.SIGTERM

    with StopSignals() as signals:
        trainer = make_trainer(callback=Stopper(), signals=signals)
        with pytest.raises(Stopped):
            trainer.run()
    state, weights, optimizer = trainer.checkpoint_writer.saved[-1]
    rest = Recorder()
    make_trainer(state=state, weights=weights, optimizer=optimizer, callback=rest).run()

    assert (state.step, state.validated_step) == (3, 0)
    assert len(rest.validations) == 3  # steps 3 and 6, and the mean


def test_a_stop_before_the_first_update_leaves_no_empty_checkpoint(make_trainer):
    """Such a one had no optimizer state, and the run could not resume from it."""
    signals = StopSignals()
    signals.received = signal.SIGTERM
    trainer = make_trainer(signals=signals)

    with pytest.raises(Stopped):
        trainer.run()

    assert trainer.checkpoint_writer.saved == []


def test_an_impatient_interruption_saves_nothing_half_done(make_trainer):
    """A second Ctrl-C can come between the new weights and their step number."""

    class Impatient(Recorder):
        def on_step(self, update, state):
            raise KeyboardInterrupt

    trainer = make_trainer(callback=Impatient())
    with pytest.raises(KeyboardInterrupt):
        trainer.run()

    assert trainer.checkpoint_writer.saved == []


def test_a_finished_run_that_is_run_again_does_nothing_twice(make_trainer):
    trainer = make_trainer()
    trainer.run()
    state, weights, optimizer = trainer.checkpoint_writer.saved[-1]
    again = Recorder()
    resumed = make_trainer(
        state=state, weights=weights, optimizer=optimizer, callback=again
    )
    final = resumed.run()

    assert again.updates == again.validations == []
    assert resumed.checkpoint_writer.saved == resumed.checkpoint_writer.best == []
    assert final == state


def test_a_longer_run_never_puts_a_worse_model_over_the_best(make_trainer):
    """The average was best; later models must beat the average, not its checkpoints."""
    settings = replace(QUICK, measure="loss", learning_rate=0.1)
    trainer = make_trainer(settings)
    trainer.run()
    state, weights, optimizer = trainer.checkpoint_writer.saved[-1]
    best = trainer.checkpoint_writer.best[-1][2].loss
    longer = make_trainer(
        replace(settings, steps=12),
        state=state,
        weights=weights,
        optimizer=optimizer,
    )
    longer.run()

    assert state.best_value == best
    assert all(
        validation.loss < best for _, _, validation in longer.checkpoint_writer.best
    )


def test_validating_the_average_costs_no_patience(make_trainer):
    """A run that ended for want of gain stays ended, also if its mean was better."""
    settings = replace(
        QUICK, steps=500, validate_every=1, patience=2, learning_rate=10.0
    )
    trainer = make_trainer(replace(settings, measure="loss"))
    trainer.run()
    state, weights, optimizer = trainer.checkpoint_writer.saved[-1]
    again = Recorder()
    make_trainer(
        replace(settings, measure="loss"),
        state=state,
        weights=weights,
        optimizer=optimizer,
        callback=again,
    ).run()

    assert state.without_gain == 2
    assert again.updates == []


def test_a_stop_signal_need_not_wait_for_all_batches_of_an_update(make_trainer):
    """With many batches an update they may take minutes."""
    whole, rest = Recorder(), Recorder()
    settings = replace(QUICK, accumulate=3)
    make_trainer(settings, callback=whole).run()
    signals = StopSignals()
    trainer = make_trainer(settings, signals=signals)
    asked = []

    def check():
        asked.append(1)
        if len(asked) == 5:  # in the second update
            raise Stopped("now")

    signals.check = check
    with pytest.raises(Stopped):
        trainer.run()
    state, weights, optimizer = trainer.checkpoint_writer.saved[-1]
    make_trainer(
        settings, state=state, weights=weights, optimizer=optimizer, callback=rest
    ).run()

    assert state.step == 1
    assert rest.losses == whole.losses[1:]


def test_what_is_saved_already_is_not_saved_again(make_trainer):
    """A stop signal may come right after a checkpoint of a large model."""
    trainer = make_trainer()
    trainer.run()
    saved = len(trainer.checkpoint_writer.saved)
    trainer._save()

    assert len(trainer.checkpoint_writer.saved) == saved
