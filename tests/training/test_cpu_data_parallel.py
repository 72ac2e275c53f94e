"""CPU data-parallel workers, each with a part of every batch, give the same sum."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benchmarks.process_memory import held
from hypothesis import given
from hypothesis import strategies as st
from tests.processes import is_gone
from tests.training.conftest import QUICK, SMALL
from tests.training.test_nan_checks import MessageRecorder

from headwise.data.batches import make_batch
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.errors import ResourceError
from headwise.training import cpu_data_parallel
from headwise.training.cpu_data_parallel import WorkerOptions, choose_num_workers
from headwise.training.distributed import LostRankError, Ranks
from headwise.training.settings import TrainingSettings

STILL = replace(SMALL, dropout=0.0)
CPU = torch.device("cpu")


def with_workers(count):
    return replace(QUICK, processes=count)


def gradients_of(trainer, batches):
    loss = trainer.gradients.accumulate(list(enumerate(batches)), step=1, divisor=7.0)
    return loss.loss, {n: p.grad.clone() for n, p in trainer.model.named_parameters()}


def first_batches(trainer, count=1):
    order = trainer.order.epoch(0)
    return [make_batch(trainer.corpus.train, next(order)) for _ in range(count)]


def children_of(trainer):
    return [each._process.pid for each in trainer.gradients.workers._workers]


@pytest.fixture
def make(make_trainer):
    """Make trainers whose processes are ended with the test."""
    made = []

    def remembered(*args, **options):
        made.append(make_trainer(*args, **options))
        return made[-1]

    yield remembered
    for trainer in made:
        trainer.gradients.close()


@pytest.mark.parametrize("count", [2, 3])
def test_gradients_of_workers_add_up_to_those_of_one_process(make, count):
    alone = make(config=STILL)
    together = make(with_workers(count), config=STILL)
    for batches in (first_batches(alone), first_batches(alone, 2)):
        loss, expected = gradients_of(alone, batches)
        parallel_loss, found = gradients_of(together, batches)

        assert parallel_loss == pytest.approx(loss, rel=1e-6)
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-5)


def test_a_batch_of_one_pair_is_run_by_one_worker(make):
    alone, together = make(config=STILL), make(with_workers(2), config=STILL)
    pair = make_batch(alone.corpus.train, [3])
    loss, expected = gradients_of(alone, [pair])
    parallel_loss, found = gradients_of(together, [pair])

    assert parallel_loss == loss
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient)


def test_dropout_differs_between_workers_and_is_reproducible(make):
    trainer = make(with_workers(2))
    batches = first_batches(trainer)
    first, again = gradients_of(trainer, batches), gradients_of(trainer, batches)

    assert first[0] == again[0]
    assert all(torch.equal(each, again[1][name]) for name, each in first[1].items())

    left, right = batches[0].rows(torch.tensor([0, 0])).deal(2)
    options = WorkerOptions(1.0)
    with trainer.gradients.workers.running([right], 1, 0, options) as others:
        own = trainer.gradients._runner.run([left], 1.0, 1, 0)
    assert others != [own]


def test_workers_see_weights_that_have_changed(make):
    alone, together = make(config=STILL), make(with_workers(2), config=STILL)
    batches = first_batches(alone)
    before, _ = gradients_of(together, batches)
    for trainer in (alone, together):
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                parameter.mul_(0.5)

    after, _ = gradients_of(together, batches)
    assert after == pytest.approx(gradients_of(alone, batches)[0], rel=1e-6)
    assert after != pytest.approx(before, rel=1e-3)


def test_out_of_memory_in_one_worker_restarts_the_step_in_all(make, monkeypatch):
    alone = make(config=STILL)
    together = make(with_workers(2), config=STILL, callback=MessageRecorder())
    batches = first_batches(alone)
    receive = cpu_data_parallel._Worker.receive
    received = []

    def once_short(self):
        received.append(receive(self))
        return None if len(received) == 1 else received[-1]

    monkeypatch.setattr(cpu_data_parallel._Worker, "receive", once_short)
    loss, found = gradients_of(together, batches)

    expected_loss, expected = gradients_of(alone, batches)
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-5)
    (said,) = together.callbacks[0].said
    assert "did not fit into memory" in said


def test_an_error_in_the_main_process_leaves_no_answer_unread(make, monkeypatch):
    """The answers that were not waited for would be taken for the next ones."""
    alone, together = make(config=STILL), make(with_workers(2), config=STILL)
    batches = first_batches(alone)
    gradients_of(together, batches)
    runner = together.gradients._runner
    run = runner.run
    monkeypatch.setattr(runner, "run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gradients_of(together, batches)

    monkeypatch.setattr(runner, "run", run)
    loss, _ = gradients_of(together, batches)
    assert loss == pytest.approx(gradients_of(alone, batches)[0], rel=1e-6)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGKILL, r"\(code -9\): killed, .* memory .*training\.processes = 1"),
        (signal.SIGABRT, r"\(code -6\): its error is above; the newest checkpoint"),
    ],
)
def test_a_worker_that_ends_ends_the_run_and_loses_nothing(make, number, said):
    class Killer(MessageRecorder):
        def on_step(self, update, state):
            if update.step == 2:
                os.kill(children_of(trainer)[0], number)

    trainer = make(with_workers(2), callback=Killer())
    with pytest.raises(LostRankError, match=said):
        trainer.run()

    assert trainer.checkpoint_writer.saved[-1][0].step == 2
    assert not children_of(trainer)


@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells what is shared"
)
def test_memory_used_counts_shared_memory_once(make):
    """Libraries, weights and gradients lie in memory once, however many see them.

    They used to count once more for each worker, which made estimates too large.
    """
    trainer = make(with_workers(3))
    before = sum(held([os.getpid()]).values())
    gradients_of(trainer, first_batches(trainer))

    found = trainer.gradients.workers.memory_used
    taken = sum(held([os.getpid(), *children_of(trainer)]).values()) - before
    assert found == pytest.approx(taken, rel=0.3)


def test_workers_exit_when_the_run_ends(make):
    seen = []

    class Watch(MessageRecorder):
        def on_step(self, update, state):
            seen.extend(children_of(trainer))

    trainer = make(with_workers(2), callback=Watch())
    trainer.run()

    assert seen
    assert all(is_gone(pid) for pid in set(seen))


ORPHANED = """
import os, signal
from headwise.model import Transformer, TransformerConfig
from headwise.tasks.description import ModelDescription
from headwise.training.cpu_data_parallel import WorkerPool
from headwise.training.settings import TrainingSettings
config = TransformerConfig(
    encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, num_heads=2
)
description = ModelDescription(
    task="translation", config=config, source_vocab_size=9, target_vocab_size=9
)
model = Transformer(config, 9)
workers = WorkerPool(model, description, TrainingSettings(), seed=1, count=1)
workers.zero_grad()
workers._workers[0].send(b"g")
workers._workers[0].receive()
print(workers._workers[0]._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who is there")
def test_workers_exit_when_the_main_process_is_killed():
    done = subprocess.run([sys.executable, "-c", ORPHANED], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert is_gone(int(done.stdout))


def test_a_worker_that_cannot_be_started_is_a_resource_error(make, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    trainer = make(with_workers(2))
    with pytest.raises(ResourceError, match="/nowhere/python"):
        gradients_of(trainer, first_batches(trainer))


def test_shared_memory_that_cannot_be_had_is_a_resource_error(make, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    trainer = make(with_workers(2))
    with pytest.raises(ResourceError, match=r"No space left.*training\.processes = 1"):
        gradients_of(trainer, first_batches(trainer))


@pytest.mark.parametrize(
    ("threads", "changes", "expected"),
    [
        (2, {"batch_tokens": 4096}, 2),
        (2, {"batch_tokens": 2047}, 1),
        (1, {"batch_tokens": 25_000}, 1),
        (64, {"batch_tokens": 25_000}, 4),
        (64, {"batch_tokens": 3000}, 2),
        (2, {"batch_tokens": 4096, "processes": 1}, 1),
        (2, {"batch_tokens": 100, "processes": 3}, 3),
        (2, {"batch_pairs": 1}, 1),
    ],
)
def test_the_automatic_number_of_workers(monkeypatch, threads, changes, expected):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    settings = TrainingSettings(**changes)
    assert choose_num_workers(settings, CPU, Ranks(), natively=False) == expected


@pytest.mark.parametrize("processes", [None, 1, 3])
def test_threads_of_kernels_share_a_batch_unless_workers_are_asked_for(
    monkeypatch, processes
):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    settings = TrainingSettings(batch_tokens=25_000, processes=processes)
    found = choose_num_workers(settings, CPU, Ranks(), natively=True)
    assert found == (processes or 1)


def test_ranks_and_gpus_have_no_cpu_workers(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    settings = TrainingSettings()
    for device, ranks in ((CPU, Ranks(0, 2)), (torch.device("cuda"), Ranks())):
        assert choose_num_workers(settings, device, ranks, natively=False) == 1


@given(st.integers(1, 20), st.integers(1, 6))
def test_splitting_a_batch_among_workers_loses_no_pair(pairs, count):
    side = RaggedTokens.from_lengths(torch.arange(2 * pairs), torch.full((pairs,), 2))
    batch = Batch(side, side, torch.arange(pairs))
    parts = batch.deal(count)
    assert len(parts) == min(pairs, count)
    assert sorted(int(i) for each in parts for i in each.indices) == [*range(pairs)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_serialized_batch_is_equal_after_the_pipe(make):
    (batch,) = first_batches(make())
    for options in (WorkerOptions(0.25), WorkerOptions(1 / 7, 300)):
        found, step, number, found_options = cpu_data_parallel._deserialize(
            cpu_data_parallel._serialize(batch, 12, 3, options)
        )
        assert (step, number, found_options) == (12, 3, options)
        assert torch.equal(found.indices, batch.indices)
        for side, expected in (
            (found.source, batch.source),
            (found.target, batch.target),
        ):
            assert torch.equal(side.tokens, expected.tokens)
            assert torch.equal(side.offsets, expected.offsets)
            assert side.max_length == expected.max_length


def test_what_only_some_batches_hold_is_serialized_too(make):
    (plain,) = first_batches(make())
    tokens = plain.target.tokens
    batch = replace(plain, counted=tokens > 5, weight=0.5, input_tokens=tokens + 1)
    found, *_ = cpu_data_parallel._deserialize(
        cpu_data_parallel._serialize(batch, 12, 3, WorkerOptions(0.25))
    )

    assert torch.equal(found.counted, batch.counted)
    assert torch.equal(found.decoder_input.tokens, tokens + 1)
    assert found.weight == 0.5
