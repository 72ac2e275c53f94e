"""Batches of sentence pairs without padding: tokens one after another, and offsets.

This is the layout of variable-length attention kernels (``cu_seqlens`` and
``max_seqlen``) and of PyTorch's nested tensors. Padding is added by the backends that
need it (:meth:`RaggedTokens.padded`).

Letters used for sizes in this file:

    B  sequences in a batch    N  tokens of all sequences    L  the longest of them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headwise.text.vocabulary import PAD, START


@dataclass(frozen=True, slots=True)
class RaggedTokens:
    """B sequences of tokens, of any lengths, in one tensor."""

    tokens: Tensor
    """[N] the sequences, one after another; [N P] if each token is P numbers, as are
    the patches of pictures."""

    offsets: Tensor
    """[B + 1] where each sequence begins in ``tokens``; the last number is N."""

    max_length: int
    """Columns of the padded matrix (L): no sequence is longer.

    :meth:`rows` keeps it, so that the parts of a batch are padded to one length.
    """

    @classmethod
    def from_lengths(cls, tokens: Tensor, lengths: Tensor) -> RaggedTokens:
        """Split ``tokens`` [N] into sequences of these lengths [B]."""
        longest = int(lengths.max()) if len(lengths) else 0
        return cls(tokens, _offsets(lengths), longest)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Tensor:
        """[B] tokens of each sequence."""
        return self.offsets.diff()

    @property
    def padded_shape(self) -> tuple[int, int]:
        """The shape [B L] of :meth:`padded`."""
        return len(self), self.max_length

    @property
    def is_real(self) -> Tensor:
        """[B L] where :meth:`padded` holds a token, not padding."""
        columns = torch.arange(self.max_length, device=self.offsets.device)
        return columns < self.lengths[:, None]

    @property
    def row_index(self) -> Tensor:
        """[N] number of the sequence of each token."""
        numbers = torch.arange(len(self), device=self.offsets.device)
        return _repeat(numbers, self.lengths, len(self.tokens))

    @property
    def positions(self) -> Tensor:
        """[N] position of each token in its sequence."""
        begins = _repeat(self.offsets[:-1], self.lengths, len(self.tokens))
        return torch.arange(len(self.tokens), device=begins.device) - begins

    @property
    def padded_index(self) -> Tensor:
        """[N] index of each token in the flattened padded matrix [B·L]."""
        return self.row_index * self.max_length + self.positions

    def padded(self, value: int = PAD) -> Tensor:
        """Return the matrix [B L] of all sequences, each followed by ``value``.

        It is [B L P] if each token is P numbers.
        """
        shape = *self.padded_shape, *self.tokens.shape[1:]
        matrix = self.tokens.new_full(shape, value)
        matrix.flatten(0, 1)[self.padded_index] = self.tokens
        return matrix

    def rows(self, index: Tensor) -> RaggedTokens:
        """Select and reorder sequences; ``index`` may name one several times."""
        lengths = self.lengths[index]
        offsets = _offsets(lengths)
        total = int(offsets[-1])
        moved = self.offsets[:-1][index] - offsets[:-1]
        chosen = torch.arange(total) + _repeat(moved, lengths, total)
        return RaggedTokens(self.tokens[chosen], offsets, self.max_length)

    def with_first(self, first: int) -> RaggedTokens:
        """Put ``first`` before each sequence, or a patch of that number alone."""
        offsets = self.offsets + torch.arange(
            len(self.offsets), device=self.offsets.device
        )
        size = len(self.tokens) + len(self)
        tokens = self.tokens.new_full((size, *self.tokens.shape[1:]), first)
        at = torch.arange(len(self.tokens), device=tokens.device)
        tokens[at + self.row_index + 1] = self.tokens
        return RaggedTokens(tokens, offsets, self.max_length + 1)

    def shifted(self, first: int) -> RaggedTokens:
        """Put ``first`` before each sequence, and drop its last token.

        No sequence may be empty.
        """
        tokens = self.tokens.roll(1)
        tokens[self.offsets[:-1]] = first
        return replace(self, tokens=tokens)


def _offsets(lengths: Tensor) -> Tensor:
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def _repeat(values: Tensor, times: Tensor, total: int) -> Tensor:
    """Repeat each value; ``total`` is given so that a GPU is not waited for."""
    return values.repeat_interleave(times, output_size=total)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of sentence pairs."""

    source: RaggedTokens
    """The source tokens of each pair, and END if its format has it."""

    target: RaggedTokens
    """The target tokens of each pair, and END if its format has it: the labels."""

    indices: Tensor
    """[B] indices of the pairs in the store."""

    counted: Tensor | None = None
    """[N] which target tokens the loss counts; None: all of them."""

    weight: float = 1.0
    """Factor of the loss. Training divides the summed loss of an update by the target
    tokens in the store, which may be more or fewer than those that are counted."""

    input_tokens: Tensor | None = None
    """[N] what the decoder reads; None: START and the target tokens before."""

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def decoder_input(self) -> RaggedTokens:
        """START and the target tokens of each pair (Figure 1: "shifted right").

        Some of them may be others (``input_tokens``).
        """
        if self.input_tokens is not None:
            return replace(self.target, tokens=self.input_tokens)
        return self.target.shifted(START)

    @property
    def num_source_tokens(self) -> int:
        """Tokens of all sources, END included."""
        return len(self.source.tokens)

    @property
    def num_target_tokens(self) -> int:
        """Target tokens that the loss counts, END included."""
        if self.counted is None:
            return len(self.target.tokens)
        return int(self.counted.sum())

    @property
    def max_length(self) -> int:
        """The longer of the padded lengths of source and target."""
        return max(self.source.max_length, self.target.max_length)

    @property
    def padded_tokens(self) -> int:
        """Pairs times the longer padded side: compared with ``batch_tokens``."""
        return len(self) * self.max_length

    def parts(self, count: int) -> list[Batch]:
        """Split into ``count`` batches of consecutive pairs, of about equal size."""
        if count == 1:
            return [self]
        return [self.rows(rows) for rows in torch.arange(len(self)).tensor_split(count)]

    def deal(self, count: int) -> list[Batch]:
        """Split into up to ``count`` batches round-robin, which balances lengths."""
        if count == 1:
            return [self]
        rows = torch.arange(len(self))
        return [self.rows(rows[start::count]) for start in range(count)[: len(self)]]

    def rows(self, index: Tensor) -> Batch:
        """Select and reorder pairs; padded lengths stay those of this batch."""

        def chosen(each: Tensor | None) -> Tensor | None:
            if each is None:
                return None
            return replace(self.target, tokens=each).rows(index).tokens

        return replace(
            self,
            source=self.source.rows(index),
            target=self.target.rows(index),
            indices=self.indices[index],
            counted=chosen(self.counted),
            input_tokens=chosen(self.input_tokens),
        )

    def to(self, device: torch.device | str) -> Batch:
        """Return this batch with its tokens on ``device``, copied at once."""
        source, target = self.source, self.target
        tensors = source.tokens, source.offsets, target.tokens, target.offsets
        moved = copy_together(tensors, device)
        return replace(
            self,
            source=RaggedTokens(moved[0], moved[1], source.max_length),
            target=RaggedTokens(moved[2], moved[3], target.max_length),
            counted=None if self.counted is None else self.counted.to(device),
            input_tokens=(
                None if self.input_tokens is None else self.input_tokens.to(device)
            ),
        )


def copy_together(
    tensors: Sequence[Tensor], device: torch.device | str
) -> Sequence[Tensor]:
    """Return tensors on ``device``, those of one dtype sent as one.

    Each copy to a GPU has a fixed cost, which is more than that of a few thousand
    tokens.
    """
    device = torch.device(device)
    if tensors[0].device == device:
        return tensors
    moved = list(tensors)
    for dtype in dict.fromkeys(each.dtype for each in tensors):
        places = [n for n, each in enumerate(tensors) if each.dtype == dtype]
        joined = torch.cat([tensors[n].flatten() for n in places])
        if device.type == "cuda" and joined.device.type == "cpu":
            joined = joined.pin_memory()
        copied = joined.to(device, non_blocking=True)
        pieces = torch.split(copied, [tensors[n].numel() for n in places])
        for n, piece in zip(places, pieces, strict=True):
            moved[n] = piece.view_as(tensors[n])
    return moved
