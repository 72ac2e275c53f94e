"""A batch through a :class:`Transformer` and back, in compiled kernels on a CPU.

Loss and gradients are those of :func:`headwise.model.training_path.decode_real` with
``projected_cross_entropy``, whose readable twins say the same in PyTorch. What is
different: each half of the way is one call into compiled code
(:mod:`headwise.native`); sentences stand one behind the other without padding; what
chance silences is drawn again on the way back instead of being kept. It runs on one
core: several share a batch in processes of their own.

Letters used for sizes: R positions of all sentences together, N sentences, D model width.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention
from headwise.model.decoder import DecoderBlock
from headwise.model.embeddings import EnterStack, TokenEmbedding
from headwise.model.encoder import EncoderBlock
from headwise.model.feed_forward import FeedForward
from headwise.model.transformer import Transformer
from headwise.native.train_structures import (
    AttentionBox,
    Block,
    Foot,
    LearnedNorm,
    Lesson,
    Linear,
    Pupil,
    learning_kernels,
)

LONGEST = 512
"""Positions of a sentence up to which the weights of attention are kept whole; their
number grows with the square of the length."""


def why_not_compiled(model: Transformer) -> str | None:
    """Return what of this model no compiled kernel learns, or None."""
    config = model.config
    needed = {
        "norm = 'post'": config.norm == "post",
        "activation = 'relu'": config.activation == "relu",
        "attention_dropout = 0": not config.attention_dropout,
        "feed_forward_dropout = 0": not config.feed_forward_dropout,
        "positions that are not learned": config.positions != "learned",
        "position_join = 'add'": config.position_join == "add",
        "embedding_norm = false": not config.embedding_norm,
    }
    missing = [name for name, there in needed.items() if not there]
    if missing:
        return f"compiled kernels learn only models with {' and '.join(missing)}"
    if any(
        each.dtype != torch.float32 or each.device.type != "cpu"
        for each in model.parameters()
    ):
        return "compiled kernels learn only float32 weights on a CPU"
    return None


def compiled_loss(
    model: Transformer,
    source: Int[Tensor, "N S"],
    target_in: Int[Tensor, "N L"],
    target_out: Int[Tensor, "N L"],
    source_is_real: Bool[Tensor, "N S"],
    target_is_real: Bool[Tensor, "N L"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """Return the summed loss; ``backward`` adds gradients to ``.grad`` of the weights.

    Real tokens come before padding in each row.
    """
    batch = _Batch(source, target_in, target_out, source_is_real, target_is_real)
    loss = _Learned.apply(  # type: ignore[no-untyped-call]
        model.target_embedding.vectors, model, batch, smoothing
    )
    return cast(Tensor, loss)


class _Batch:
    """Sentences one behind the other; keeps what ``lesson`` points to."""

    def __init__(
        self,
        source: Tensor,
        target_in: Tensor,
        target_out: Tensor,
        source_is_real: Tensor,
        target_is_real: Tensor,
    ) -> None:
        self.tokens = (
            source[source_is_real],
            target_in[target_is_real],
            target_out[target_is_real],
        )
        lengths = [each.sum(1) for each in (source_is_real, target_is_real)]
        self.starts = [
            torch.cat([each.new_zeros(1), each.cumsum(0)]) for each in lengths
        ]
        self.longest = max(int(each.max()) for each in lengths)
        self.lesson = Lesson(
            sentences=len(source),
            source=self.tokens[0].data_ptr(),
            source_starts=self.starts[0].data_ptr(),
            target_in=self.tokens[1].data_ptr(),
            target_out=self.tokens[2].data_ptr(),
            target_starts=self.starts[1].data_ptr(),
            seed=int(torch.randint(2**62, (1,))),
        )


class _Learned(torch.autograd.Function):
    """The weights' gradients go straight to where they are added up.

    ``anchor`` is any of the weights: through it torch knows that there is a way back.
    """

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, model: Transformer, batch: _Batch, smoothing: float
    ) -> Tensor:
        kernels = learning_kernels()
        ctx.pupil = _Pupil(model, batch.longest, smoothing)
        ctx.batch = batch
        size = kernels.lesson_bytes(byref(ctx.pupil.there), byref(batch.lesson))
        ctx.memory = torch.empty(size + 64, dtype=torch.uint8)
        ctx.address = -(-ctx.memory.data_ptr() // 64) * 64
        return anchor.new_tensor(
            kernels.learn_forth(byref(ctx.pupil.there), byref(batch.lesson), ctx.address)
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *scales: Tensor) -> Any:
        learning_kernels().learn_back(
            byref(ctx.pupil.there), byref(ctx.batch.lesson), ctx.address, scales[0].item()
        )
        return None, None, None, None


class _Pupil:
    """Where the weights and gradients of a model are."""

    def __init__(self, model: Transformer, longest: int, smoothing: float) -> None:
        for each in model.parameters():
            if each.grad is None:
                each.grad = torch.zeros_like(each)
        config = model.config
        encoder = [_encoder_block(cast(EncoderBlock, b)) for b in model.encoder.blocks]
        decoder = [_decoder_block(cast(DecoderBlock, b)) for b in model.decoder.blocks]
        vectors, bias = model.output_vectors, model.output.bias
        self.places: list[Tensor] = []
        self.there = Pupil(
            encoder_layers=len(encoder),
            decoder_layers=len(decoder),
            model=config.d_model,
            heads=config.num_heads,
            key=config.key_width,
            value=config.value_width,
            inner=config.d_ff,
            half=torch.is_autocast_enabled("cpu"),
            dropout=config.dropout if model.training else 0.0,
            smoothing=smoothing,
            reading=self._foot(model.source_embedding, model.enter_encoder, longest),
            writing=self._foot(model.target_embedding, model.enter_decoder, longest),
            scores=Linear(
                weight=vectors.data_ptr(),
                bias=None if bias is None else bias.data_ptr(),
                to_weight=_gradient(vectors),
                to_bias=None if bias is None else _gradient(bias),
                inputs=vectors.shape[1],
                outputs=vectors.shape[0],
            ),
            encoder=(Block * len(encoder))(*encoder),
            decoder=(Block * len(decoder))(*decoder),
        )

    def _foot(
        self, embedding: TokenEmbedding, entry: EnterStack, longest: int
    ) -> Foot:
        nothing = torch.zeros(1, longest, embedding.vectors.shape[1])
        self.places.append(entry.add_positions(nothing, 0)[0].contiguous())
        return Foot(
            table=embedding.vectors.data_ptr(),
            to_table=_gradient(embedding.vectors),
            places=self.places[-1].data_ptr(),
            scale=embedding.scale,
        )


def _gradient(weight: Tensor) -> int:
    return cast(Tensor, weight.grad).data_ptr()


def _linear(box: nn.Linear) -> Linear:
    bias = cast("Tensor | None", box.bias)
    return Linear(
        weight=box.weight.data_ptr(),
        bias=None if bias is None else bias.data_ptr(),
        to_weight=_gradient(box.weight),
        to_bias=None if bias is None else _gradient(bias),
        inputs=box.in_features,
        outputs=box.out_features,
    )


def _norm(around: AddAndNorm) -> LearnedNorm:
    return LearnedNorm(
        weight=around.norm.weight.data_ptr(),
        bias=around.norm.bias.data_ptr(),
        to_weight=_gradient(around.norm.weight),
        to_bias=_gradient(around.norm.bias),
        eps=around.norm.eps,
    )


def _attention(box: MultiHeadAttention, around: AddAndNorm) -> AttentionBox:
    return AttentionBox(
        queries=_linear(box.to_queries),
        keys=_linear(box.to_keys),
        values=_linear(box.to_values),
        join=_linear(box.to_output),
        around=_norm(around),
    )


def _block(
    own: AttentionBox, source: AttentionBox, box: FeedForward, around: AddAndNorm
) -> Block:
    return Block(
        own=own,
        source=source,
        widen=_linear(box.widen),
        narrow=_linear(box.narrow),
        around=_norm(around),
    )


def _encoder_block(block: EncoderBlock) -> Block:
    own = _attention(block.self_attention, block.around_attention)
    return _block(own, AttentionBox(), block.feed_forward, block.around_feed_forward)


def _decoder_block(block: DecoderBlock) -> Block:
    own = _attention(block.self_attention, block.around_self)
    source = _attention(block.cross_attention, block.around_cross)
    return _block(own, source, block.feed_forward, block.around_feed_forward)
