"""The loss by blocks that torch has compiled: how a model is trained on a GPU.

torch fuses what lies between two products. It compiles a block of the encoder, one of
the decoder and a piece of the loss, each once for a shape of rows, and all layers share
what came of it; the rest is a few operations an update. Batches come in rows
(:mod:`headwise.data.packed_shapes`), so that their shapes do not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headwise.backends.pytorch.packed_sequence_forward import PackedRows, decode_rows
from headwise.data.batches import Batch
from headwise.data.packed_shapes import ROW_MULTIPLE, PackedShape
from headwise.data.sequence_packing import PackedBatch, pack_batch
from headwise.errors import ResourceError
from headwise.losses import chunk_with_gradients, chunked_cross_entropy
from headwise.model.activation_checkpointing import is_checkpointed
from headwise.model.decoder import DecoderBlock
from headwise.model.encoder import EncoderBlock
from headwise.model.positions import PositionIds
from headwise.model.transformer import Transformer

PIECE = 8192
"""Target places that are scored against the vocabulary at a time, at most; an eighth of
a batch where that is more."""


class TorchCompileLoss(nn.Module):
    """The summed loss of a batch in rows; its readable twin is ``Translation.loss``.

    ``backend`` is that of ``torch.compile``. With ``is_compiled`` off, every box is
    gone through one by one, as a look inside needs it.
    """

    def __init__(
        self,
        model: Transformer,
        *,
        smoothing: float,
        batch_tokens: int,
        backend: str = "inductor",
    ) -> None:
        super().__init__()
        self.model = model
        self.is_compiled = True
        self._is_checkpointed = is_checkpointed(model)
        self._smoothing = smoothing
        self._batch_tokens = batch_tokens
        how: dict[str, Any] = {"fullgraph": True, "dynamic": False, "backend": backend}
        self._blocks: dict[type[nn.Module], Any] = {
            kind: torch.compile(kind.forward, **how)
            for kind in (EncoderBlock, DecoderBlock)
        }
        self._piece = torch.compile(chunk_with_gradients, **how)

    def parts(self, batch: Batch, most_places: int | None = None) -> list[PackedBatch]:
        """Put a batch into rows; several times as many where they do not suffice."""
        longest = max(batch.source.shape[1], batch.target_out.shape[1])
        tokens = self._batch_tokens if most_places is None else most_places
        return pack_batch(batch, PackedShape.of(longest, tokens))

    def forward(self, rows: PackedBatch) -> Tensor:
        """Sum the cross-entropy over the real target tokens, in nats."""
        model = self.model
        source = PackedRows(
            rows.source,
            rows.source_pair,
            PositionIds(rows.source_position, rows.longest),
        )
        target = PackedRows(
            rows.target_in,
            rows.target_pair,
            PositionIds(rows.target_position, rows.longest),
        )
        call = self._call if self.is_compiled else None
        hidden = decode_rows(model, source, target, call=call)
        return chunked_cross_entropy(
            hidden.flatten(0, 1),
            model.output_vectors,
            model.output.bias,
            rows.target_out.flatten(),
            rows.target_pair.flatten() > 0,
            self._smoothing,
            pieces=_pieces(rows),
            piece=self._piece if self.is_compiled else chunk_with_gradients,
        )

    def _call(self, block: nn.Module, *inputs: Any) -> Any:
        compiled = self._blocks[type(block)]
        if self._is_checkpointed:
            return checkpoint(compiled, block, *inputs, use_reentrant=False)
        return compiled(block, *inputs)


def _pieces(rows: PackedBatch) -> int:
    """Return into how many equal pieces the rows are cut for the loss."""
    if len(rows) % ROW_MULTIPLE:
        return 1
    return min(
        ROW_MULTIPLE, 1 << max(0, (rows.padded_tokens - 1) // PIECE).bit_length()
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
            "training.kernels = 'compiled' needs Triton on a GPU and a C++ compiler on "
            "a CPU; 'fast' needs neither"
        ) from error
