"""The trainer reduces the loss, is reproducible, and ends when it should."""

import math
from dataclasses import dataclass, field, replace

import pytest
import torch
from tests.training.conftest import (
    QUICK,
    SMALL,
    Recorder,
    assert_same_weights,
    weights_of,
)
from torch.nn import functional as F

from headwise.data.batches import make_batch
from headwise.errors import NumericsError
from headwise.text.vocabulary import PAD
from headwise.training.state import TrainingState


def test_the_loss_goes_down(make_trainer):
    recorder = Recorder()
    make_trainer(replace(QUICK, steps=40, validate_every=40), callback=recorder).run()

    assert sum(recorder.losses[-5:]) < 0.9 * sum(recorder.losses[:5])


def test_the_same_seed_gives_the_same_run_twice(make_trainer):
    first, second = Recorder(), Recorder()
    one, other = make_trainer(callback=first), make_trainer(callback=second)
    one.run()
    torch.rand(3)  # what others draw in between changes nothing
    other.run()

    assert first.losses == second.losses
    assert_same_weights(weights_of(one), weights_of(other))


def test_a_finished_run_that_is_started_again_tries_no_batch(make_trainer, monkeypatch):
    state = make_trainer().run()
    again = make_trainer(state=state)
    monkeypatch.setattr(again.gradients, "accumulate", lambda *_, **__: 1 / 0)

    assert again.run().step == state.step


def test_another_seed_gives_other_weights(make_trainer):
    first, second = Recorder(), Recorder()
    make_trainer(callback=first).run()
    make_trainer(seed=2, callback=second).run()

    assert first.losses != second.losses


def test_a_run_continues_over_the_end_of_an_epoch(make_trainer):
    recorder = Recorder()
    trainer = make_trainer(
        replace(QUICK, steps=60, batch_tokens=1024, validate_every=60),
        callback=recorder,
    )
    trainer.run()

    assert recorder.epoch_batches < 60
    assert trainer.state.epoch >= 60 // (recorder.epoch_batches + 2)
    assert trainer.state.step == 60


def test_two_batches_accumulated_are_one_update_over_their_tokens(make_trainer):
    """The gradient is that of the summed loss over the summed number of tokens."""
    settings = replace(QUICK, steps=1, accumulate=2, label_smoothing=0.0)
    config = replace(SMALL, dropout=0.0)
    trainer = make_trainer(settings, config=config)
    batches = list(trainer.order.batches(0))[:2]
    logits = [
        trainer.model(
            batch.source.padded(), batch.decoder_input.padded(), batch.source.is_real
        )
        for batch in batches
    ]
    losses = [
        F.cross_entropy(
            scores.flatten(0, 1),
            batch.target.padded().flatten(),
            ignore_index=PAD,
            reduction="sum",
        )
        for scores, batch in zip(logits, batches, strict=True)
    ]
    tokens = sum(int((batch.target.padded() != PAD).sum()) for batch in batches)
    expected = sum(losses) / tokens
    norm = torch.nn.utils.get_total_norm(
        torch.autograd.grad(expected, list(trainer.model.parameters()))
    )

    trainer.run()

    (update,) = trainer.callbacks[0].updates
    assert update.loss == pytest.approx(expected.item(), rel=1e-5)
    assert update.gradient_norm == pytest.approx(norm.item(), rel=1e-4)


def test_the_plain_objective_is_the_sum_over_one_sentence(make_trainer):
    """C = -Σ ln p(right word), a sentence as a batch, as the background notes have it.

    The gradient is that of the sum, so it is the number of words times as long as
    that of the mean.
    """
    plain = replace(QUICK, steps=1, objective="sum", label_smoothing=0.0, batch_pairs=1)
    config = replace(SMALL, dropout=0.0)
    summed, meant = Recorder(), Recorder()
    trainer = make_trainer(plain, config=config, callback=summed)
    (indices,) = [next(trainer.order.epoch(0))]
    batch = make_batch(trainer.corpus.train, indices)
    trainer.run()
    make_trainer(replace(plain, objective="mean"), config=config, callback=meant).run()

    assert len(indices) == 1
    ratio = summed.updates[0].gradient_norm / meant.updates[0].gradient_norm
    assert ratio == pytest.approx(batch.num_target_tokens, rel=1e-4)


def test_a_nan_stops_the_run_before_the_update(make_trainer):
    trainer = make_trainer()
    with torch.no_grad():
        trainer.model.target_embedding.vectors[7] = math.nan
    before = weights_of(trainer)
    trainer.settings = replace(QUICK, steps=200)

    with pytest.raises(NumericsError, match=r"update 1 .*no weight was changed"):
        trainer.run()

    assert trainer.checkpoint_writer.saved == []
    after = trainer.model.state_dict()
    assert all(
        torch.equal(before[name].nan_to_num(), after[name].nan_to_num())
        for name in before
    )


def test_a_clipped_gradient_moves_no_further_than_the_limit(make_trainer):
    recorder = Recorder()
    trainer = make_trainer(replace(QUICK, steps=1, clip_norm=1e-3), callback=recorder)
    trainer.run()

    norm = torch.nn.utils.get_total_norm(
        [parameter.grad for parameter in trainer.model.parameters()]
    )
    assert recorder.updates[0].gradient_norm > 1e-3  # what is reported is the true one
    assert norm.item() == pytest.approx(1e-3, rel=1e-3)


