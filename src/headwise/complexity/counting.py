"""Counts that need no clock: multiply-adds, and the longest chain of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import FlopCounterMode


def count_multiply_adds(layer: nn.Module, x: Tensor) -> int:
    """Return the multiply-adds of matrix products and convolutions on ``x``.

    torch counts two operations for each. Fused attention is counted in the form that
    computes the same by two matrix products: torch's counter does not know the kernel.
    """
    with (
        torch.no_grad(),
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False) as counter,
    ):
        layer(x)
    operations: int = counter.get_total_flops()
    return operations // 2


def longest_chain(layer: nn.Module, x: Tensor) -> int:
    """Return how many operations wait for one another at most, on ``x``.

    An operation is a kernel of torch; views compute nothing and do not count. This many
    would be left to do one after the other with processors without end.
    """
    with torch.no_grad(), _ChainMode() as mode:
        layer(x)
    longest: int = mode.longest
    return longest


class _ChainMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes for each tensor the longest chain of operations that led to it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.longest = 0
        self._chains: dict[int, int] = {}
        self._tensors: list[Tensor] = []
        """Kept, so that no other tensor gets the id of one that is gone."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        inputs, _ = tree_flatten([args, kwargs])
        outputs, _ = tree_flatten(result)
        chain = max((self._chains.get(id(each), 0) for each in inputs), default=0)
        if not func.is_view:
            chain += 1
        for each in outputs:
            if isinstance(each, Tensor):
                self._chains[id(each)] = chain
                self._tensors.append(each)
        self.longest = max(self.longest, chain)
        return result
