"""Several ranks, started by torchrun, compute what one process computes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tests.processes import environment
from tests.training.conftest import QUICK

from headwise.data.batches import TrainingOrder
from headwise.errors import SettingsError
from headwise.training.distributed import Ranks

SETTINGS = {
    "training.precision": "float32",
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.d_model": 16,
    "model.d_ff": 32,
    "model.num_heads": 2,
    "model.dropout": 0.1,
    "text.vocab_size": 50,
    "training.batch_tokens": 128,
    "training.warmup_steps": 20,
    "training.learning_rate": 0.03,
    "training.steps": 12,
    "training.validate_every": 6,
    "training.validation_pairs": 4,
    "training.average_last": 2,
    "training.accumulate": 2,
}


def command(corpus, out, *, ranks=1, until=None, restarts=0, script=(), **changed):
    changed = {
        name if "." in name else f"training.{name}": value
        for name, value in changed.items()
    }
    settings = {**SETTINGS, **changed}
    start = [sys.executable]
    if ranks > 1:
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
        start += ["--master-port", str(free_port()), "--max-restarts", str(restarts)]
    start += list(script) or ["-m", "headwise"]
    start += ["train", str(corpus.folder), "--out", str(out)]
    for name, value in settings.items():
        start += ["--set", f"{name}={value}"]
    return start + ([] if until is None else ["--until", str(until)])


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def trained(corpus, out, *, variables=None, **options):
    done = subprocess.run(
        command(corpus, out, **options),
        env=environment(**(variables or {})),
        stderr=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def losses(run):
    entries = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [entry["loss"] for entry in entries if entry["what"] == "update"]


def weights(run, step=12):
    return load_file(run / "checkpoints" / f"step-{step:08d}" / "model.safetensors")


def assert_same(one, other, step=12):
    assert losses(one) == losses(other)
    assert len(losses(one)) == step
    theirs = weights(other, step)
    assert all(torch.equal(w, theirs[name]) for name, w in weights(one, step).items())
    best = [run / "best" / "model.safetensors" for run in (one, other)]
    assert best[0].read_bytes() == best[1].read_bytes()


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    """One process that accumulates two batches an update, by either kernels."""
    made = {}

    def run_by(kernels):
        if kernels not in made:
            made[kernels] = tmp_path_factory.mktemp("ranks") / kernels
            trained(corpus, made[kernels], ema_decay=0.9, backend=kernels)
        return made[kernels]

    return run_by


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_two_ranks_are_one_process_with_two_batches_an_update(
    corpus, alone, tmp_path, kernels, prefers_native_backend
):
    """Bit for bit: two numbers add up to the same in either order."""
    options = {"ema_decay": 0.9, "backend": kernels}
    together = tmp_path / "run"
    trained(corpus, together, ranks=2, **options)

    assert_same(alone(kernels), together)


@pytest.mark.parametrize("devices", ["replicate", "shard"])
def test_where_the_last_update_has_no_batch_for_a_rank_it_keeps_in_step(
    corpus, tmp_path, devices
):
    """One epoch of an odd number of batches, two an update: the last has one."""
    order = TrainingOrder(corpus.train, seed=1, batch_tokens=384)
    assert order.num_batches(0) % 2
    ends = {"epochs": 1, "steps": "none", "batch_tokens": 384}
    options = {**ends, "devices": devices, "backend": "torch"}
    alone, together = tmp_path / "alone", tmp_path / "run"
    trained(corpus, alone, **options)
    trained(corpus, together, ranks=2, **options)

    assert len(losses(together)) == (order.num_batches(0) + 1) // 2
    assert losses(together) == losses(alone)
    best = [run / "best" / "model.safetensors" for run in (alone, together)]
    assert best[0].read_bytes() == best[1].read_bytes()


def test_a_run_resumes_with_another_number_of_ranks_and_other_devices(
    corpus, alone, tmp_path
):
    """With the backend that sharded training has as well."""
    run, options = tmp_path / "run", {"ema_decay": 0.9, "backend": "torch"}
    trained(corpus, run, **options, until=4, ranks=2)
    said = trained(corpus, run, **options, until=8)
    assert "trained by 2 processes" in " ".join(said.split())
    assert "no longer bit for bit" in " ".join(said.split())
    trained(corpus, run, **options, ranks=2, devices="shard")

    assert_same(alone("torch"), run)


@pytest.mark.parametrize("devices", ["replicate", "shard"])
def test_a_killed_rank_is_started_again_by_torchrun_and_changes_no_weight(
    corpus, tmp_path, devices
):
    """Shards cannot be saved without the rank that is gone: the last checkpoint can."""
    run, alone, steps = tmp_path / "run", tmp_path / "alone", 150
    options = {"steps": steps, "validate_every": 15, "backend": "torch"}
    trained(corpus, alone, **options)
    process = subprocess.Popen(
        command(corpus, run, ranks=2, restarts=1, devices=devices, **options),
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    log = run / "log.jsonl"
    while not log.exists() or log.read_text().count('"update"') < 20:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    os.kill(rank_of(process.pid, 1), signal.SIGKILL)
    _, said = process.communicate(timeout=300)

    assert process.returncode == 0, said
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    starts = [entry["step"] for entry in entries if entry["what"] == "start"]
    updates = [entry["step"] for entry in entries if entry["what"] == "update"]
    assert starts[0] == 0
    assert len(starts) == 2
    assert starts[1] >= (20 if devices == "replicate" else 15)
    assert updates == list(range(1, steps + 1))
    assert_same(alone, run, step=steps)


def rank_of(parent, rank):
    """Return the process that torchrun started for ``rank``."""
    children = subprocess.run(
        ["pgrep", "-P", str(parent)], stdout=subprocess.PIPE, text=True, check=True
    )
    for child in children.stdout.split():
        with open(f"/proc/{child}/environ", "rb") as file:
            if f"RANK={rank}".encode() in file.read().split(b"\0"):
                return int(child)
    raise AssertionError(f"no rank {rank} among {children.stdout}")


ONE_WITH_LITTLE_MEMORY = """
import os
import torch
from headwise.cli.app import main
from headwise.tasks.translation.task import Translation

