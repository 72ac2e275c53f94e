"""Heads: classes, numbers, tags and masked tokens, from the output of an EncoderOnly.

Letters used for sizes: B batch rows, S positions, D model width, K classes or tags,
V vocabulary, P positions in any shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.errors import SettingsError
from headwise.model.attention import scaled_dot_product_attention
from headwise.model.config import TransformerConfig
from headwise.model.dropout import Dropout
from headwise.model.embeddings import OutputProjection
from headwise.model.feed_forward import ACTIVATIONS
from headwise.model.initialization import initialize
from headwise.model.masks import make_padding_mask


class FirstPooling(nn.Module):
    """The vector of the first token, [CLS] in BERT."""

    def forward(
        self, encoded: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B D"]:
        """Return one vector for each row; zeros if all of it is padding."""
        return encoded[:, 0].masked_fill(~is_real[:, :1], 0.0)


class MeanPooling(nn.Module):
    """The mean of the vectors of all tokens."""

    def forward(
        self, encoded: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B D"]:
        """Return one vector for each row; zeros if all of it is padding."""
        total = encoded.masked_fill(~is_real[:, :, None], 0.0).sum(dim=1)
        return total / is_real.sum(dim=1, keepdim=True).clamp(min=1)


class ContextPooling(nn.Module):
    """A weighted mean, with weights by a trained context vector U.

    The score of a vector x is its cosine similarity with U, times the length of U,
    which so sets how unequal the weights can be; the weights are the softmax of the
    scores. U is zero at first, and the mean is that of :class:`MeanPooling`.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.context_vector = nn.Parameter(torch.zeros(d_model))

    def forward(
        self, encoded: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B D"]:
        """Return one vector for each row; zeros if all of it is padding."""
        rows, _, width = encoded.shape
        # Equation 1 divides by √d_k, which would not leave a cosine.
        query = self.context_vector * math.sqrt(width)
        heads = scaled_dot_product_attention(
            query.expand(rows, 1, 1, width),
            F.normalize(encoded, dim=-1)[:, None],
            encoded[:, None],
            make_padding_mask(is_real),
            0.0,
        )
        return heads[:, 0, 0]  # B 1 1 D -> B D


POOLINGS: dict[str, Callable[[int], nn.Module]] = {
    "first": lambda d_model: FirstPooling(),
    "mean": lambda d_model: MeanPooling(),
    "context": ContextPooling,
}
"""Every pooling under its name: takes d_model, makes a module that takes what an
EncoderOnly gives [B S D], and which positions are real [B S], to [B D]."""


class Pooler(nn.Module):
    """Pooling, BERT's linear layer with tanh unless it is left out, and dropout."""

    def __init__(
        self, config: TransformerConfig, pooling: str, *, tanh_layer: bool
    ) -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise SettingsError(
                [f"pooling must be one of {', '.join(POOLINGS)}, not {pooling!r}"]
            )
        self.pooling = POOLINGS[pooling](config.d_model)
        self.dense = nn.Linear(config.d_model, config.d_model) if tanh_layer else None
        self.dropout = Dropout(config.dropout)

    def forward(
        self, encoded: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B D"]:
        """Return one vector for each row."""
        x: Tensor = self.pooling(encoded, is_real)
        if self.dense is not None:
            x = self.dense(x).tanh()
        out: Tensor = self.dropout(x)
        return out


class ClassificationHead(nn.Module):
    """One class for each text: pooling, then a linear layer.

    Weights are drawn from ``seed``. Raises ``SettingsError`` for an unknown pooling.
    """

    def __init__(
        self,
        config: TransformerConfig,
        num_classes: int,
        *,
        pooling: str = "first",
        tanh_layer: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.pooler = Pooler(config, pooling, tanh_layer=tanh_layer)
        self.to_logits = nn.Linear(config.d_model, num_classes)
        initialize(self, seed)

    def forward(
        self, encoded: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B K"]:
        """Return a logit for each class."""
        logits: Tensor = self.to_logits(self.pooler(encoded, is_real))
        return logits


class RegressionHead(nn.Module):
    """One number for each text: pooling, then a linear layer.

    Weights are drawn from ``seed``. Raises ``SettingsError`` for an unknown pooling.
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        pooling: str = "first",
        tanh_layer: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.pooler = Pooler(config, pooling, tanh_layer=tanh_layer)
        self.to_number = nn.Linear(config.d_model, 1)
        initialize(self, seed)

    def forward(
        self, encoded: Float[Tensor, "B S D"], is_real: Bool[Tensor, "B S"]
    ) -> Float[Tensor, " B"]:
        """Return the number of each row."""
        numbers: Tensor = self.to_number(self.pooler(encoded, is_real))
        return numbers[:, 0]


class TaggingHead(nn.Module):
    """One tag for each token: dropout, then a linear layer at every position.

    Weights are drawn from ``seed``.
    """

    def __init__(
        self, config: TransformerConfig, num_tags: int, *, seed: int = 0
    ) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.to_logits = nn.Linear(config.d_model, num_tags)
        initialize(self, seed)

    def forward(self, encoded: Float[Tensor, "*P D"]) -> Float[Tensor, "*P K"]:
        """Return a logit for each tag at every position, padding included."""
        logits: Tensor = self.to_logits(self.dropout(encoded))
        return logits


class MaskedTokenHead(nn.Module):
    """The token that was masked: a linear layer, an activation, a norm, "Linear".

    The output matrix is the embedding of the encoder unless ``tie_embeddings`` is
    "none"; BERT also has ``output_bias``. Weights are drawn from ``seed``.
    """

    def __init__(
        self, config: TransformerConfig, vocab_size: int, *, seed: int = 0
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.d_model)
        self.output = OutputProjection(config, vocab_size)
        initialize(self, seed)

    def forward(
        self, encoded: Float[Tensor, "*P D"], embedding_vectors: Float[Tensor, "V E"]
    ) -> Float[Tensor, "*P V"]:
        """Return a logit for every entry of the vocabulary.

        ``encoded`` may be that of masked positions alone. ``embedding_vectors`` are
        those of the encoder (``model.embedding.vectors``), which stays their owner.
        """
        own = self.output.vectors
        x = self.norm(self.activation(self.dense(encoded)))
        return F.linear(x, embedding_vectors if own is None else own, self.output.bias)
