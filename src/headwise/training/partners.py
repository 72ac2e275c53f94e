"""Other processes of this machine, each of which learns from a share of every batch.

The operations of a small model are so short that several cores do better apart, each on
sentences of its own, than together on each operation. Weights lie in memory that all
processes see, and so do the gradients of each partner, which the first process adds to
its own in the order of the partners: so the sum is always the same.

    to a partner     once its settings, as JSON; then shares of batches, as safetensors
                     blobs, and the bytes FORGET (all gradients so far) and SHOW (them)
    back             JSON: the loss of a share, or null where memory did not suffice;
                     and for SHOW what the partner holds of memory, in bytes
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any, NoReturn, cast

import torch
from safetensors.torch import load, save
from torch import Tensor

from headwise.children import be_child, start_child
from headwise.data.batches import Batch
from headwise.errors import ResourceError
from headwise.settings import as_table, read
from headwise.tasks.for_training import Transformer, TransformerConfig, summed_loss
from headwise.training.allocator import keep_freed_memory
from headwise.training.gauge import ProcessGauge
from headwise.training.micro_batch import BackwardOptions, MicroBatchRunner
from headwise.training.ranks import LostRankError, Ranks
from headwise.training.settings import TrainingSettings

LEAST_TOKENS = 1024
"""Target tokens of a share below which another process no longer pays."""

MOST_PROCESSES = 4
"""That are started unasked; what more would bring was not measured."""

FORGET = b"f"
SHOW = b"s"

ALIGNMENT = 64
"""Numbers that the place of a tensor in shared memory is a multiple of."""


def number_of_processes(
    settings: TrainingSettings, device: torch.device, ranks: Ranks
) -> int:
    """Return how many processes are to learn from each batch, this one included."""
    if device.type != "cpu" or settings.kernels == "compiled":
        return 1
    if settings.processes is not None:
        return settings.processes
    if ranks.size > 1 or settings.batch_pairs is not None:
        return 1
    useful = min(settings.batch_tokens // LEAST_TOKENS, MOST_PROCESSES)
    return max(1, min(torch.get_num_threads(), useful))


class Partners:
    """The other processes, ``count`` of them, started when first needed; maybe none."""

    def __init__(
        self, model: Transformer, settings: TrainingSettings, *, seed: int, count: int
    ) -> None:
        self._model = model
        self._settings = settings
        self._seed = seed
        self._count = count
        self._partners: list[_Partner] = []
        self._threads = max(1, torch.get_num_threads() // (count + 1))
        weakref.finalize(self, _close, self._partners)

    def forget(self) -> None:
        """Let all begin a new sum of gradients."""
        if self._count and not self._partners:
            self._start()
        for partner in self._partners:
            partner.tell(FORGET)

    @contextmanager
    def learning(
        self, shares: Sequence[Batch], step: int, number: int, options: BackwardOptions
    ) -> Iterator[list[float | None]]:
        """Let each learn from one of ``shares``; this process has its share of cores.

        Yields what will hold their losses at the end. :meth:`forget` comes first.
        """
        losses: list[float | None] = []
        if not shares:
            yield losses
            return
        at_work = self._partners[: len(shares)]
        for partner, share in zip(at_work, shares, strict=True):
            partner.tell(_packed(share, step, number, options))
        all_threads = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            yield losses
        finally:
            torch.set_num_threads(all_threads)
            losses += [partner.hear() for partner in at_work]

    def add_gradients(self) -> None:
        """Add what the others found to the gradients of the model."""
        for partner in self._partners:
            partner.tell(SHOW)
        own = [cast(Tensor, each.grad) for each in self._model.parameters()]
        for partner in self._partners:
            partner.held = partner.hear()
            torch._foreach_add_(own, partner.gradients)

    @property
    def held(self) -> int:
        """The memory of the others when they last showed gradients, in bytes."""
        return sum(partner.held for partner in self._partners)

    def close(self) -> None:
        """End all of them."""
        _close(self._partners)

    def _start(self) -> None:
        parameters = list(self._model.parameters())
        about = {
            "config": as_table(self._model.config),
            "vocabularies": [
                self._model.source_vocab_size,
                self._model.target_vocab_size,
            ],
            "settings": as_table(self._settings),
            "seed": self._seed,
            "count": self._count + 1,
            "threads": self._threads,
        }
        layout = _Layout(parameters, copies=self._count + 1)
        with _new_file(layout.size) as file:
            weights, *gradients = layout.tensors(file)
            for parameter, shared in zip(parameters, weights, strict=True):
                parameter.data = shared.copy_(parameter.data)
            for number, seen in enumerate(gradients, start=1):
                partner = _Partner({**about, "number": number}, seen, file)
                self._partners.append(partner)


class _Partner:
    """One of the other processes, seen from the first."""

    def __init__(
        self, about: dict[str, Any], gradients: list[Tensor], memory: IO[bytes]
    ) -> None:
        self.gradients = gradients
        self.held = 0
        self._pipe, theirs = Pipe()
        with theirs:
            handles = theirs.fileno(), memory.fileno()
            self._process = start_child(
                __name__,
                "A share of each batch is learned from",
                *map(str, handles),
                environment={"OMP_NUM_THREADS": str(about["threads"])},
                handles=handles,
                stdin=subprocess.DEVNULL,
            )
        self.tell(json.dumps(about).encode())

    def tell(self, message: bytes) -> None:
        """Send a message."""
        try:
            self._pipe.send_bytes(message)
        except OSError:
            self._is_gone()

    def hear(self) -> Any:
        """Wait for an answer."""
        try:
            return json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            self._is_gone()

    def _is_gone(self) -> NoReturn:
        code = self._process.wait()
        raise LostRankError(
            f"a process that learned from a share of each batch has ended (code {code}"
            f"{', killed' if code == -9 else ''}), as the system ends processes where "
            "memory is short; training.processes = 1 or a smaller "
            "training.batch_tokens needs less; the newest checkpoint is whole"
        ) from None

    def close(self) -> None:
        """End it."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()


