"""The forward pass of training without padding: all tokens in one row.

    padded    [B L D]   the sentences of a batch, for attention
    unpadded  [1 N D]   their tokens, sentence after sentence, then filler

All boxes of Figure 1 but attention are position-wise, so they need no padding. N is a
round number, because libraries prepare a matmul anew for each new shape; the last
position is always filler. The references are ``Transformer.decode``,
``DecoderOnly.decode`` and ``EncoderOnly.encode``;
``tests/backends/pytorch/test_unpadded_forward.py`` holds values and gradients equal.

Letters used for sizes in this file:

    B  batch rows    L  positions    N  unpadded rows    D  model width
    H  heads         C  channels of a head
    Q  query positions               K  key positions
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from headwise.data.ragged_batch import RaggedTokens
from headwise.model.decoder_only import DecoderOnly, make_window_mask
from headwise.model.encoder_only import EncoderOnly
from headwise.model.masks import BackendMask, make_causal_mask, make_padding_mask
from headwise.model.transformer import Transformer

ROUND = 256


@dataclass(frozen=True)
class Unpadding:
    """Index maps between a padded batch and an unpadded one."""

    rows: int
    length: int
    num_heads: int
    num_real: int

    padded_index: Int[Tensor, " N"]
    """Index in [B·L] of each unpadded position; that of filler is 0."""

    unpadded_index: Int[Tensor, " BL"]
    """Unpadded position of each index in [B·L]; that of padding is the last, filler."""

    @classmethod
    def of(cls, batch: RaggedTokens, num_heads: int) -> Unpadding:
        """Return the maps for a batch and attention with this many heads."""
        real = batch.padded_index
        size = (len(real) // ROUND + 1) * ROUND
        padded_index = real.new_zeros(size)
        padded_index[: len(real)] = real
        rows, length = batch.padded_shape
        unpadded_index = real.new_full((rows * length,), size - 1)
        unpadded_index[real] = torch.arange(len(real), device=real.device)
        return cls(rows, length, num_heads, len(real), padded_index, unpadded_index)

    def unpad(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "1 N D"]:
        """Remove the padding."""
        return x.flatten(0, 1).index_select(0, self.padded_index)[None]

    @property
    def is_padded(self) -> bool:
        """Whether the batch has padding: its sentences are not all of one length."""
        return self.num_real < self.rows * self.length

    def split_heads(self, x: Float[Tensor, "1 H N C"]) -> Float[Tensor, "B H L C"]:
        """Return a padded matrix for each head of each sentence.

        It is a view where there is no padding.
        """
        if not self.is_padded:
            real = x[0, :, : self.num_real]
            return real.view(-1, self.rows, self.length, x.shape[-1]).transpose(0, 1)
        rows = x.transpose(1, 2).reshape(-1, x.shape[-1])  # 1 H N C -> N·H C
        split = rows.index_select(0, self._split_index)
        return split.view(self.rows, self.num_heads, self.length, -1)

    def merge_heads(self, x: Float[Tensor, "B H L C"]) -> Float[Tensor, "1 H N C"]:
        """Invert :meth:`split_heads`, which is also its gradient; filler becomes 0."""
        if not self.is_padded:
            real = x.transpose(1, 2).flatten(0, 1)  # B H L C -> N' H C
            filled = F.pad(real, (0, 0, 0, 0, 0, len(self.padded_index) - len(real)))
            return filled[None].transpose(1, 2)
        rows = x.reshape(-1, x.shape[-1]).index_select(0, self._merge_index)
        rows[self.num_real * self.num_heads :] = 0
        return rows.view(1, -1, self.num_heads, x.shape[-1]).transpose(1, 2)

    @cached_property
    def _split_index(self) -> Int[Tensor, " BHL"]:
        heads = torch.arange(self.num_heads, device=self.padded_index.device)
        rows = self.unpadded_index.view(self.rows, 1, self.length) * self.num_heads
        return (rows + heads[:, None]).flatten()

    @cached_property
    def _merge_index(self) -> Int[Tensor, " NH"]:
        heads = torch.arange(self.num_heads, device=self.padded_index.device)
        row, position = (
            self.padded_index // self.length,
            self.padded_index % self.length,
        )
        matrix = row[:, None] * self.num_heads + heads
        return (matrix * self.length + position[:, None]).flatten()


Hidden = Literal["padding", "future", "other"]


@dataclass(frozen=True)
class UnpaddedMask(BackendMask):
    """An attention mask for unpadded queries and keys.

    Each sentence must have a key that may be attended to.
    """

    queries: Unpadding
    keys: Unpadding
    may_attend: Bool[Tensor, "#B 1 #Q K"]
    hides: Hidden
    """What ``may_attend`` hides: nothing but padding, nothing but later positions, or
    something else."""

    @property
    def for_torch(self) -> tuple[Bool[Tensor, "#B 1 #Q K"] | None, bool]:
        """The mask of torch's kernel, and whether it is causal.

        Without a mask that kernel is FlashAttention on a GPU, which is faster.
        """
        if self.hides == "future":
            return None, True
        needed = self.hides == "other" or self.keys.is_padded
        return (self.may_attend if needed else None), False

    @cached_property
    def additive(self) -> Float[Tensor, "BH Q K"]:
        """The mask to add to scores; cached, since every block needs the same."""
        lengths = self.queries.length, self.keys.length
        shape = self.queries.rows, self.queries.num_heads, *lengths
        return additive_mask(self.may_attend, shape, torch.float32)


def additive_mask(
    may_attend: Bool[Tensor, "#B #H #Q #K"],
    shape: tuple[int, int, int, int],
    dtype: torch.dtype,
) -> Float[Tensor, "BH Q K"]:
    """Return a mask to add to scores of ``shape`` [B H Q K]: −∞ or 0."""
    mask = torch.zeros(may_attend.shape, dtype=dtype, device=may_attend.device)
    mask.masked_fill_(~may_attend, -math.inf)
    return mask.expand(shape).flatten(0, 1)


AnyMask = Bool[Tensor, "#B #H #Q _"] | UnpaddedMask
"""A mask over padded positions, or one for unpadded ones."""


def decode_unpadded(
    model: Transformer, source: RaggedTokens, target: RaggedTokens
) -> Float[Tensor, "N D"]:
    """Return the decoder's output at the N target tokens, sentence by sentence.

    Embeddings are looked up padded, since their dropout masks depend on the shape: the
    same seed has to go on giving the same weights.
    """
    heads = model.config.num_heads
    sources, targets = (Unpadding.of(side, heads) for side in (source, target))
    padding_mask = make_padding_mask(source.is_real)
    causal_mask = make_causal_mask(target.max_length, target.tokens.device)

    x = model.enter_encoder(model.embed_source(source.padded()), 0)
    encoded = model.encoder(
        sources.unpad(x), UnpaddedMask(sources, sources, padding_mask, "padding")
    )
    state = model.decoder.initial_state(
        encoded, UnpaddedMask(targets, sources, padding_mask, "padding")
    )
    x = model.enter_decoder(model.target_embedding(target.padded()), 0)
    out: Tensor = model.decoder(
        targets.unpad(x),
        state,
        UnpaddedMask(targets, targets, causal_mask, "future"),
    )
    return out[0, : targets.num_real]


def decode_only_unpadded(
    model: DecoderOnly, target: RaggedTokens
) -> Float[Tensor, "N D"]:
    """Return the output of a decoder alone at the N tokens, text after text."""
    targets = Unpadding.of(target, model.config.num_heads)
    positions = torch.arange(target.max_length, device=target.tokens.device)[None]
    mask = make_window_mask(positions, positions, model.window)
    hides: Hidden = "future" if model.window is None else "other"
    x = model.enter_decoder(model.embedding(target.padded()), 0)
    out: Tensor = model.decoder(
        targets.unpad(x), UnpaddedMask(targets, targets, mask, hides)
    )
    return out[0, : targets.num_real]


def encode_unpadded(model: EncoderOnly, texts: RaggedTokens) -> Float[Tensor, "N D"]:
    """Return the output of an encoder alone at the N tokens, text after text."""
    sources = Unpadding.of(texts, model.config.num_heads)
    mask = make_padding_mask(texts.is_real)
    x = model.enter_encoder(model.embedding(texts.padded()), 0)
    out: Tensor = model.encoder(
        sources.unpad(x), UnpaddedMask(sources, sources, mask, "padding")
    )
    return out[0, : sources.num_real]