whole_loss = Translation.loss

def loss(self, model, batch, *, smoothing):
    if os.environ["RANK"] == "1" and batch.padded_tokens > 64 and model.training:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return whole_loss(model, batch, smoothing=smoothing)

Translation.loss = loss
main()
"""


def test_a_rank_that_runs_out_of_memory_runs_micro_batches_while_the_other_waits(
    corpus, tmp_path
):
    script = tmp_path / "script.py"
    script.write_text(ONE_WITH_LITTLE_MEMORY)
    still = {"model.dropout": 0.0}
    alone, together = tmp_path / "alone", tmp_path / "run"
    trained(corpus, alone, **still)
    trained(corpus, together, ranks=2, script=[str(script)], **still)

    assert losses(together) == pytest.approx(losses(alone), rel=1e-5)
    assert losses(together) != losses(alone)


@pytest.mark.parametrize(
    ("settings", "size", "problem"),
    [
        ({"accumulate": 1}, 2, "too few for 2 processes; set it to 2"),
        ({"accumulate": 3, "devices": "shard"}, 2, "cannot be divided by 2"),
    ],
)
def test_batches_that_cannot_be_split_among_ranks_are_refused(
    make_trainer, settings, size, problem
):
    with pytest.raises(SettingsError, match=problem):
        make_trainer(replace(QUICK, **settings), ranks=Ranks(0, size))


def test_each_batch_of_an_update_is_taken_by_one_rank():
    ranks = [Ranks(rank, 3) for rank in range(3)]
    for number in range(7):
        assert sum(each.has_batch(number) for each in ranks) == 1


def test_collectives_of_one_rank_return_its_own_values():
    alone = Ranks()

    assert alone.is_first
    assert alone.all_reduce_sum(1.5, 2.0) == [1.5, 2.0]
    assert alone.run_on_first(lambda: "done") == "done"
    assert alone.all_gather("so") == ["so"]
    assert alone.all_gather(None) == []
