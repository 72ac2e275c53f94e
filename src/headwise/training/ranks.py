"""Several processes that train one model together, as ``torchrun`` starts them.

Each has a rank, from 0 on; an update's batches are dealt out among them and their
gradients added up. Rank 0 alone looks at the model and writes. The sums are taken after
the backward pass and not during it, so that a rank that runs out of memory halfway can
begin again without the others noticing.
"""

from __future__ import annotations

import datetime
import os
import platform
import secrets
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

PARTED = "; "
"""Between the facts of what a run is trained on."""

BUCKET = 8_000_000
"""Numbers of gradients that are sent at once."""

MEETING_TIME = datetime.timedelta(minutes=10)
"""How long the first process waits for the last one at the start."""

LONGEST_WAIT = datetime.timedelta(hours=2)
"""While one rank validates or saves, the others wait so long."""


class Ranks:
    """This process among the ``size`` that train together; alone unless told."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that looks and writes."""
        return self.rank == 0

    def described(
        self, device: torch.device, precision: str, sharing: int, way: str
    ) -> str:
        """Say on what training computes, as far as the last digits depend on it.

        ``sharing`` processes learn from each batch, by ``way`` of which kernels.
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
        return PARTED.join(
            (
                *(processes, kind, count_of(threads, "thread")),
                *(f"torch {torch.__version__}", precision, way),
            )
        )

    def takes(self, number: int) -> bool:
        """Tell whether batch ``number`` of an update is this rank's."""
        return number % self.size == self.rank

    def total(self, *numbers: float) -> list[float]:
        """Return the sum over all ranks of each number."""
        if self.size == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.float64, device=_device())
        with peers_alive():
            distributed.all_reduce(sums)
        return [float(each) for each in sums]

    def shared(self, work: Callable[[], T]) -> T:
        """Let rank 0 do ``work``; every rank returns, or raises, what came of it."""
        if self.size == 1:
            return work()
        result: list[Any] = [None, None]
        if self.is_first:
            try:
                result[0] = work()
            except (HeadwiseError, KeyboardInterrupt) as error:
                result[1] = error
        with peers_alive():
            distributed.broadcast_object_list(result, device=_device())
        if result[1] is not None:
            raise result[1]
        found: T = result[0]
        return found

    def spread(self, tensors: Mapping[str, Tensor] | None) -> dict[str, Tensor] | None:
        """Give every rank what rank 0 has."""
        if self.size == 1:
            return None if tensors is None else dict(tensors)
        shapes = self.shared(
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
            with peers_alive():
                distributed.broadcast(tensor, 0)
            received[name] = tensor.cpu()
        return received

    def every(self, own: T | None) -> list[T]:
        """Return what each rank has, in their order; None is nothing."""
        if self.size == 1:
            return [] if own is None else [own]
        found: list[T | None] = [None] * self.size
        with peers_alive():
            distributed.all_gather_object(found, own)
        return [each for each in found if each is not None]

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Put the sum over all ranks in the place of each gradient."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        for bucket in _buckets(gradients):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            with peers_alive():
                distributed.all_reduce(flat)
            sums = torch.split(flat, [gradient.numel() for gradient in bucket])
            for gradient, total in zip(bucket, sums, strict=True):
                gradient.copy_(total.view_as(gradient))


def of_another_kind(before: str, now: str) -> str:
    """Say what goes on, and what does not, where a run is trained further otherwise.

    Both are as :meth:`Ranks.described` returns them, or did formerly.
    """
    was, is_now = before.split(PARTED), now.split(PARTED)
    gone = ", ".join(part for part in was if part not in is_now)
    new = ", ".join(part for part in is_now if part not in was)
    return (
        f"until now this run was trained by {gone or 'less'}; it goes on with "
        f"{new or 'less'}. The order of the data, the learning rates and the settings "
        "stay, but numbers are rounded otherwise: the weights will differ from those "
        "of an uninterrupted run, and are no longer bit for bit the same"
    )


def _processor() -> str:
    """Return the name of the processor: libraries choose other sums by it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def check_batches(settings: TrainingSettings, size: int) -> None:
    """Refuse settings by which some of ``size`` processes would have nothing to do."""
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


def size_of_environment() -> int:
    """Return how many processes ``torchrun`` started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined(device: torch.device | str) -> Iterator[Ranks]:
    """Meet the other processes that ``torchrun`` started, until the block ends."""
    if size_of_environment() == 1:
        yield Ranks()
        return
    is_cuda = torch.device(device).type == "cuda"
    if is_cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        store, rank, size = next(rendezvous("env://", timeout=MEETING_TIME))
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if is_cuda else "gloo",
            timeout=LONGEST_WAIT,
            store=PrefixStore(_meeting(store, rank, size), store),
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


def _meeting(store: Store, rank: int, size: int) -> str:
    """Agree with the others on a name that no earlier start of this run has used.

    After a restart ``torchrun`` may hand out the same store again, with the addresses
    of processes that are no more.
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
        if bucket and held + tensor.numel() > BUCKET:
            yield bucket
            bucket, held = [], 0
        bucket.append(tensor)
        held += tensor.numel()
    if bucket:
        yield bucket


class LostRankError(ResourceError):
    """Another process of the run is gone."""


@contextmanager
def peers_alive() -> Iterator[None]:
    """Say by our own error that a collective failed, as another rank is gone."""
    try:
        yield
    except RuntimeError as error:  # also what torch.distributed raises
        if is_out_of_memory(error):
            raise
        raise LostRankError(
            f"another process of this run has ended ({str(error).splitlines()[0]}); "
            "start all of them again: the newest checkpoint is whole"
        ) from error
