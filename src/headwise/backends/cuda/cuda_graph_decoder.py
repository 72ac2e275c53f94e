"""Decoding on a GPU: each step has static shapes and is replayed as a CUDA graph.

Its reference is :class:`TorchDecoder`, whose layers it runs, and in the end
``Transformer.start`` and ``step``; ``tests/backends/cuda/test_cuda_graph_decoder.py``
holds them equal. What is different: the KV cache has static buffers
(``static_buffers.py``), the position is a number on the device, and
sources are padded to a power of two; so a step is captured once and then replayed in
one call. Greedy search decodes several tokens before the host synchronizes.

Letters used for sizes in this file:

    B  rows, one a hypothesis          S  source positions
    N  sources, each with W rows       V  vocabulary
    T  steps
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import groupby

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.backends.cuda.static_buffers import (
    MAX_STEPS_AHEAD,
    BufferPool,
    BufferSize,
    Lease,
    StaticBuffers,
)
from headwise.backends.precision import Precision
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.errors import NumericsError
from headwise.model.embeddings import StackInput
from headwise.model.positions import PositionIds, Sinusoids
from headwise.model.sequence_model import SequenceModel
from headwise.model.transformer import Transformer

MIN_LENGTH = 32
"""Positions of the smallest buffers."""

MAX_ANY_WIDTH = 8
"""Rows of a source up to which any number of them shares it; each has its own graph."""


class CudaGraphState:
    """Leased buffers; the state of ``index_select`` or a step replaces this one."""

    def __init__(
        self,
        decoder: CudaGraphDecoder,
        lease: Lease,
        position: int,
        source_of: Sequence[int],
    ) -> None:
        self.decoder = decoder
        self.lease = lease
        self.position = position
        self.source_of = source_of
        """The source of each row, by its index in the buffers."""

    @torch.inference_mode()
    def index_select(self, index: Int[Tensor, " rows"]) -> CudaGraphState:
        """Keep these rows, repeats allowed."""
        chosen = index.tolist()
        sources, width = _shared([self.source_of[row] for row in chosen])
        old, position = self.lease.buffers, self.position
        size = self.decoder.size(len(sources), width, old.size.length)
        self_kv = old.self_kv[:, :, :, :position].index_select(1, index)
        lease = self.lease
        if size != old.size:
            lease = self.decoder.pool.lease(size)
            lease.buffers.reset(old.position)
        new = lease.buffers
        if size != old.size or sources != list(range(len(sources))):
            kept = torch.tensor(sources, device=index.device)
            new.cross_kv[:, : len(sources)] = old.cross_kv.index_select(1, kept)
            new.cross_mask[: len(sources)] = old.cross_mask[kept]
        new.self_kv[:, : len(chosen), :, :position] = self_kv
        source_of = [row // width for row in range(len(chosen))]
        return CudaGraphState(self.decoder, lease, position, source_of)

    def with_capacity(self) -> CudaGraphState:
        """Return a state that can take a further token, in longer buffers if needed."""
        old, size = self.lease.buffers, self.lease.buffers.size
        if self.position < size.length:
            return self
        lease = self.decoder.pool.lease(
            self.decoder.size(size.sources, size.width, size.length + 1)
        )
        new, length = lease.buffers, size.length
        new.reset(old.position)
        new.cross_kv.zero_()
        new.cross_kv[..., :length, :] = old.cross_kv
        new.self_kv[..., :length, :] = old.self_kv
        new.cross_mask.fill_(-math.inf)
        new.cross_mask[..., :length] = old.cross_mask
        return CudaGraphState(self.decoder, lease, self.position, self.source_of)


class CudaGraphDecoder:
    """A decoder on copies of a model's weights; see ``is_current``.

    Several threads may share it, each with states of its own.
    """

    def __init__(self, model: Transformer, precision: Precision = "float32") -> None:
        self.torch_decoder = decoder = TorchDecoder(model, precision)
        self.config = model.config
        attention = decoder.decoder[0].self_attention
        on_gpu = model.device.type == "cuda"
        make = partial(
            StaticBuffers,
            kv_shape=(len(decoder.decoder), attention.heads, attention.kv_width),
            vocab_size=model.target_vocab_size,
            like=decoder.output.weight,
            graph_pool=torch.cuda.graph_pool_handle() if on_gpu else None,
        )
        self.pool = BufferPool(make)

    def is_current(self, model: SequenceModel) -> bool:
        """Tell whether the copies are of ``model``'s weights as they are now."""
        return self.torch_decoder.is_current(model)

    def size(self, sources: int, width: int, length: int) -> BufferSize:
        """Return a size of buffers for so many; each of the few sizes is captured."""
        longest = max(MIN_LENGTH, _power_of_two(length))
        if self.config.positions == "learned":
            longest = min(longest, max(length, self.config.max_positions))
        return BufferSize(_power_of_two(sources), width, longest)

    @torch.inference_mode()
    def start(
        self, source: Int[Tensor, "N S"], source_is_real: Bool[Tensor, "N S"]
    ) -> CudaGraphState:
        """Encode the sources; return a state with one row for each."""
        sources, length = source.shape
        lease = self.pool.lease(self.size(sources, 1, length))
        buffers = lease.buffers
        buffers.source.zero_()
        buffers.source[:sources, :length] = source
        buffers.source_is_real.zero_()
        buffers.source_is_real[:, 0] = True  # attention to nothing would be 0 / 0
        buffers.source_is_real[:sources, :length] = source_is_real
        buffers.replay("encode", self._encode)
        return CudaGraphState(self, lease, 0, range(sources))

    @torch.inference_mode()
    def step(
        self, tokens: Int[Tensor, " B"], state: CudaGraphState
    ) -> tuple[Float[Tensor, "B V"], CudaGraphState]:
        """Append one token to every row; return the scores of the next one."""
        state = state.with_capacity()
        buffers = state.lease.buffers
        buffers.tokens[: len(tokens)] = tokens
        buffers.replay("step", self._step)
        scores = buffers.logits[: len(tokens)].clone()
        return scores, self._after(state, 1)

    @torch.inference_mode()
    def decode_greedily(
        self,
        tokens: Int[Tensor, " B"],
        state: CudaGraphState,
        *,
        max_steps: int,
        end: int,
        stop_at_finished: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Float[Tensor, "T B"], Int[Tensor, "T B"], CudaGraphState]:
        """Decode several tokens greedily; return ln p and tokens of each step.

        Takes ``max_steps`` or ``MAX_STEPS_AHEAD`` steps, fewer if the buffers are
        full. ``end`` and ``stop_at_finished`` have no effect here: to ask the device
        whether rows have ended would take longer than the remaining steps. Raises
        ``NumericsError`` if logits are NaN or infinite.
        """
        state = state.with_capacity()
        buffers = state.lease.buffers
        steps = min(max_steps, MAX_STEPS_AHEAD, buffers.size.length - state.position)
        buffers.forbid(forbidden)
        buffers.tokens[: len(tokens)] = tokens
        buffers.step_index.zero_()
        for _ in range(steps):
            buffers.replay("greedy step", self._greedy_step)
        log_p, found = (
            each[:steps, : len(tokens)].clone()
            for each in (buffers.step_log_p, buffers.step_tokens)
        )
        if log_p.isnan().any():
            raise NumericsError.of_scores()
        return log_p, found, self._after(state, steps)

    def _after(self, state: CudaGraphState, steps: int) -> CudaGraphState:
        position = state.position + steps
        return CudaGraphState(self, state.lease, position, state.source_of)

    def _encode(self, buffers: StaticBuffers) -> None:
        decoder = self.torch_decoder
        buffers.cross_mask.copy_(decoder.additive_mask(buffers.source_is_real))
        x = decoder.encode(buffers.source, buffers.cross_mask)
        _keep_positions(buffers, "encode", decoder.model.enter_encoder)
        self._rotations(buffers, "encode")
        for number, block in enumerate(decoder.decoder):
            buffers.cross_kv[number].copy_(block.source_kv(x, buffers.size.sources))
        buffers.self_kv.zero_()
        buffers.position.zero_()

    def _step(self, buffers: StaticBuffers) -> None:
        decoder, model = self.torch_decoder, self.torch_decoder.model
        positions = buffers.position.expand(buffers.size.rows)[:, None]
        position_ids = PositionIds(positions, buffers.size.length)
        embedded = model.target_embedding(buffers.tokens[:, None])
        x = model.enter_decoder(embedded, position_ids)
        _keep_positions(buffers, "step", model.enter_decoder)
        x = x[:, 0].to(decoder.dtype)
        is_later = buffers.all_positions > buffers.position
        buffers.self_mask.zero_().masked_fill_(is_later, -math.inf)
        rotation = self._rotations(buffers, "step")
        if rotation is not None:
            rotation = rotation.index_select(0, buffers.position)
        for number, block in enumerate(decoder.decoder):
            append_kv = partial(_append_kv, buffers, number)
            cross_kv = buffers.cross_kv[number]
            x = block(x, append_kv, cross_kv, buffers.cross_mask, rotation)
        buffers.logits.copy_(decoder.logits(x))
        buffers.position.add_(1)

    def _rotations(self, buffers: StaticBuffers, name: str) -> Tensor | None:
        """Return the table that a graph reads, where positions are rotary; keep it."""
        table = self.torch_decoder.rotations(buffers.size.length)
        if table is not None:
            buffers.kept_alive[f"{name}, rotations"] = table
        return table

    def _greedy_step(self, buffers: StaticBuffers) -> None:
        self._step(buffers)
        best, tokens = (buffers.logits + buffers.forbidden_mask).max(-1)
        log_p = best - buffers.logits.logsumexp(-1)
        buffers.step_log_p.index_copy_(0, buffers.step_index, log_p[None])
        buffers.step_tokens.index_copy_(0, buffers.step_index, tokens[None])
        buffers.tokens.copy_(tokens)
        buffers.step_index.add_(1)


def _append_kv(
    buffers: StaticBuffers, layer: int, new: Tensor
) -> tuple[Tensor, Tensor]:
    self_kv = buffers.self_kv[layer]
    self_kv.index_copy_(2, buffers.position, new[:, :, None])
    return self_kv, buffers.self_mask


def _keep_positions(buffers: StaticBuffers, name: str, stack_input: StackInput) -> None:
    """Keep the table that a graph reads, should the scheme compute a longer one."""
    if isinstance(stack_input.add_positions.scheme, Sinusoids):
        buffers.kept_alive[name] = stack_input.add_positions.scheme.table


def _shared(sources: Sequence[int]) -> tuple[list[int], int]:
    """Merge neighbouring rows of one source; return sources and rows per source.

    Nothing is shared if their numbers of rows differ, nor if they are many and no
    power of two: each number of rows needs a graph of its own.
    """
    groups = [(source, len(list(rows))) for source, rows in groupby(sources)]
    widths = {width for _, width in groups}
    width = widths.pop() if widths else 1
    if widths or (width > MAX_ANY_WIDTH and width != _power_of_two(width)):
        return list(sources), 1
    return [source for source, _ in groups], width


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()
