"""Data parallelism on one machine's CPU: worker processes that share the weights.

The operations of a small model are so short that cores do better on a part of the batch
each than together on each operation. PyTorch needs processes for that; a batch that the
native backend trains is shared by threads (``backends/native/train_batch.py``), unless
``training.processes`` asks for workers. Weights and gradients lie in shared memory. The
main process is worker 0; it adds the gradients of the others to its own in the order of
the workers, so that the sum is the same each time.

    to a worker      once its configuration, as JSON; then parts of batches, as
                     safetensors blobs, and the bytes ZERO_GRAD and COPY_GRADIENTS
    back             JSON: the sums of a part, or null if memory ran out; after
                     COPY_GRADIENTS the memory that the worker uses, in bytes
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any, NoReturn, cast

import torch
from safetensors.torch import load, save
from torch import Tensor

from headwise import openmp
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.errors import ResourceError
from headwise.model.sequence_model import SequenceModel
from headwise.settings import as_table, read
from headwise.subprocesses import start_subprocess
from headwise.tasks import description_table, find_task, read_description
from headwise.tasks.description import ModelDescription
from headwise.training.allocator import keep_freed_memory
from headwise.training.distributed import LostRankError, Ranks
from headwise.training.memory_usage import ProcessMemory
from headwise.training.micro_batch import MicroBatchRunner
from headwise.training.settings import TrainingSettings
from headwise.training.step_result import SummedLoss

MIN_TOKENS_PER_WORKER = 1024
"""Target tokens of a batch per worker, below which another worker no longer pays."""

MAX_AUTO_WORKERS = 4
"""Upper bound of the automatic worker count; more was not measured."""

ZERO_GRAD = b"z"
COPY_GRADIENTS = b"g"

ALIGNMENT = 64
"""Each tensor in shared memory starts at a multiple of so many float32 numbers."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Loss scale and micro-batch limit for a worker's part of a batch."""

    loss_scale: float
    """Factor of the loss before the backward pass."""

    max_padded_tokens: int | None = None
    """Maximum padded tokens per micro-batch, up to one row more; None: do not split."""


