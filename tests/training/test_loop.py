"""The loop learns, repeats itself exactly, and ends when and as it should."""

import math
import os
import signal
from dataclasses import replace

import pytest
import torch
from tests.training.conftest import QUICK, SMALL, Witness
from torch.nn import functional as F

from headwise.data.batches import make_batch
from headwise.errors import NumericsError, Stopped
from headwise.text.vocabulary import PAD
from headwise.training.loop import seed_chance
from headwise.training.signals import StopSignals
from headwise.training.state import TrainingState


def weights_of(trainer):
    return {name: t.clone() for name, t in trainer.model.state_dict().items()}


def assert_same_weights(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


def test_the_loss_goes_down(make_trainer):
    witness = Witness()
    make_trainer(replace(QUICK, steps=40, validate_every=40), watcher=witness).run()

    assert sum(witness.losses[-5:]) < 0.9 * sum(witness.losses[:5])


def test_the_same_seed_gives_the_same_run_twice(make_trainer):
    first, second = Witness(), Witness()
    one, other = make_trainer(watcher=first), make_trainer(watcher=second)
    one.run()
    torch.rand(3)  # what others draw in between changes nothing
    other.run()

    assert first.losses == second.losses
    assert_same_weights(weights_of(one), weights_of(other))


def test_another_seed_gives_another_run(make_trainer):
    first, second = Witness(), Witness()
    make_trainer(watcher=first).run()
    make_trainer(seed=2, watcher=second).run()

    assert first.losses != second.losses


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("cut", [1, 3, 4])
def test_an_interrupted_run_is_the_same_run_bit_for_bit(make_trainer, cut, accumulate):
    settings = replace(QUICK, accumulate=accumulate)
    whole, rest = Witness(), Witness()
    uninterrupted = make_trainer(settings, watcher=whole)
    uninterrupted.run()
    make_part = make_trainer(replace(settings, steps=cut, average_last=1))
    make_part.run()
    state, weights, optimizer = make_part.keeper.saved[-1]

    resumed = make_trainer(
        settings, state=state, weights=weights, optimizer=optimizer, watcher=rest
    )
    resumed.run()

    assert rest.losses == whole.losses[cut:]
    assert_same_weights(weights_of(uninterrupted), weights_of(resumed))


def test_a_run_goes_on_over_the_end_of_an_epoch(make_trainer):
    witness = Witness()
    trainer = make_trainer(
        replace(QUICK, steps=60, batch_tokens=1024, validate_every=60), watcher=witness
    )
    trainer.run()

    assert witness.epoch_batches < 60
    assert trainer.state.epoch >= 60 // (witness.epoch_batches + 2)
    assert trainer.state.step == 60


def test_two_batches_accumulated_are_one_update_over_their_tokens(make_trainer):
    """The gradient is that of the summed loss over the summed number of tokens."""
    settings = replace(QUICK, steps=1, accumulate=2, label_smoothing=0.0)
    config = replace(SMALL, dropout=0.0)
    trainer = make_trainer(settings, config=config)
    batches = list(trainer.order.batches(0))[:2]
    logits = [
        trainer.model(batch.source, batch.target_in, batch.source != PAD)
        for batch in batches
    ]
    losses = [
        F.cross_entropy(
            scores.flatten(0, 1),
            batch.target_out.flatten(),
            ignore_index=PAD,
            reduction="sum",
        )
        for scores, batch in zip(logits, batches, strict=True)
    ]
    tokens = sum(int((batch.target_out != PAD).sum()) for batch in batches)
    expected = sum(losses) / tokens
    norm = torch.nn.utils.get_total_norm(
        torch.autograd.grad(expected, list(trainer.model.parameters()))
    )

    trainer.run()

    (update,) = trainer.watchers[0].updates
    assert update.loss == pytest.approx(expected.item(), rel=1e-5)
    assert update.gradient_norm == pytest.approx(norm.item(), rel=1e-4)


def test_the_plain_objective_is_the_sum_over_one_sentence(make_trainer):
    """C = -Σ ln p(right word), a sentence as a batch, as the background notes have it.

    The gradient is that of the sum, so it is the number of words times as long as
    that of the mean.
    """
    plain = replace(QUICK, steps=1, objective="sum", label_smoothing=0.0, batch_pairs=1)
    config = replace(SMALL, dropout=0.0)
    summed, meant = Witness(), Witness()
    trainer = make_trainer(plain, config=config, watcher=summed)
    (indices,) = [next(trainer.order.epoch(0))]
    batch = make_batch(trainer.corpus.train, indices)
    trainer.run()
    make_trainer(replace(plain, objective="mean"), config=config, watcher=meant).run()

    assert len(indices) == 1
    ratio = summed.updates[0].gradient_norm / meant.updates[0].gradient_norm
    assert ratio == pytest.approx(batch.num_target_tokens, rel=1e-4)


def test_a_number_that_is_not_finite_stops_the_run_before_it_does_harm(make_trainer):
    trainer = make_trainer()
    with torch.no_grad():
        trainer.model.target_embedding.vectors[7] = math.nan
    before = weights_of(trainer)
    trainer.settings = replace(QUICK, steps=200)

    with pytest.raises(NumericsError, match=r"update 1 .*no weight was changed"):
        trainer.run()

    assert trainer.keeper.saved == []
    after = trainer.model.state_dict()
    assert all(
        torch.equal(before[name].nan_to_num(), after[name].nan_to_num())
        for name in before
    )


def test_a_clipped_gradient_moves_no_further_than_the_limit(make_trainer):
    witness = Witness()
    trainer = make_trainer(replace(QUICK, steps=1, clip_norm=1e-3), watcher=witness)
    trainer.run()

    norm = torch.nn.utils.get_total_norm(
        [parameter.grad for parameter in trainer.model.parameters()]
    )
    assert witness.updates[0].gradient_norm > 1e-3  # what is reported is the true one
    assert norm.item() == pytest.approx(1e-3, rel=1e-3)


def test_validation_changes_no_weight_and_draws_no_chance(make_trainer):
    often, rarely = Witness(), Witness()
    make_trainer(replace(QUICK, validate_every=1), watcher=often).run()
    make_trainer(replace(QUICK, validate_every=6), watcher=rarely).run()

    assert often.losses == rarely.losses
    assert len(often.validations) == 7  # six and the mean of the last two
    assert len(rarely.validations) == 1


def test_the_best_model_is_kept_and_the_mean_of_the_last_is_tried(make_trainer):
    witness = Witness()
    trainer = make_trainer(
        replace(QUICK, steps=9, measure="loss", average_last=3), watcher=witness
    )
    trainer.run()

    names = [name for name, _, _ in witness.validations]
    values = [validation.loss for _, validation, _ in witness.validations]
    assert names == ["now", "now", "now", "mean of the last 3 checkpoints"]
    _, weights, validation = trainer.keeper.best[-1]
    assert validation.loss == min(values)
    if witness.validations[-1][2]:
        last = trainer.keeper.last_weights(3)
        name = next(iter(weights))
        mean = torch.stack([each[name] for each in last]).double().mean(0)
        torch.testing.assert_close(weights[name], mean.float())
    # The weights that training would go on with are still those of the last update.
    assert_same_weights(weights_of(trainer), trainer.keeper.saved[-1][1])


def test_training_ends_when_there_is_no_gain(make_trainer):
    witness = Witness()
    settings = replace(
        QUICK,
        steps=500,
        validate_every=1,
        patience=2,
        learning_rate=10.0,
        measure="loss",
        average_last=1,
    )
    trainer = make_trainer(settings, watcher=witness)
    trainer.run()

    assert trainer.state.step < 500
    assert witness.reason == "2 validations brought no gain"


def test_training_ends_when_the_time_is_over(make_trainer):
    witness = Witness()
    settings = replace(QUICK, steps=10**6, max_minutes=1e-9, average_last=1)
    trainer = make_trainer(settings, watcher=witness)
    trainer.run()

    assert trainer.state.step == 1  # so that there is a model at all
    assert "minutes are over" in witness.reason
    assert len(trainer.keeper.best) == 1


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, Stopped), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_stop_signal_saves_and_the_run_goes_on_from_there(
    make_trainer, number, error
):
    class Stopper(Witness):
        def updated(self, update, state):
            super().updated(update, state)
            if state.step == 2:
                os.kill(os.getpid(), number)

    whole = Witness()
    make_trainer(watcher=whole).run()
    with StopSignals() as signals:
        trainer = make_trainer(watcher=Stopper(), signals=signals)
        with pytest.raises(error):
            trainer.run()
    state, weights, optimizer = trainer.keeper.saved[-1]
    rest = Witness()
    make_trainer(state=state, weights=weights, optimizer=optimizer, watcher=rest).run()

    assert state.step == 2
    assert rest.losses == whole.losses[2:]


