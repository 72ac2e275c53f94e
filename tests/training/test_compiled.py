"""A run with torch.compile equals the reference, and compiles only once."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training.conftest import (
    QUICK,
    SMALL,
    Recorder,
    assert_same_weights,
    weights_of,
)
from tests.training.test_nan_checks import MessageRecorder

from headwise.backends.cuda.cuda_graph_training import CudaGraphTraining
from headwise.data.batches import make_batch
from headwise.errors import NumericsError, SettingsError
from headwise.training.settings import TrainingSettings

CHILD = Path(__file__).with_name("compiling.py")
COMPILED = replace(QUICK, backend="torch_compile")


@pytest.fixture(scope="module")
def both(corpus):
    """Return what ``compiling.py`` prints: twelve updates, three validations."""
    return trained_both_ways(corpus, "cpu", "aot_eager")


def trained_both_ways(corpus, device, backend):
    done = subprocess.run(
        [sys.executable, str(CHILD), str(corpus.folder), device, backend],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_epoch_is_compiled_at_its_beginning_and_never_again(both):
    """A block of the encoder, one of the decoder, a piece of the loss.

    The child ends with an error if anything is compiled for a second time.
    """
    assert both["epochs"] >= 1
    assert both["graphs"] == 3


def test_torch_compile_gives_the_losses_of_the_reference(both):
    assert both["compiled"] == pytest.approx(both["readable"], rel=1e-5)
    assert both["compiled"][-1] < 0.7 * both["compiled"][0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_learns_the_same_compiled_once_and_with_async_metrics(corpus):
    found = trained_both_ways(corpus, "cuda", "inductor")

    assert found["async_metrics"]
    assert found["graphs"] == 3
    assert found["compiled"] == pytest.approx(found["readable"], rel=1e-3)


@pytest.fixture
def make_uncompiled(make_trainer):
    """Return a function that makes a trainer and calls what it would compile."""

    def make(settings=COMPILED, **others):
        trainer = make_trainer(settings, **others)
        trainer.gradients._runner.torch_compile.is_compiled = False
        return trainer

    return make


def test_a_batch_that_does_not_fit_is_run_in_smaller_rows(make_uncompiled, monkeypatch):
    still = replace(SMALL, dropout=0.0)
    settings = replace(COMPILED, batch_tokens=1024)
    trainer = make_uncompiled(settings, config=still, callback=MessageRecorder())
    batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))
    loss = trainer.gradients.accumulate([(0, batch)], step=1, divisor=7.0)
    expected = [each.grad.clone() for each in trainer.model.parameters()]
    runner = trainer.gradients._runner
    whole = runner.torch_compile.loss

    def failing(model, rows, *, smoothing):
        if rows.padded_tokens > 300:
            raise MemoryError
        return whole(model, rows, smoothing=smoothing)

    monkeypatch.setattr(runner.torch_compile, "loss", failing)
    again = trainer.gradients.accumulate([(0, batch)], step=1, divisor=7.0)

    assert again.loss == pytest.approx(loss.loss, rel=1e-6)
    for parameter, gradient in zip(trainer.model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-6)
    assert len(trainer.callbacks[0].said) == 2  # 512 places, then 256


def test_nan_checks_find_the_tensor_in_compiled_blocks_too(make_uncompiled):
    trainer = make_uncompiled()
    runner = trainer.gradients._runner
    runner.torch_compile.is_compiled = True
    batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))
    with torch.no_grad():
        trainer.model.encoder.blocks[0].feed_forward.widen.bias.fill_(3e38)
        trainer.model.encoder.blocks[0].feed_forward.narrow.weight.fill_(3e38)

    found = trainer.gradients.locate_non_finite([(0, batch)], step=1)

    assert "the output of encoder.blocks.0.feed_forward" in found
    assert runner.torch_compile.is_compiled


def test_settings_that_cannot_be_compiled_are_refused_together():
    with pytest.raises(SettingsError) as caught:
        TrainingSettings(
            backend="torch_compile", batch_pairs=3, processes=2, devices="shard"
        )

    assert len(caught.value.problems) == 3
    assert all("backend = 'torch_compile'" in each for each in caught.value.problems)
    TrainingSettings(backend="torch_compile", processes=1)


def hurrying(trainer):
    """Let numbers be asked for only when the next update is under way."""
    trainer.gradients._runner.async_metrics = True
    return trainer


@pytest.mark.parametrize("ema_decay", [None, 0.9])
def test_a_run_with_async_metrics_is_the_same_run(make_uncompiled, ema_decay):
    settings = replace(COMPILED, steps=7, clip_norm=1.0, ema_decay=ema_decay)
    calm, hurried = Recorder(), Recorder()
    expected = make_uncompiled(settings, callback=calm)
    expected.run()
    found = hurrying(make_uncompiled(settings, callback=hurried))
    found.run()

    assert_same_weights(weights_of(found), weights_of(expected))
    assert [update.step for update in hurried.updates] == list(range(1, 8))
    for one, other in zip(hurried.updates, calm.updates, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-6)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-6)
        assert (one.tokens, one.learning_rate) == (other.tokens, other.learning_rate)
        assert one.seconds > 0
    assert hurried.validations == calm.validations
    assert [state.step for state, *_ in found.checkpoint_writer.saved] == [3, 6, 7, 7]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_run_over_static_buffers_is_the_same_run(make_uncompiled, accumulate):
    settings = replace(COMPILED, steps=5, clip_norm=1.0, accumulate=accumulate)
    expected = make_uncompiled(settings)
    expected.run()
    found = make_uncompiled(settings)
    runner = found.gradients._runner
    runner.cuda_graphs = CudaGraphTraining(found.model, runner._packed_loss)
    found.run()

    assert_same_weights(weights_of(found), weights_of(expected))


def test_graphs_are_released_before_a_batch_is_run_in_smaller_rows(
    make_uncompiled, monkeypatch
):
    settings = replace(COMPILED, batch_tokens=1024)
    trainer = make_uncompiled(settings, callback=MessageRecorder())
    runner = trainer.gradients._runner
    runner.cuda_graphs = CudaGraphTraining(trainer.model, runner._packed_loss)
    released, whole = [], runner.torch_compile.loss

    def failing(model, rows, *, smoothing):
        if rows.padded_tokens > 600:
            raise MemoryError
        return whole(model, rows, smoothing=smoothing)

    monkeypatch.setattr(runner.torch_compile, "loss", failing)
    monkeypatch.setattr(runner.cuda_graphs, "release", lambda: released.append(True))
    batch = make_batch(trainer.corpus.train, next(trainer.order.epoch(0)))

    trainer.gradients.accumulate([(0, batch)], step=1, divisor=7.0)

    assert released == [True]
    assert all(each.grad.abs().sum() > 0 for each in trainer.model.parameters())


def test_with_async_metrics_the_next_step_begins_before_the_last_is_reported(
    make_uncompiled,
):
    recorder = Recorder()
    trainer = hurrying(make_uncompiled(callback=recorder))
    accumulate, reported = trainer.gradients.accumulate, []

    def noting(*batches, **how):
        reported.append(len(recorder.updates))
        return accumulate(*batches, **how)

    trainer.gradients.accumulate = noting
    trainer.run()

    # The trial of the largest batch, then updates 1 to 6; each third is validated.
    assert reported == [0, 0, 0, 1, 3, 3, 4]


def test_with_async_metrics_no_update_follows_a_nan(make_uncompiled):
    """The second update is under way when that of the first is found out."""
    trainer = hurrying(make_uncompiled())
    poisoned = trainer.gradients.clip

    def poisoning():
        trainer.model.decoder.blocks[0].feed_forward.widen.bias.grad[3] = math.nan
        return poisoned()

    trainer.gradients.clip = poisoning
    before = weights_of(trainer)

    with pytest.raises(
        NumericsError, match=r"update 1 has loss .*no weight was changed"
    ):
        trainer.run()

    assert_same_weights(weights_of(trainer), before)
    assert trainer.checkpoint_writer.saved == []
    assert trainer.callbacks[0].updates == []
    steps = [state["step"].item() for state in trainer.optimizer.adam.state.values()]
    assert set(steps) == {0.0}
