"""Distributed data-parallel training by several ranks, as ``torchrun`` starts them.

The batches of a step are dealt out among the ranks, and gradients are all-reduced. Rank
0 alone validates and writes. Gradients are reduced after the backward pass and not
during it, so that a rank that runs out of memory can start again by itself.
"""

from __future__ import annotations

import datetime
import os
import platform
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from headwise.errors import (
    HeadwiseError,
    ResourceError,
    SettingsError,
    is_out_of_memory,
)
from headwise.training.settings import TrainingSettings
from headwise.wording import count_of

T = TypeVar("T")

FACT_SEPARATOR = "; "
"""Between the facts of ``trained_on``, a text that checkpoints store."""

BUCKET_NUMEL = 8_000_000
"""Gradient elements per all-reduce."""

RENDEZVOUS_TIMEOUT = datetime.timedelta(minutes=10)
"""How long ranks wait for each other at the start."""

COLLECTIVE_TIMEOUT = datetime.timedelta(hours=2)
"""How long a collective may take: rank 0 may validate or save meanwhile."""

SECONDS_TO_RELEASE_TENSORS = 0.2
"""What gloo's threads get to release the last tensors of Python: decision 158."""


class Ranks:
    """This process's rank among ``size`` (the world size), with its collectives.

    Collectives raise ``LostRankError`` if another rank has ended. With one rank they
    return at once.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which validates and writes."""
        return self.rank == 0

    def describe_hardware(
        self, device: torch.device, precision: str, sharing: int, way: str
    ) -> str:
        """Return hardware, versions and backend, as far as rounding depends on them.

        ``sharing`` data-parallel workers share each batch; ``way`` names the backend.
        Checkpoints store this text, so it stays literal.
        """
        kind = device.type
        if kind == "cuda":
            kind = torch.cuda.get_device_name(device)
        elif kind == "cpu":
            kind = f"{_processor()} ({torch.backends.cpu.get_cpu_capability()})"
        count = self.size * sharing
        processes = count_of(count, "process", "processes")
        if sharing > 1:
            processes += f" ({sharing} to a batch)"
        threads = torch.get_num_threads()
        return FACT_SEPARATOR.join(
            (
                *(processes, kind, count_of(threads, "thread")),
                *(f"torch {torch.__version__}", precision, way),
            )
        )

    def has_batch(self, number: int) -> bool:
        """Return whether batch ``number`` of a step belongs to this rank."""
        return number % self.size == self.rank

    def all_reduce_sum(self, *numbers: float) -> list[float]:
        """Return each number summed over all ranks, in float64."""
        if self.size == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.float64, device=_device())
        with lost_rank_explained():
            distributed.all_reduce(sums)
        return [float(each) for each in sums]

    def run_on_first(self, work: Callable[[], T]) -> T:
        """Run ``work`` on rank 0; every rank returns its result or raises its error."""
        if self.size == 1:
            return work()
        result: list[Any] = [None, None]
        if self.is_first:
            try:
                result[0] = work()
            except (HeadwiseError, KeyboardInterrupt) as error:
                result[1] = error
        with lost_rank_explained():
            distributed.broadcast_object_list(result, device=_device())
        if result[1] is not None:
            raise result[1]
        found: T = result[0]
        return found

    def broadcast(
        self, tensors: Mapping[str, Tensor] | None
    ) -> dict[str, Tensor] | None:
        """Return the tensors of rank 0 on every rank, in host memory."""
        if self.size == 1:
            return None if tensors is None else dict(tensors)
        shapes = self.run_on_first(
            lambda: (
                None
                if tensors is None
                else [(name, t.shape, t.dtype) for name, t in tensors.items()]
            )
        )
        if shapes is None:
            return None
        received = {}
        for name, shape, dtype in shapes:
            if self.is_first and tensors is not None:
                tensor = tensors[name].to(_device()).contiguous()
            else:
                tensor = torch.empty(shape, dtype=dtype, device=_device())
            with lost_rank_explained():
                distributed.broadcast(tensor, 0)
            received[name] = tensor.cpu()
        return received

    def all_gather(self, own: T | None) -> list[T]:
        """Return the values of all ranks in rank order, without those that are None."""
        if self.size == 1:
            return [] if own is None else [own]
        found: list[T | None] = [None] * self.size
        with lost_rank_explained():
            distributed.all_gather_object(found, own)
        return [each for each in found if each is not None]

    def all_reduce_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its sum over all ranks."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        for bucket in _buckets(gradients):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            with lost_rank_explained():
                distributed.all_reduce(flat)
            sums = torch.split(flat, [gradient.numel() for gradient in bucket])
            for gradient, total in zip(bucket, sums, strict=True):
                gradient.copy_(total.view_as(gradient))


