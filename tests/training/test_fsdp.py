"""FSDP on two ranks: gathered weights, and out-of-memory errors."""

import json
import re
import subprocess
import sys

import pytest
from tests.processes import environment
from tests.training.test_distributed import (
    assert_same,
    command,
    free_port,
    losses,
    trained,
)

EAGER = {"backend": "torch", "devices": "shard"}

WITHOUT_FULL_TENSOR = """
from torch.distributed import _functional_collectives
from torch.distributed.tensor import DTensor, Shard

from headwise.cli.app import main

whole_tensor = DTensor.full_tensor

def full_tensor(self, **how):
    if any(isinstance(each, Shard) for each in self.placements):
        raise AssertionError("ALLGATHER_COALESCED corrupts the heap on gloo")
    return whole_tensor(self, **how)

def all_gather_tensor(*arguments, **how):
    raise AssertionError("ALLGATHER_COALESCED corrupts the heap on gloo")

DTensor.full_tensor = full_tensor
_functional_collectives.all_gather_tensor = all_gather_tensor
main()
"""


def test_two_ranks_with_shards_gather_them_as_they_were_and_never_by_full_tensor(
    corpus, tmp_path
):
    """Training once ended in a corrupted heap, in a collective of a long name.

    All that is gathered is compared: weights, moments, EMA, best model.
    """
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_FULL_TENSOR)
    alone, together = tmp_path / "alone", tmp_path / "run"
    trained(corpus, alone, ema_decay=0.9, backend="torch")
    trained(corpus, together, ranks=2, script=[str(script)], ema_decay=0.9, **EAGER)

    assert_same(alone, together)
    names = ["best/model.safetensors"]
    for kept in ("model", "optimizer", "ema"):
        names.append(f"checkpoints/step-00000012/{kept}.safetensors")
    for name in names:
        assert (alone / name).read_bytes() == (together / name).read_bytes(), name


UNEVEN = """
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from headwise.training.distributed import process_group
from headwise.training.fsdp import gather_full

with process_group("cpu") as ranks:
    mesh = init_device_mesh("cpu", (ranks.size,))
    for shape in [(7, 2), (5,), (3, 1, 2), (2, 4), (1,)]:
        tensor = torch.randn(shape, generator=torch.Generator().manual_seed(1))
        for placement in (Shard(0), Replicate()):
            shared = distribute_tensor(tensor, mesh, [placement])
            gathered = gather_full({"": shared})[""]
            assert torch.equal(gathered, tensor), (shape, placement)
    plain = torch.ones(3)
    assert gather_full({"": plain})[""] is plain
    print("all whole")
"""