def test_a_stop_during_validation_does_the_validation_again(make_trainer):
    """The checkpoint of the stop is of step 3, but step 3 was not yet looked at."""

    class Stopper(Witness):
        def updated(self, update, state):
            super().updated(update, state)
            if state.step == 3:
                signals.received = signal.SIGTERM

    with StopSignals() as signals:
        trainer = make_trainer(watcher=Stopper(), signals=signals)
        with pytest.raises(Stopped):
            trainer.run()
    state, weights, optimizer = trainer.keeper.saved[-1]
    rest = Witness()
    make_trainer(state=state, weights=weights, optimizer=optimizer, watcher=rest).run()

    assert (state.step, state.validated_step) == (3, 0)
    assert len(rest.validations) == 3  # steps 3 and 6, and the mean


def test_chance_is_a_function_of_seed_and_step():
    draws = []
    for seed, step in [(1, 5), (1, 5), (1, 6), (2, 5)]:
        seed_chance(seed, step)
        draws.append(torch.rand(1).item())

    assert draws[0] == draws[1]
    assert len(set(draws)) == 3


def test_bf16_learns_too_and_keeps_its_weights_in_float32(make_trainer):
    witness = Witness()
    trainer = make_trainer(
        replace(QUICK, steps=30, validate_every=30, precision="bf16"), watcher=witness
    )
    trainer.run()

    assert sum(witness.losses[-5:]) < sum(witness.losses[:5])
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}