def hardware_changed_warning(before: str, now: str) -> str:
    """Return the warning that a run resumes on hardware that rounds differently.

    Both texts are from :meth:`Ranks.describe_hardware`, of this version or an older.
    """
    was, is_now = before.split(FACT_SEPARATOR), now.split(FACT_SEPARATOR)
    gone = ", ".join(part for part in was if part not in is_now)
    new = ", ".join(part for part in is_now if part not in was)
    return (
        f"until now this run was trained by {gone or 'less'}; it goes on with "
        f"{new or 'less'}. The order of the data, the learning rates and the settings "
        "stay, but numbers are rounded otherwise: the weights will differ from those "
        "of an uninterrupted run, and are no longer bit for bit the same"
    )


def _processor() -> str:
    """Return the processor's name: libraries choose their kernels by it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def check_batches_per_rank(settings: TrainingSettings, size: int) -> None:
    """Raise ``SettingsError`` if some rank would have no batch in a step."""
    batches, problems = settings.accumulate, []
    if batches < size:
        problems.append(
            f"training.accumulate = {batches} gives an update {batches} batches, too "
            f"few for {size} processes; set it to {size}, or to a multiple of that"
        )
    elif settings.devices == "shard" and batches % size:
        problems.append(
            f"training.devices = 'shard' needs as many batches for each process, but "
            f"training.accumulate = {batches} cannot be divided by {size}"
        )
    if problems:
        raise SettingsError(problems)


def world_size() -> int:
    """Return how many ranks ``torchrun`` started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def process_group(device: torch.device | str) -> Iterator[Ranks]:
    """Join the process group of ``torchrun`` for the length of the block.

    The process may end right after the block. Raises ``ResourceError`` if the ranks do
    not meet.
    """
    if world_size() == 1:
        yield Ranks()
        return
    is_cuda = torch.device(device).type == "cuda"
    if is_cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        store, rank, size = next(rendezvous("env://", timeout=RENDEZVOUS_TIMEOUT))
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if is_cuda else "gloo",
            timeout=COLLECTIVE_TIMEOUT,
            store=PrefixStore(_rendezvous_prefix(store, rank, size), store),
            rank=rank,
            world_size=size,
        )
    except (RuntimeError, ValueError) as error:
        raise ResourceError(
            f"the {os.environ['WORLD_SIZE']} processes of this run did not meet at "
            f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')} "
            f"({str(error).splitlines()[0]}); see that all machines reach that "
            "address, and that torchrun was started on each"
        ) from error
    try:
        yield Ranks(rank, size)
    finally:
        distributed.destroy_process_group()
        time.sleep(SECONDS_TO_RELEASE_TENSORS)


def _rendezvous_prefix(store: Store, rank: int, size: int) -> str:
    """Agree with the other ranks on a key prefix that no earlier start has used.

    After a restart ``torchrun`` may hand out the same store again, which still holds
    the addresses of the ranks that have ended.
    """
    if rank == 0:
        name = secrets.token_hex(8)
        store.set("headwise", name)
        while store.add(f"{name}/here", 0) < size - 1:
            time.sleep(0.05)
        store.set(f"{name}/go", "")
        return name
    while True:
        name = store.get("headwise").decode()
        if store.add(f"{name}/{rank}", 1) == 1:
            store.add(f"{name}/here", 1)
            while store.get("headwise").decode() == name:
                if store.check([f"{name}/go"]):
                    return name
                time.sleep(0.05)
        time.sleep(0.05)


def _device() -> torch.device:
    has_cuda = "nccl" in distributed.get_backend_config()
    return torch.device("cuda" if has_cuda else "cpu")


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    held = 0
    for tensor in tensors:
        if bucket and held + tensor.numel() > BUCKET_NUMEL:
            yield bucket
            bucket, held = [], 0
        bucket.append(tensor)
        held += tensor.numel()
    if bucket:
        yield bucket


class LostRankError(ResourceError):
    """Another rank, or a data-parallel worker, has ended."""

    @classmethod
    def of_worker(cls, code: int) -> LostRankError:
        """Return the error for a data-parallel worker with this exit code."""
        reason = "its error is above"
        if code == -signal.SIGKILL:
            reason = (
                "killed, as the system ends processes where memory is short; "
                "training.processes = 1 or a smaller training.batch_tokens needs less"
            )
        return cls(
            f"a data-parallel worker has ended (code {code}): {reason}; the newest "
            "checkpoint is whole"
        )


@contextmanager
def lost_rank_explained() -> Iterator[None]:
    """Turn the RuntimeError of a failed collective into ``LostRankError``."""
    try:
        yield
    except RuntimeError as error:  # also what torch.distributed raises
        if is_out_of_memory(error):
            raise
        raise LostRankError(
            f"another process of this run has ended ({str(error).splitlines()[0]}); "
            "start all of them again: the newest checkpoint is whole"
        ) from error