def test_validation_changes_no_weight_and_no_rng_state(make_trainer):
    often, rarely = Recorder(), Recorder()
    make_trainer(replace(QUICK, validate_every=1), callback=often).run()
    make_trainer(replace(QUICK, validate_every=6), callback=rarely).run()

    assert often.losses == rarely.losses
    assert len(often.validations) == 7  # six and the average of the last two
    assert len(rarely.validations) == 1


def test_the_best_model_is_stored_and_the_average_of_the_last_is_tried(make_trainer):
    recorder = Recorder()
    trainer = make_trainer(
        replace(QUICK, steps=9, measure="loss", average_last=3), callback=recorder
    )
    trainer.run()

    names = [name for name, _, _ in recorder.validations]
    values = [validation.loss for _, validation, _ in recorder.validations]
    assert names == ["now", "now", "now", "mean of the last 3 checkpoints"]
    _, weights, validation = trainer.checkpoint_writer.best[-1]
    assert validation.loss == min(values)
    if recorder.validations[-1][2]:
        last = trainer.checkpoint_writer.last_weights(3)
        name = next(iter(weights))
        mean = torch.stack([each[name] for each in last]).double().mean(0)
        torch.testing.assert_close(weights[name], mean.float())
    # The weights that training would continue with are still those of the last update.
    assert_same_weights(weights_of(trainer), trainer.checkpoint_writer.saved[-1][1])


def test_a_part_of_a_run_tries_no_average(make_trainer):
    """Its score would be what later validations of the whole run are compared with."""
    recorder = Recorder()
    make_trainer(replace(QUICK, steps=9), callback=recorder, until=6).run()

    assert [name for name, _, _ in recorder.validations] == ["now", "now"]


@dataclass
class StateRecorder(Recorder):
    """Notes what a stop signal would save while a callback of a validation runs."""

    states: list = field(default_factory=list)

    def on_validation(self, validation, state, name, best):
        assert self.trainer.state is state
        self.states.append((state.without_gain, state.averaged_step))


def test_the_state_is_complete_before_callbacks_hear_of_a_validation(make_trainer):
    """They may take long; a run that was stopped meanwhile lost count of patience."""
    recorder = StateRecorder()
    settings = replace(
        QUICK, validate_every=1, learning_rate=10.0, measure="loss", patience=9
    )
    recorder.trainer = make_trainer(settings, callback=recorder)
    recorder.trainer.run()

    *live, mean = recorder.states
    assert mean == (live[-1][0], 6)
    assert live[0] == (0, 0)
    assert live[-1][0] > 0
    assert recorder.trainer.checkpoint_writer.saved[-1][0].without_gain == mean[0]


def test_early_stopping_ends_training_without_improvement(make_trainer):
    recorder = Recorder()
    settings = replace(
        QUICK,
        steps=500,
        validate_every=1,
        patience=2,
        learning_rate=10.0,
        measure="loss",
        average_last=1,
    )
    trainer = make_trainer(settings, callback=recorder)
    trainer.run()

    assert trainer.state.step < 500
    assert recorder.reason == "2 validations brought no gain"


def test_the_time_limit_ends_training(make_trainer):
    recorder = Recorder()
    settings = replace(QUICK, steps=10**6, max_minutes=1e-9, average_last=1)
    trainer = make_trainer(settings, callback=recorder)
    trainer.run()

    assert trainer.state.step == 1  # so that there is a model at all
    assert "the time is over" in recorder.reason
    assert len(trainer.checkpoint_writer.best) == 1


def test_a_time_limit_that_is_exceeded_is_said_to_be_before_the_last_validation(
    make_trainer,
):
    """A limit of 2 s was exceeded by 20, and nothing was said until it was over."""
    recorder, said = Recorder(), []
    recorder.on_message = lambda text: said.append((text, len(recorder.validations)))
    settings = replace(QUICK, max_minutes=1e-9, validate_every=1, average_last=1)
    trainer = make_trainer(settings, callback=recorder)
    trainer.time_limit.overrun = lambda state: f"too late at {state.step}"
    trainer.run()

    assert said[-1] == ("too late at 1", 0)
    assert len(recorder.validations) == 1


def test_bf16_reduces_the_loss_and_keeps_weights_in_float32(make_trainer):
    recorder = Recorder()
    trainer = make_trainer(
        replace(QUICK, steps=30, validate_every=30, precision="bf16"), callback=recorder
    )
    trainer.run()

    assert sum(recorder.losses[-5:]) < sum(recorder.losses[:5])
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}


def test_the_state_counts_the_tokens_trained_on(make_trainer):
    recorder = Recorder()
    trainer = make_trainer(callback=recorder)
    final = trainer.run()

    assert isinstance(final, TrainingState)
    assert final.tokens == sum(update.tokens for update in recorder.updates)
    assert final.step == len(recorder.updates) == 6


def test_equal_scores_are_decided_by_the_loss(make_trainer):
    """BLEU is 0 for a while at first; the first validation would stay the best."""
    trainer = make_trainer(replace(QUICK, measure="exact-match", average_last=1))
    trainer.run()

    losses = [validation.loss for _, validation, _ in trainer.callbacks[0].validations]
    assert [v.value("exact-match") for _, _, v in trainer.checkpoint_writer.best] == [
        0.0,
        0.0,
    ]
    assert trainer.checkpoint_writer.best[-1][2].loss == min(losses)
