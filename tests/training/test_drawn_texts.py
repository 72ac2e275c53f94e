"""Training on texts that each epoch draws anew: the loss, and what memory is for."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.training.conftest import QUICK, assert_same_weights, weights_of

from headwise.data.batches import make_batch
from headwise.data.source_noise import NoiseSettings
from headwise.training.data_loader import planned_facts, training_order
from headwise.training.memory_estimate import MemoryEstimator

DRAWN = replace(QUICK, bpe_dropout=0.5)
BACKENDS = ("reference", "torch", "auto")


def test_rate_0_gives_the_weights_of_training_without_it(make_trainer):
    plain = make_trainer(QUICK)
    plain.run()
    none = make_trainer(
        replace(QUICK, bpe_dropout=0.0, source_noise=NoiseSettings(upper_case=0.0))
    )
    none.run()

    assert_same_weights(weights_of(plain), weights_of(none))


def test_drawn_texts_train_another_model(make_trainer):
    plain, drawn = make_trainer(QUICK), make_trainer(DRAWN)
    plain.run()
    drawn.run()

    name = "embeddings.target.vectors"
    assert not torch.equal(weights_of(plain)[name], weights_of(drawn)[name])


@pytest.mark.usefixtures("prefers_native_backend")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_loss_of_a_step_is_the_mean_over_the_tokens_that_were_drawn(
    make_trainer, backend
):
    settings = replace(DRAWN, backend=backend, label_smoothing=0.0, steps=1)
    trainer = make_trainer(settings)
    order = training_order(trainer.corpus, settings, seed=1)
    batch = order.make_batch(0, next(order.epoch(0)))
    assert batch.weight < 1
    whole = trainer.gradients.loss(replace(batch, weight=1.0), step=1, number=0)

    trainer.run()

    (update,) = trainer.callbacks[0].updates
    mean = whole.item() / batch.num_target_tokens
    assert update.loss == pytest.approx(mean, rel=1e-5)


@pytest.mark.usefixtures("prefers_native_backend")
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_have_the_weight_of_their_batch(make_trainer, corpus, backend):
    trainer = make_trainer(replace(QUICK, backend=backend))
    batch = make_batch(corpus.train, np.arange(20))

    def gradients(weight):
        trainer.gradients.accumulate(
            [(0, replace(batch, weight=weight))], step=1, divisor=7.0
        )
        return [each.grad.clone() for each in trainer.model.parameters()]

    for whole, half in zip(gradients(1.0), gradients(0.5), strict=True):
        torch.testing.assert_close(0.5 * whole, half)


def test_the_plain_sum_has_no_weights(corpus):
    settings = replace(DRAWN, objective="sum", label_smoothing=0.0)
    order = training_order(corpus, settings, seed=1)

    assert order.make_batch(0, np.arange(20)).weight == 1.0


def test_the_batch_tried_before_the_first_step_is_as_long_as_drawn_texts_may_be(
    make_trainer, monkeypatch
):
    trainer = make_trainer(DRAWN)
    tried = []
    monkeypatch.setattr(
        trainer.gradients, "accumulate", lambda batches, **_: tried.extend(batches)
    )
    trainer.try_largest_batch()

    ((_, batch),) = tried
    facts = planned_facts(trainer.corpus, trainer.order)
    assert batch.max_length == max(facts.longest) + 1
    assert max(facts.longest) > max(trainer.corpus.facts.train.longest)


def test_memory_is_estimated_for_texts_as_long_as_drawn_ones_may_be(make_trainer):
    trainer = make_trainer(DRAWN)
    seen = []
    trainer.gradients.accumulate = lambda batches, **_: seen.extend(batches)
    estimator = MemoryEstimator(
        trainer.task,
        trainer.model,
        trainer.corpus,
        DRAWN,
        trainer.gradients,
        future_copies=2,
    )
    estimator.estimate(validate=False)

    longest = max(batch.max_length for _, batch in seen)
    assert longest == max(planned_facts(trainer.corpus, trainer.order).longest) + 1


def test_the_loss_of_a_sum_is_by_the_tokens_that_were_drawn_too(make_trainer):
    """It was divided by those that are stored, of which there are fewer."""
    losses = {}
    for objective in ("mean", "sum"):
        settings = replace(DRAWN, objective=objective, steps=1, label_smoothing=0.0)
        trainer = make_trainer(settings)
        trainer.run()
        (update,) = trainer.callbacks[0].updates
        losses[objective] = update.loss

    assert losses["sum"] == pytest.approx(losses["mean"], rel=1e-5)