def choose_num_workers(
    settings: TrainingSettings, device: torch.device, ranks: Ranks, *, natively: bool
) -> int:
    """Return how many processes share each batch, the main process included.

    ``natively``: the native backend trains, whose threads share it otherwise.
    """
    if device.type != "cpu" or settings.backend == "torch_compile":
        return 1
    if settings.processes is not None:
        return settings.processes
    if natively or ranks.size > 1 or settings.batch_pairs is not None:
        return 1
    useful = min(settings.batch_tokens // MIN_TOKENS_PER_WORKER, MAX_AUTO_WORKERS)
    return max(1, min(torch.get_num_threads(), useful))


class WorkerPool:
    """The worker processes besides the main one, ``count`` of them, maybe none.

    They are started by the first :meth:`zero_grad`, and end when the pool is closed,
    garbage-collected, or its process ends.
    """

    def __init__(
        self,
        model: SequenceModel,
        description: ModelDescription,
        settings: TrainingSettings,
        *,
        seed: int,
        count: int,
    ) -> None:
        """Workers build a model like ``model`` from ``description``."""
        self._model = model
        self._description = description
        self._settings = settings
        self._seed = seed
        self._count = count
        self._workers: list[_Worker] = []
        self._threads = max(1, torch.get_num_threads() // (count + 1))
        weakref.finalize(self, _close, self._workers)

    def zero_grad(self) -> None:
        """Zero the gradients of every worker; start the workers if none runs."""
        if self._count and not self._workers:
            self._start()
        for worker in self._workers:
            worker.send(ZERO_GRAD)

    @contextmanager
    def running(
        self, parts: Sequence[Batch], step: int, number: int, options: WorkerOptions
    ) -> Iterator[list[SummedLoss | None]]:
        """Run forward and backward over ``parts``, one per worker, during the block.

        This process has its share of the threads meanwhile. Yields a list that is empty
        in the block and holds the summed losses after it: None where memory ran out.
        :meth:`zero_grad` comes first. Raises ``LostRankError`` if a worker has ended.
        """
        losses: list[SummedLoss | None] = []
        if not parts:
            yield losses
            return
        busy = self._workers[: len(parts)]
        messages = [_serialize(part, step, number, options) for part in parts]
        openmp.pause_openmp()
        for worker, message in zip(busy, messages, strict=True):
            worker.send(message)
        try:
            with openmp.at_most(self._threads):
                yield losses
        finally:
            answers = [worker.receive() for worker in busy]
            losses += [None if each is None else SummedLoss(*each) for each in answers]

    def reduce_gradients(self) -> None:
        """Add the gradients of all workers to those of the model, in place."""
        for worker in self._workers:
            worker.send(COPY_GRADIENTS)
        own = [cast(Tensor, each.grad) for each in self._model.parameters()]
        for worker in self._workers:
            worker.memory_used = worker.receive()
            torch._foreach_add_(own, worker.gradients)

    @property
    def memory_used(self) -> int:
        """Memory of the workers at the last :meth:`reduce_gradients`, in bytes."""
        return sum(worker.memory_used for worker in self._workers)

    def close(self) -> None:
        """End all workers."""
        _close(self._workers)

    def _start(self) -> None:
        parameters = list(self._model.parameters())
        configuration = {
            "model": description_table(self._description),
            "settings": as_table(self._settings),
            "seed": self._seed,
            "num_workers": self._count + 1,
            "threads": self._threads,
        }
        layout = _SharedLayout(parameters, copies=self._count + 1)
        with _shared_file(layout.num_bytes) as file:
            weights, *gradients = layout.tensors(file)
            for parameter, shared in zip(parameters, weights, strict=True):
                parameter.data = shared.copy_(parameter.data)
            for number, shared_grads in enumerate(gradients, start=1):
                worker = _Worker(
                    {**configuration, "worker": number}, shared_grads, file
                )
                self._workers.append(worker)


class _Worker:
    """The main process's end of one worker: its process, pipe and shared gradients."""

    def __init__(
        self,
        configuration: dict[str, Any],
        gradients: list[Tensor],
        memory: IO[bytes],
    ) -> None:
        self.gradients = gradients
        self.memory_used = 0
        self._pipe, theirs = Pipe()
        with theirs:
            handles = theirs.fileno(), memory.fileno()
            self._process = start_subprocess(
                __name__,
                "A data-parallel worker runs",
                *map(str, handles),
                environment={"OMP_NUM_THREADS": str(configuration["threads"])},
                handles=handles,
                stdin=subprocess.DEVNULL,
            )
        self.send(json.dumps(configuration).encode())

    def send(self, message: bytes) -> None:
        """Send a message; raise ``LostRankError`` if the worker has ended."""
        try:
            self._pipe.send_bytes(message)
        except OSError:
            self._raise_lost()

    def receive(self) -> Any:
        """Wait for an answer; raise ``LostRankError`` if the worker has ended."""
        try:
            return json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            self._raise_lost()

    def _raise_lost(self) -> NoReturn:
        raise LostRankError.of_worker(self._process.wait()) from None

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()


def _close(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().close()


class _SharedLayout:
    """Offsets of ``copies`` copies of the tensors ``like`` in shared memory.

    Copy 0 holds the weights; copy n holds the gradients of worker n.
    """

    def __init__(self, like: Sequence[Tensor], *, copies: int) -> None:
        self._shapes = [each.shape for each in like]
        self._sizes = [-(-each.numel() // ALIGNMENT) * ALIGNMENT for each in like]
        self._copies = copies

    @property
    def num_bytes(self) -> int:
        """Size of all copies, in bytes."""
        return 4 * self._copies * sum(self._sizes)

    def tensors(self, file: IO[bytes]) -> list[list[Tensor]]:
        """Return all copies, as views of ``file``; they outlive its closing."""
        memory = mmap.mmap(file.fileno(), self.num_bytes)
        numbers = torch.frombuffer(memory, dtype=torch.float32)
        return [
            [
                piece[: shape.numel()].view(shape)
                for piece, shape in zip(
                    copy.split(self._sizes), self._shapes, strict=True
                )
            ]
            for copy in numbers.view(self._copies, -1)
        ]


def _shared_file(num_bytes: int) -> IO[bytes]:
    """Return an anonymous file of this size to map; freed when its last user ends."""
    file: IO[bytes]
    if hasattr(os, "memfd_create"):
        file = os.fdopen(os.memfd_create("headwise"), "r+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, num_bytes)  # fail now, not by SIGBUS
        else:
            file.truncate(num_bytes)
    except OSError as error:
        file.close()
        raise ResourceError(
            f"the shared memory of the data-parallel workers needs {num_bytes:,} "
            f"bytes, which there are not ({error.strerror}); "
            "training.processes = 1 needs none"
        ) from error
    return file


def _serialize(batch: Batch, step: int, number: int, options: WorkerOptions) -> bytes:
    limit = options.max_padded_tokens
    optional = {"counted": batch.counted, "input_tokens": batch.input_tokens}
    return save(
        {
            **{name: each for name, each in optional.items() if each is not None},
            "source": batch.source.tokens,
            "source_offsets": batch.source.offsets,
            "target": batch.target.tokens,
            "target_offsets": batch.target.offsets,
            "indices": batch.indices,
            "integers": torch.tensor(
                [
                    *(batch.source.max_length, batch.target.max_length),
                    *(step, number, -1 if limit is None else limit),
                ]
            ),
            "factors": torch.tensor(
                [options.loss_scale, batch.weight], dtype=torch.float64
            ),
        }
    )


def _deserialize(message: bytes) -> tuple[Batch, int, int, WorkerOptions]:
    found = load(message)
    source_length, target_length, step, number, limit = found["integers"].tolist()
    loss_scale, weight = found["factors"].tolist()
    batch = Batch(
        RaggedTokens(found["source"], found["source_offsets"], source_length),
        RaggedTokens(found["target"], found["target_offsets"], target_length),
        found["indices"],
        found.get("counted"),
        weight,
        found.get("input_tokens"),
    )
    options = WorkerOptions(loss_scale, None if limit < 0 else limit)
    return batch, step, number, options


def main() -> None:
    """Run a worker process until the main process closes the pipe."""
    pipe, memory = map(int, sys.argv[1:])
    keep_freed_memory()
    connection = Connection(pipe)
    configuration = json.loads(connection.recv_bytes())
    torch.set_num_threads(configuration["threads"])
    description = read_description(configuration["model"])
    task = find_task(description.task)
    model = task.build(description, seed=0)
    parameters = list(model.parameters())
    num_workers, worker = configuration["num_workers"], configuration["worker"]
    with os.fdopen(memory, "r+b") as file:
        layout = _SharedLayout(parameters, copies=num_workers)
        weights, *gradients = layout.tensors(file)
    for parameter, shared in zip(parameters, weights, strict=True):
        parameter.data = shared
    runner = MicroBatchRunner(
        task.loss(),
        model.train(),
        read(TrainingSettings, configuration["settings"]),
        seed=configuration["seed"],
        worker=worker,
        num_workers=num_workers,
        two_pass_loss=task.two_pass_loss(),
    )
    try:
        while True:
            _handle_message(connection, runner, gradients[worker - 1])
    except (EOFError, OSError):
        return  # the main process has ended, or closed the pool


def _handle_message(
    connection: Connection, runner: MicroBatchRunner, gradients: list[Tensor]
) -> None:
    message = connection.recv_bytes()
    if message == ZERO_GRAD:
        runner.model.zero_grad()
        return
    answer: int | list[float] | None
    if message == COPY_GRADIENTS:
        for parameter in runner.model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        torch._foreach_copy_(
            gradients, [cast(Tensor, each.grad) for each in runner.model.parameters()]
        )
        answer = ProcessMemory().private()
    else:
        batch, step, number, options = _deserialize(message)
        micro_batches = runner.micro_batches(batch, options.max_padded_tokens)
        loss = runner.run(micro_batches, options.loss_scale, step, number)
        answer = None if loss is None else [float(loss.loss), loss.kl_divergence]
    connection.send_bytes(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