def test_the_state_counts_what_was_learned_from(make_trainer):
    witness = Witness()
    trainer = make_trainer(watcher=witness)
    final = trainer.run()

    assert isinstance(final, TrainingState)
    assert final.tokens == sum(update.tokens for update in witness.updates)
    assert final.step == len(witness.updates) == 6


def test_a_stop_before_the_first_update_leaves_no_empty_checkpoint(make_trainer):
    """Such a one had no optimizer state, and the run could not go on from it."""
    signals = StopSignals()
    signals.received = signal.SIGTERM
    trainer = make_trainer(signals=signals)

    with pytest.raises(Stopped):
        trainer.run()

    assert trainer.keeper.saved == []


def test_an_impatient_interruption_saves_nothing_half_done(make_trainer):
    """A second Ctrl-C can come between the new weights and their step number."""

    class Impatient(Witness):
        def updated(self, update, state):
            raise KeyboardInterrupt

    trainer = make_trainer(watcher=Impatient())
    with pytest.raises(KeyboardInterrupt):
        trainer.run()

    assert trainer.keeper.saved == []


def test_a_finished_run_that_is_run_again_does_nothing_twice(make_trainer):
    trainer = make_trainer()
    trainer.run()
    state, weights, optimizer = trainer.keeper.saved[-1]
    again = Witness()
    resumed = make_trainer(
        state=state, weights=weights, optimizer=optimizer, watcher=again
    )
    final = resumed.run()

    assert again.updates == again.validations == []
    assert resumed.keeper.saved == resumed.keeper.best == []
    assert final == state


def test_a_longer_run_never_puts_a_worse_model_over_the_best(make_trainer):
    """The mean was best; what was learned later must beat the mean, not its parts."""
    settings = replace(QUICK, measure="loss", learning_rate=0.1)
    trainer = make_trainer(settings)
    trainer.run()
    state, weights, optimizer = trainer.keeper.saved[-1]
    best = trainer.keeper.best[-1][2].loss
    longer = make_trainer(
        replace(settings, steps=12),
        state=state,
        weights=weights,
        optimizer=optimizer,
    )
    longer.run()

    assert state.best_value == best
    assert all(validation.loss < best for _, _, validation in longer.keeper.best)


def test_the_look_at_the_mean_takes_no_patience(make_trainer):
    """A run that ended for want of gain stays ended, also if its mean was better."""
    settings = replace(
        QUICK, steps=500, validate_every=1, patience=2, learning_rate=10.0
    )
    trainer = make_trainer(replace(settings, measure="loss"))
    trainer.run()
    state, weights, optimizer = trainer.keeper.saved[-1]
    again = Witness()
    make_trainer(
        replace(settings, measure="loss"),
        state=state,
        weights=weights,
        optimizer=optimizer,
        watcher=again,
    ).run()

    assert state.without_gain == 2
    assert again.updates == []


def test_of_models_that_score_the_same_the_likelier_is_kept(make_trainer):
    """BLEU is 0 for a while at first; the first look would stay the best."""
    trainer = make_trainer(replace(QUICK, measure="exact-match", average_last=1))
    trainer.run()

    losses = [validation.loss for _, validation, _ in trainer.watchers[0].validations]
    assert [v.value("exact-match") for _, _, v in trainer.keeper.best] == [0.0, 0.0]
    assert trainer.keeper.best[-1][2].loss == min(losses)


def test_a_stop_signal_need_not_wait_for_all_batches_of_an_update(make_trainer):
    """With many batches an update they may take minutes."""
    whole, rest = Witness(), Witness()
    settings = replace(QUICK, accumulate=3)
    make_trainer(settings, watcher=whole).run()
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
    state, weights, optimizer = trainer.keeper.saved[-1]
    make_trainer(
        settings, state=state, weights=weights, optimizer=optimizer, watcher=rest
    ).run()

    assert state.step == 1
    assert rest.losses == whole.losses[1:]
