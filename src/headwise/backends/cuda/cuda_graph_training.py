"""Training on a GPU: forward and backward pass replayed as a CUDA graph.

A pass of a small model is some hundred kernels, which a GPU runs in less time than the
host takes to launch them. Packed batches have static shapes
(:mod:`headwise.data.sequence_packing`), so a pass is captured once for each shape, over
static buffers for its tokens and gradients, and then replayed in one call. Reference:
the same function run eagerly, which is what happens on a CPU;
``tests/backends/cuda/test_cuda_graph_training.py`` holds both equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headwise.backends.cuda.static_buffers import CAPTURING, capture_stream
from headwise.data.sequence_packing import PackedBatch
from headwise.model.sequence_model import SequenceModel

WARM_UP = 2
"""Passes before a capture: they compile, and libraries initialize at first use."""

LossOfPacked = Callable[[PackedBatch], Tensor]
"""The loss of a batch, summed over target tokens, in nats."""


class CudaGraphTraining:
    """Adds gradients to ``.grad`` of ``model``, by one CUDA graph for each shape.

    Each gradient has a buffer, which is the ``.grad`` of its parameter from the first
    pass of a step on. Graphs share their temporary memory.
    """

    def __init__(self, model: SequenceModel, loss: LossOfPacked) -> None:
        self._model = model
        self._loss = loss
        self._weights = [each for each in model.parameters() if each.requires_grad]
        self._gradients: list[Tensor] = []
        self._passes: dict[tuple[torch.Size, bool], _Pass] = {}
        on_gpu = self._weights[0].is_cuda
        self._pool = torch.cuda.graph_pool_handle() if on_gpu else None

    def prepare(self, batch: PackedBatch) -> None:
        """Capture the pass of the shape of ``batch``, unless that was done.

        This draws random numbers: seed the generator after it.
        """
        if not self._gradients:
            self._gradients = [torch.zeros_like(each) for each in self._weights]
        if (key := self._key(batch)) not in self._passes:
            self._passes[key] = _Pass(self, batch)

    def run(self, batch: PackedBatch, loss_scale: float) -> Tensor:
        """Add the gradients of the loss times ``loss_scale``; return the loss.

        ``batch`` is on the host, and :meth:`prepare` was called with its shape.
        """
        if any(each.grad is None for each in self._weights):
            torch._foreach_zero_(self._gradients)
            for weight, gradient in zip(self._weights, self._gradients, strict=True):
                weight.grad = gradient
        found = self._passes[self._key(batch)]
        found.fill(batch, loss_scale * batch.weight)
        found.replay()
        return found.loss * batch.weight

    def release(self) -> None:
        """Give back the memory of all graphs; what is needed is captured again."""
        self._passes.clear()

    def _key(self, batch: PackedBatch) -> tuple[torch.Size, bool]:
        return batch.source.shape, self._model.training

    def longest(self, batch: PackedBatch) -> int:
        """Return the longest sequence that a row of this width may hold."""
        width, config = batch.source.shape[1], self._model.config
        learned = config.positions == "learned"
        return min(width, config.max_positions) if learned else width

    def accumulate(self, batch: PackedBatch, loss_scale: Tensor) -> Tensor:
        """Run forward and backward eagerly into the buffers; return the loss."""
        loss = self._loss(batch)
        found = torch.autograd.grad(loss * loss_scale, self._weights, allow_unused=True)
        pairs = zip(self._gradients, found, strict=True)
        used = [(buffer, each) for buffer, each in pairs if each is not None]
        torch._foreach_add_([buffer for buffer, _ in used], [each for _, each in used])
        return loss.detach()

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return what replays ``function``; on a CPU, ``function`` itself."""
        if self._pool is None:
            return function
        device = self._weights[0].device
        with CAPTURING, torch.cuda.device(device):
            stream, current = capture_stream(device), torch.cuda.current_stream()
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    function()
            current.wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(
                graph, self._pool, stream=stream, capture_error_mode="thread_local"
            ):
                function()
        replay: Callable[[], None] = graph.replay
        return replay

    def tables(self) -> list[Tensor]:
        """Return what modules have computed for themselves, such as sinusoids.

        A graph reads these tensors; a module that needs a longer table forgets them.
        """
        return [
            value
            for module in self._model.modules()
            for value in vars(module).values()
            if isinstance(value, Tensor)
        ]


class _Pass:
    """The static buffers of batches of one shape, and the graph over them."""

    def __init__(self, training: CudaGraphTraining, batch: PackedBatch) -> None:
        device = training._weights[0].device
        names = [*batch.tensors]
        shape = len(names), *batch.source.shape
        self._tokens = torch.zeros(shape, dtype=torch.int64, device=device)
        self._scale, self.loss = training._weights[0].new_zeros(2).unbind()
        static: dict[str, Any] = dict(zip(names, self._tokens, strict=True))
        longest = training.longest(batch)
        static_batch = replace(batch, **static, longest=longest, weight=1.0)
        self.fill(batch, 0.0)  # adds nothing to gradients while it is captured

        def accumulate() -> None:
            self.loss.copy_(training.accumulate(static_batch, self._scale))

        self.replay = training.capture(accumulate)
        self._kept_alive = training.tables()

    def fill(self, batch: PackedBatch, loss_scale: float) -> None:
        """Copy a batch into the buffers, without waiting for the device."""
        tokens = torch.stack([*batch.tensors.values()])
        if self._tokens.is_cuda:
            tokens = tokens.pin_memory()
        self._tokens.copy_(tokens, non_blocking=True)
        self._scale.fill_(loss_scale)