def test_rows_that_three_ranks_have_unequally_many_of_are_gathered_whole(tmp_path):
    """Of 7 rows, ranks have 3, 3 and 1; of 2 they have 1, 1 and none."""
    done = on_ranks(3, UNEVEN, tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all whole") == 3


RELEASED_LATE = """
import threading
import time
import weakref

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from headwise.training.distributed import process_group

references = []
main_thread = threading.get_ident()
released_by_gloo = threading.Event()

def released(reference):
    if threading.get_ident() != main_thread:
        released_by_gloo.set()
        for _ in range(50):
            time.sleep(0.001)  # without the GIL, so that the process may end

with process_group("cpu") as ranks:
    mesh = init_device_mesh("cpu", (ranks.size,))
    shared = distribute_tensor(torch.ones(3), mesh, [Shard(0)])
    while True:
        numbers = torch.ones(3)
        references.append(weakref.ref(numbers, released))
        distributed.all_reduce(numbers)
        del numbers
        found = torch.tensor(released_by_gloo.wait(0.001))
        if ranks.is_first:  # by operations that none of those threads runs
            distributed.send(found, 1)
        else:
            distributed.recv(found, 0)
        if found:
            break
print("all ended")
"""


def test_a_process_may_end_while_a_thread_of_gloo_releases_a_tensor(tmp_path):
    """It needs the GIL for that, which aborts the process amid finalization."""
    done = on_ranks(2, RELEASED_LATE, tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all ended") == 2


def on_ranks(size, source, folder):
    """Return the result of running ``source`` on ``size`` ranks."""
    script = folder / "script.py"
    script.write_text(source)
    start = [sys.executable, "-m", "torch.distributed.run"]
    start += ["--nproc-per-node", str(size), "--master-port", str(free_port())]
    return subprocess.run(
        [*start, str(script)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )


OUT_OF_MEMORY_AT = """
import json
import os
import sys

import torch

from headwise.cli.app import main
from headwise.training.gradient_accumulation import GradientAccumulator
from headwise.training.micro_batch import MicroBatchRunner

failures = {int(k): v for k, v in json.loads(os.environ["FAILURES"]).items()}
splits = {int(k): v for k, v in json.loads(os.environ["SPLITS"]).items()}
rank = int(os.environ["RANK"])
whole_accumulate = GradientAccumulator.accumulate
whole_run = MicroBatchRunner.run

def accumulate(self, batches, *, step, **how):
    self._max_padded_tokens = splits.get(step)  # each update by itself
    return whole_accumulate(self, batches, step=step, **how)

def fail(*arguments):
    raise torch.OutOfMemoryError("CUDA out of memory")

def fail_on_the_way_back(module, inputs, output):
    output.register_hook(fail)

def run(self, parts, scale, step, number, index=0):
    if not scale:
        print("pass for nothing", file=sys.stderr)
    fails = scale and failures.get(step)  # to catch up takes next to no memory
    if not fails or fails[0][0] != rank:
        return whole_run(self, parts, scale, step, number, index)
    _, name, direction = fails.pop(0)
    module = self.model.get_submodule(name)
    if direction == "forward":
        hook = module.register_forward_pre_hook(fail)
    else:
        hook = module.register_forward_hook(fail_on_the_way_back)
    try:
        return whole_run(self, parts, scale, step, number, index)
    finally:
        hook.remove()

GradientAccumulator.accumulate = accumulate
MicroBatchRunner.run = run
main()
"""

FAILURES = {
    2: [(1, "encoder.blocks.1", "forward")],
    3: [(0, "decoder.blocks.1.feed_forward", "forward")],
    4: [(1, "decoder.blocks.0.feed_forward", "backward")],
    5: [(0, "encoder.blocks.0", "backward"), (0, "encoder.blocks.1", "backward")],
}
"""For an update, the rank that runs out of memory, and where; the last one twice."""

SMALL_PARTS = {7: 1}
"""So many that a batch with fewer pairs than that of the other rank has too few."""


@pytest.mark.parametrize("checkpoints", [False, True])
def test_out_of_memory_on_one_rank_splits_the_batch_on_all_as_from_the_start(
    corpus, tmp_path, checkpoints
):
    """A rank that fails amid a pass takes part in the collectives that are left.

    The second run splits its batches just so before each of these updates; nothing
    fails in it. Had any of a broken pass stayed, weights would differ.
    """
    script = tmp_path / "script.py"
    script.write_text(OUT_OF_MEMORY_AT)
    options = {
        "steps": 8,
        "batch_pairs": 48,
        "activation_checkpointing": str(checkpoints).lower(),
        "model.encoder_layers": 2,
        "model.decoder_layers": 2,
        "model.dropout": 0.0,
        "backend": "torch",
    }
    sharded = {**options, "ranks": 2, "script": [str(script)], "devices": "shard"}
    alone, failed, split = (tmp_path / name for name in ("alone", "failed", "split"))

    def variables(failures, splits):
        return {"FAILURES": json.dumps(failures), "SPLITS": json.dumps(splits)}

    said = trained(
        corpus, failed, variables=variables(FAILURES, SMALL_PARTS), **sharded
    )
    found = re.findall(r"at\s+most\s+([\d,]+)\s+are\s+learned", said)
    sizes = [int(each.replace(",", "")) for each in found]
    assert len(sizes) == 5
    assert sizes[4] < sizes[3]

    splits = {**dict(zip(FAILURES, [*sizes[:3], sizes[4]], strict=True)), **SMALL_PARTS}
    said = trained(corpus, split, variables=variables({}, splits), **sharded)
    assert "pass for nothing" in said
    assert_same(split, failed, step=8)

    trained(corpus, alone, **options)
    assert losses(failed) == pytest.approx(losses(alone), rel=1e-5)


NO_MEMORY_AT_ALL = """
import os
import torch
from headwise.cli.app import main
from headwise.tasks.translation.task import Translation

whole_loss = Translation.loss

def loss(self, model, batch, *, smoothing):
    if os.environ["RANK"] == "1" and model.training:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return whole_loss(self, model, batch, smoothing=smoothing)

Translation.loss = loss
main()
"""


def test_where_not_a_single_pair_fits_into_memory_all_ranks_end(corpus, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(NO_MEMORY_AT_ALL)
    done = subprocess.run(
        command(corpus, tmp_path / "run", ranks=2, script=[str(script)], **EAGER),
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )

    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "not enough memory to learn from a single pair" in said
    assert "Traceback" not in said.partition("torch/distributed")[0]
