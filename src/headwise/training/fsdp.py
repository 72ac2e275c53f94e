"""Fully sharded data parallelism (FSDP2): each rank holds a shard of every weight.

Weights are all-gathered for a forward or backward pass, and gradients are
reduce-scattered in it. All ranks must run the same collectives in the same order, also
one that ran out of memory amid a pass: it catches up on those it missed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from headwise.errors import ResourceError
from headwise.model.decoder import DecoderBlock
from headwise.model.decoder_only import DecoderOnlyBlock
from headwise.model.encoder import EncoderBlock
from headwise.training.distributed import lost_rank_explained
from headwise.training.step_result import SummedLoss


def parts_to_shard(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules of ``model`` that are sharded by themselves.

    A decoder block's cross-attention keys and values are computed outside its forward,
    so of such a block it is only the feed-forward network.
    """
    for module in model.modules():
        if isinstance(module, EncoderBlock | DecoderOnlyBlock):
            yield module
        elif isinstance(module, DecoderBlock):
            yield module.feed_forward


class ShardedPasses:
    """Shards the weights of ``whole``, and runs passes through it.

    The weights of each module in ``parts`` are gathered while it computes, all others
    for the length of a pass.
    """

    def __init__(
        self, whole: nn.Module, parts: Iterable[nn.Module], device: str
    ) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard  # seconds to import

        # Outputs of the parts are never changed in place, which the warning is about.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* view tensor")
        mesh = init_device_mesh(device, (distributed.get_world_size(),))
        self._whole: Any = whole
        self._count = _CollectiveCounter()
        # The names since torch 2.13, which deprecates the older ones.
        gather = getattr(
            distributed, "all_gather_single", distributed.all_gather_into_tensor
        )
        scatter = getattr(
            distributed, "reduce_scatter_single", distributed.reduce_scatter_tensor
        )
        for module in (*parts, whole):
            sharded: Any = fully_shard(module, mesh=mesh)
            sharded.set_custom_all_gather(_CountedCollective(gather, self._count))
            sharded.set_custom_reduce_scatter(_CountedCollective(scatter, self._count))

    def attempt(
        self, run: Callable[[], SummedLoss | None], catch_up: Callable[[], object]
    ) -> SummedLoss | None:
        """Run one pass; return its loss, or None if this rank ran out of memory.

        ``run`` returns None then, and ``catch_up``, a pass of any size, takes part in
        the collectives that were missed. The gradients are invalid after that.
        """
        self._count.begin()
        found = run()
        if found is None:
            done = self._count.done
            self._reset()
            self._count.begin(skip=done)
            catch_up()
        return found

    def _reset(self) -> None:
        """Reset FSDP2 after a pass that was interrupted."""
        if not hasattr(self._whole, "reset_iter_state"):
            raise ResourceError(
                "a batch did not fit into memory, and PyTorch "
                f"{torch.__version__} cannot go on from there with devices = 'shard'; "
                "2.13 can. A smaller training.batch_tokens with a larger "
                "training.accumulate needs less"
            )
        for weight in self._whole.parameters():
            weight.grad = None  # gradients of gathered weights, which a reset leaves
        self._whole.reset_iter_state()


class _CollectiveCounter:
    """Counts the collectives of this rank since a pass began."""

    def __init__(self) -> None:
        self.begin()

    def begin(self, *, skip: int = 0) -> None:
        """Start a pass, whose first ``skip`` collectives were run before."""
        self.done = 0
        self.skip = skip


class _CountedCollective:
    """A collective as FSDP2 calls it: counted, and skipped if it was run before."""

    def __init__(
        self, collective: Callable[..., Any], count: _CollectiveCounter
    ) -> None:
        self._collective = collective
        self._count = count

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, *, output_tensor: Tensor, input_tensor: Tensor, **how: Any
    ) -> Any:
        if self._count.skip:
            self._count.skip -= 1
            output_tensor.zero_()
            return None
        with lost_rank_explained():
            work = self._collective(output_tensor, input_tensor, **how)
        self._count.done += 1
        return work


def gather_full(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return full tensors of sharded ones; a collective that all ranks must call."""
    return {name: _full_tensor(tensor) for name, tensor in tensors.items()}


def _full_tensor(tensor: Any) -> Tensor:
    """Return the full tensor of one that may be a ``DTensor``."""
    if not _is_sharded(tensor):
        plain: Tensor = tensor
        return plain
    from torch.distributed.tensor import Shard

    if list(tensor.placements) == [Shard(0)]:
        return _gather_rows(tensor.to_local().detach(), len(tensor))
    reduced: Tensor = tensor.full_tensor()
    return reduced


def _gather_rows(shard: Tensor, num_rows: int) -> Tensor:
    """All-gather the rows; the last ranks may have fewer than the others.

    The collective of ``DTensor.full_tensor`` corrupts the heap on gloo: decision 78.
    """
    size = distributed.get_world_size()
    most = -(-num_rows // size)
    padded = shard.new_zeros(most, *shard.shape[1:])
    padded[: len(shard)] = shard
    whole = shard.new_empty(size * most, *shard.shape[1:])
    with lost_rank_explained():
        distributed.all_gather(list(torch.split(whole, most)), padded)
    return whole[:num_rows]


def _is_sharded(tensor: Any) -> bool:
    return hasattr(tensor, "full_tensor")


def shard_like(tensor: Tensor, model: Any) -> Tensor:
    """Return a copy of ``tensor`` on the device, and sharded, as ``model`` is."""
    tensor = tensor.detach().to(model.device, copy=True)
    if _is_sharded(model):
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(tensor, model.device_mesh, model.placements)
    return tensor
