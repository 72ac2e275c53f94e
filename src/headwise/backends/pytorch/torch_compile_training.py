"""Training by torch.compile: how a model is trained on a GPU.

torch fuses what lies between two matmuls. It compiles a block of the encoder, one of
the decoder and a piece of the loss, each once for a shape, and all layers share the
compiled code; the rest is a few operations per update. Batches are packed
(:mod:`headwise.data.sequence_packing`), so that their shapes do not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headwise.backends.pytorch.torch_compile_forward import BlockCall, decode_packed
from headwise.data.ragged_batch import Batch
from headwise.data.sequence_packing import (
    ROW_MULTIPLE,
    PackedBatch,
    PackedShape,
    pack_batch,
)
from headwise.errors import ResourceError
from headwise.losses import chunk_with_gradients, chunked_cross_entropy
from headwise.model.activation_checkpointing import is_checkpointed
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.transformer import Transformer

PIECE = 8192
"""Target places that are scored against the vocabulary at a time, at most; an eighth of
a batch where that is more."""


class TorchCompileTraining:
    """Runs packed batches of up to ``batch_tokens`` through compiled blocks.

    ``backend`` is that of ``torch.compile``. With ``is_compiled`` off, every module is
    called as it is, so that forward hooks are.
    """

    def __init__(self, batch_tokens: int, backend: str = "inductor") -> None:
        self.is_compiled = True
        self._batch_tokens = batch_tokens
        how: dict[str, Any] = {"fullgraph": True, "dynamic": False, "backend": backend}
        self._blocks: dict[type[nn.Module], Any] = {
            kind: torch.compile(kind.forward, **how)
            for kind in (EncoderBlock, DecoderBlock)
        }
        self._piece = torch.compile(chunk_with_gradients, **how)

    def why_not(self, model: Transformer, batch: PackedBatch) -> str | None:
        """Return None: what torch cannot compile is an error, not a choice."""
        return None

    def micro_batches(
        self, batch: Batch, max_padded_tokens: int | None = None
    ) -> list[PackedBatch]:
        """Pack ``batch``: usually into one; into several where that does not suffice.

        Each has at most ``max_padded_tokens`` on one side, or ``batch_tokens``.
        """
        tokens = self._batch_tokens if max_padded_tokens is None else max_padded_tokens
        return pack_batch(batch, PackedShape.of(batch.max_length, tokens))

    def loss(
        self, model: Transformer, batch: PackedBatch, *, smoothing: float
    ) -> Tensor:
        """Return the summed cross-entropy: see :class:`TrainingBackend`."""
        hidden = decode_packed(
            model, batch, call=self._caller(model) if self.is_compiled else None
        )
        loss = chunked_cross_entropy(
            hidden.flatten(0, 1),
            model.output_vectors,
            model.output.bias,
            batch.target.flatten(),
            batch.target_pair.flatten() > 0,
            smoothing,
            pieces=_pieces(batch),
            piece=self._piece if self.is_compiled else chunk_with_gradients,
        )
        return loss if batch.weight == 1 else batch.weight * loss

    def _caller(self, model: Transformer) -> BlockCall:
        """Return what calls the compiled form of a block."""
        checkpointed = is_checkpointed(model.modules())

        def call(block: nn.Module, *inputs: Any) -> Any:
            compiled = self._blocks[type(block)]
            if checkpointed:
                return checkpoint(compiled, block, *inputs, use_reentrant=False)
            return compiled(block, *inputs)

        return call


def _pieces(batch: PackedBatch) -> int:
    """Return into how many equal pieces the rows are cut for the loss."""
    if len(batch) % ROW_MULTIPLE:
        return 1
    return min(
        ROW_MULTIPLE, 1 << max(0, (batch.padded_tokens - 1) // PIECE).bit_length()
    )


@contextmanager
def explain_compile_errors() -> Iterator[None]:
    """Say what would help where torch cannot compile."""
    try:
        yield
    except RuntimeError as error:
        kind = type(error).__module__
        if not kind.startswith(("torch._dynamo", "torch._inductor")):
            raise
        reason = str(error).strip().split("\n")[0]
        raise ResourceError(
            f"torch could not compile the model ({type(error).__name__}: {reason}). "
            "training.backend = 'torch_compile' needs Triton on a GPU and a C++ "
            "compiler on a CPU; 'auto' needs neither"
        ) from error