def _close(partners: list[_Partner]) -> None:
    while partners:
        partners.pop().close()


class _Layout:
    """Where copies of tensors like these stand in memory that several processes see.

    The first copy is of the weights; one for each partner's gradients follows.
    """

    def __init__(self, like: Sequence[Tensor], *, copies: int) -> None:
        self._shapes = [each.shape for each in like]
        self._sizes = [-(-each.numel() // ALIGNMENT) * ALIGNMENT for each in like]
        self._copies = copies

    @property
    def size(self) -> int:
        """All copies, in bytes."""
        return 4 * self._copies * sum(self._sizes)

    def tensors(self, file: IO[bytes]) -> list[list[Tensor]]:
        """Return all copies; they stay when the file is closed."""
        memory = mmap.mmap(file.fileno(), self.size)
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


def _new_file(size: int) -> IO[bytes]:
    """Set memory aside that can be handed on; it is gone with its last user."""
    file: IO[bytes]
    if hasattr(os, "memfd_create"):
        file = os.fdopen(os.memfd_create("headwise"), "r+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asked closes it
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # or say now that there is none
        else:
            file.truncate(size)
    except OSError as error:
        file.close()
        raise ResourceError(
            f"there is no room for {size:,} bytes that several processes share "
            f"({error.strerror}); training.processes = 1 needs none"
        ) from error
    return file


def _packed(share: Batch, step: int, number: int, options: BackwardOptions) -> bytes:
    places = -1 if options.max_padded_tokens is None else options.max_padded_tokens
    return save(
        {
            "source": share.source,
            "target_in": share.target_in,
            "target_out": share.target_out,
            "indices": share.indices,
            "whole": torch.tensor(
                [share.num_source_tokens, share.num_target_tokens, step, number, places]
            ),
            "scale": torch.tensor(options.loss_scale, dtype=torch.float64),
        }
    )


def _unpacked(message: bytes) -> tuple[Batch, int, int, BackwardOptions]:
    found = load(message)
    sources, targets, step, number, places = found.pop("whole").tolist()
    options = BackwardOptions(found.pop("scale").item(), None if places < 0 else places)
    batch = Batch(num_source_tokens=sources, num_target_tokens=targets, **found)
    return batch, step, number, options


def main() -> None:
    """Be one of the partners."""
    pipe, memory = map(int, be_child())
    keep_freed_memory()
    connection = Connection(pipe)
    about = json.loads(connection.recv_bytes())
    torch.set_num_threads(about["threads"])
    model = Transformer(
        read(TransformerConfig, about["config"]), *about["vocabularies"]
    )
    parameters = list(model.parameters())
    with os.fdopen(memory, "r+b") as file:
        weights, *others = _Layout(parameters, copies=about["count"]).tensors(file)
    for parameter, seen in zip(parameters, weights, strict=True):
        parameter.data = seen
    runner = MicroBatchRunner(
        summed_loss,
        model.train(),
        read(TrainingSettings, about["settings"]),
        seed=about["seed"],
        worker=about["number"],
        num_workers=about["count"],
    )
    gradients = others[about["number"] - 1]
    try:
        while True:
            _answer(connection, runner, gradients)
    except (EOFError, OSError):
        return  # the first process is gone, or wants no more


def _answer(
    connection: Connection, runner: MicroBatchRunner, gradients: list[Tensor]
) -> None:
    message = connection.recv_bytes()
    if message == FORGET:
        runner.model.zero_grad()
        return
    answer: float | None
    if message == SHOW:
        for parameter in runner.model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        torch._foreach_copy_(
            gradients,
            [cast(Tensor, each.grad) for each in runner.model.parameters()],
        )
        answer = ProcessGauge().held_alone()
    else:
        loss = runner.run_if_memory_suffices(*_unpacked(message))
        answer = None if loss is None else float(loss)
    connection.send_bytes(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
