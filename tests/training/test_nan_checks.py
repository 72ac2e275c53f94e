"""NaN and Inf are found where they arise, and never applied or saved."""

import math
from dataclasses import replace

import pytest
import torch
from tests.training.conftest import (
    QUICK,
    Recorder,
    assert_same_weights,
    weights_of,
)
from torch import nn

from headwise.errors import NumericsError, Stopped
from headwise.training.callbacks import StepMetrics
from headwise.training.nan_checks import (
    MAX_SKIPPED_IN_A_ROW,
    DivergenceDetector,
    check_finite,
    first_non_finite,
)

SKIPPING = replace(QUICK, not_finite="skip", backend="torch")


class MessageRecorder(Recorder):
    """A recorder that may be spoken to."""

    def on_message(self, text):
        self.said = [*getattr(self, "said", []), text]


def spoil(trainer, *steps):
    """Let what the feed-forward of the encoder gives be infinite in some updates."""

    def spoiled(module, inputs, output):
        wanted = trainer.state.step + 1 in steps and module.training
        return output * math.inf if wanted else output

    box = trainer.model.encoder.blocks[0].feed_forward
    box.register_forward_hook(spoiled)


def test_a_run_that_may_not_skip_stops_and_names_tensor_batch_and_pairs(make_trainer):
    trainer = make_trainer()
    spoil(trainer, 2)

    with pytest.raises(NumericsError) as caught:
        trainer.run()

    message = str(caught.value)
    assert "update 2" in message
    assert "the output of encoder.blocks.0.feed_forward" in message
    assert "batch 1 of the update (pairs " in message
    assert "not_finite = 'skip'" in message
    assert trainer.checkpoint_writer.saved == []


@pytest.mark.usefixtures("uses_native_backend")
def test_kernels_in_c_notice_a_nan_in_a_weight(make_trainer):
    """Nobody hooks into a box here, so that they do the work."""
    trainer = make_trainer()
    with torch.no_grad():
        trainer.model.decoder.blocks[0].feed_forward.widen.weight[0, 0] = math.nan

    with pytest.raises(NumericsError) as caught:
        trainer.run()

    assert "native library " in trainer.gradients.trained_on
    assert "the weight decoder.blocks.0.feed_forward.widen.weight" in str(caught.value)
    assert trainer.checkpoint_writer.saved == []


def test_a_skipped_update_changes_no_weight_and_is_reported(make_trainer):
    recorder = MessageRecorder()
    trainer = make_trainer(SKIPPING, callback=recorder)
    spoil(trainer, 2, 3)
    seen = []
    commit = trainer._report
    trainer._report = lambda update: (seen.append(weights_of(trainer)), commit(update))
    trainer.run()

    assert [update.step for update in recorder.updates] == [1, 4, 5, 6]
    assert trainer.state.skipped == 2
    assert trainer.state.skipped_in_a_row == 0
    assert len(recorder.said) == 2
    assert all("The update is skipped" in text for text in recorder.said)
    assert all(math.isfinite(update.loss) for update in recorder.updates)


def test_adam_counts_only_the_updates_that_were_made(make_trainer):
    trainer = make_trainer(SKIPPING, callback=MessageRecorder())
    spoil(trainer, 2)
    trainer.run()
    _, _, optimizer = trainer.checkpoint_writer.saved[-1]

    assert optimizer["updates"].item() == 5


def test_a_run_with_a_skipped_update_resumes_bit_for_bit(make_trainer):
    uncut = make_trainer(SKIPPING, callback=MessageRecorder())
    spoil(uncut, 2)
    uncut.run()
    first = make_trainer(SKIPPING, callback=MessageRecorder(), until=3)
    spoil(first, 2)
    first.run()
    state, weights, optimizer = first.checkpoint_writer.saved[-1]

    second = make_trainer(SKIPPING, state=state, weights=weights, optimizer=optimizer)
    second.run()

    assert_same_weights(weights_of(uncut), weights_of(second))


def test_a_run_whose_updates_were_all_skipped_resumes(make_trainer):
    first = make_trainer(SKIPPING, callback=MessageRecorder(), until=3)
    spoil(first, 1, 2, 3)
    first.run()
    state, weights, optimizer = first.checkpoint_writer.saved[-1]
    assert optimizer["updates"].item() == 0

    second = make_trainer(SKIPPING, state=state, weights=weights, optimizer=optimizer)

    assert second.run().step == SKIPPING.steps


def test_nothing_but_skipped_updates_ends_the_run(make_trainer):
    settings = replace(SKIPPING, steps=500, validate_every=500)
    trainer = make_trainer(settings, callback=MessageRecorder())
    spoil(trainer, *range(2, 500))

    with pytest.raises(
        NumericsError, match=f"There were {MAX_SKIPPED_IN_A_ROW} such updates in a row"
    ):
        trainer.run()

    assert trainer.state.step == MAX_SKIPPED_IN_A_ROW


def test_weights_that_are_not_finite_are_never_saved():
    with pytest.raises(NumericsError, match=r"weight b is not finite.*not saved"):
        check_finite({"a": torch.ones(2), "b": torch.tensor([1.0, math.nan])}, 7)


def test_a_run_that_is_stopped_with_such_weights_saves_no_checkpoint(make_trainer):
    recorder = Recorder()
    trainer = make_trainer(callback=recorder)

    def spoil_and_stop(update, state):
        next(trainer.model.parameters()).data.fill_(math.inf)
        raise Stopped("stopped")

    recorder.on_step = spoil_and_stop
    with pytest.raises(NumericsError, match="not finite after update 1"):
        trainer.run()

    assert trainer.checkpoint_writer.saved == []


@pytest.mark.parametrize(
    ("spoilt", "name"),
    [
        ("weight", "the weight 0.weight"),
        ("output", "the output of 1"),
        ("loss", "the loss"),
        ("gradient", "the gradient of 0.weight"),
        (None, None),
    ],
)
def test_the_first_tensor_that_is_not_finite_is_named(spoilt, name):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Identity())
    if spoilt == "weight":
        model[0].weight.data[0, 0] = math.nan
    if spoilt == "output":
        model[1].forward = lambda x: x * math.inf

    def loss():
        out = model(torch.ones(1, 2)).sum()
        if spoilt == "gradient":  # the root has an infinite slope at 0
            return (out * 0.0).abs().sqrt()
        return out * math.nan if spoilt == "loss" else out

    assert first_non_finite(model, loss) == name


def warnings_of(losses):
    divergence = DivergenceDetector()
    updates = (
        StepMetrics(
            step=step,
            loss=loss,
            learning_rate=0.1,
            gradient_norm=2.0,
            tokens=1,
            seconds=1,
        )
        for step, loss in enumerate(losses, start=1)
    )
    return [text for update in updates if (text := divergence.warning_after(update))]


def test_a_loss_that_falls_and_swings_is_no_divergence():
    falling = [
        8.0 * 0.99**step + 2.0 + 0.4 * math.sin(7 * step) for step in range(1000)
    ]

    assert warnings_of(falling) == []


def test_one_bad_batch_is_no_divergence():
    assert warnings_of([3.0] * 200 + [20.0] + [3.0] * 200) == []


def test_a_loss_that_rises_and_stays_is_warned_of_once_with_what_to_change():
    (text,) = warnings_of([3.0] * 200 + [5.0] * 300)

    assert "was 3.00 around update" in text
    assert "training.learning_rate" in text
    assert "training.clip_norm" in text
