"""Attention: both halves of Figure 2.

Letters used for sizes in this file:

    B  batch rows           D  model width (d_model)
    H  heads (h)            C  channels of a query or key (d_k)
    Q  query positions      V  channels of a value (d_v)
    K  key positions        L  positions, either kind
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.masks import AttentionMask

AttentionFunction = Callable[..., Tensor]
"""As :func:`scaled_dot_product_attention`, with positional arguments."""


def attention_weights(
    queries: Float[Tensor, "B H Q C"],
    keys: Float[Tensor, "B H K C"],
    mask: Bool[Tensor, "#B #H #Q K"] | None,
) -> Float[Tensor, "B H Q K"]:
    """Compute softmax(Q Kᵀ / √d_k), the weight of each key for each query.

    ``mask`` is True where a query may attend to a key; elsewhere the weight is exactly
    0. A fully masked query gets zeros, where the formula would divide zero by zero.
    """
    scores = queries @ keys.transpose(-2, -1)
    return masked_softmax(scores / math.sqrt(queries.shape[-1]), mask)


def masked_softmax(
    scores: Float[Tensor, "B H Q K"], mask: Bool[Tensor, "#B #H #Q K"] | None
) -> Float[Tensor, "B H Q K"]:
    """Compute the softmax of each row, as :func:`attention_weights` masks it."""
    if mask is None:
        return scores.softmax(dim=-1)
    fully_masked = ~mask.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~mask, -math.inf)
    scores = scores.masked_fill(fully_masked, 0.0)  # keeps gradients finite as well
    return scores.softmax(dim=-1).masked_fill(fully_masked, 0.0)


def scaled_dot_product_attention(
    queries: Float[Tensor, "B H Q C"],
    keys: Float[Tensor, "B H K C"],
    values: Float[Tensor, "B H K V"],
    mask: Bool[Tensor, "#B #H #Q K"] | None,
    dropout: float,
) -> Float[Tensor, "B H Q V"]:
    """Compute Equation 1, Figure 2 (left); ``dropout`` is a rate, for the weights."""
    weights = attention_weights(queries, keys, mask)
    return F.dropout(weights, dropout) @ values


@dataclass(frozen=True)
class KeyValues:
    """The projected keys and values of one attention layer."""

    keys: Float[Tensor, "B H K C"]
    values: Float[Tensor, "B H K V"]

    def index_select(self, index: Int[Tensor, " rows"]) -> KeyValues:
        """Select batch rows in this order, repeats allowed."""
        return KeyValues(
            self.keys.index_select(0, index), self.values.index_select(0, index)
        )


class MultiHeadAttention(nn.Module):
    """Figure 2 (right): project to heads, attend in each, concatenate, project.

    Figure 1 has three kinds of attention. All three are this class:

        encoder self-attention    attention(x, x, padding_mask)
        decoder self-attention    attention(x, x, causal_mask)
        cross-attention           attention(x, encoder_output, padding_mask)
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_k: int,
        d_v: int,
        num_key_value_heads: int | None = None,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        # Fewer than heads: groups of queries share them (Ainslie et al. 2023).
        self.num_key_value_heads = shared = num_key_value_heads or num_heads
        self.dropout = dropout
        self.to_queries = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.to_keys = nn.Linear(d_model, shared * d_k, bias=bias)
        self.to_values = nn.Linear(d_model, shared * d_v, bias=bias)
        self.to_output = nn.Linear(num_heads * d_v, d_model, bias=bias)
        # Backends replace it.
        self.attend: AttentionFunction = scaled_dot_product_attention
        self.rotate: nn.Module | None = None  # see rotary_positions.py

    def project_keys_values(self, source: Float[Tensor, "B K D"]) -> KeyValues:
        """Return the keys and values of ``source``, to be kept for several queries."""
        return KeyValues(
            self._split_heads(self.to_keys(source), self.num_key_value_heads),
            self._split_heads(self.to_values(source), self.num_key_value_heads),
        )

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        source: Float[Tensor, "B K D"] | KeyValues,
        mask: AttentionMask | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """Attend from every position of ``x`` to ``source``, or to its projections."""
        if isinstance(source, Tensor):
            source = self.project_keys_values(source)
        queries = self._split_heads(self.to_queries(x), self.num_heads)
        keys, values = source.keys, source.values
        if self.rotate is not None:
            queries, keys = self.rotate(queries, keys)
        if self.num_key_value_heads < self.num_heads:
            repeats = self.num_heads // self.num_key_value_heads
            keys, values = (x.repeat_interleave(repeats, 1) for x in (keys, values))
        dropout = self.dropout if self.training else 0.0
        heads = self.attend(queries, keys, values, mask, dropout)
        concatenated = heads.transpose(1, 2).flatten(start_dim=2)  # B H Q V -> B Q HV
        output: Tensor = self.to_output(concatenated)
        return output

    def _split_heads(
        self, x: Float[Tensor, "B L HC"], heads: int
    ) -> Float[Tensor, "B H L C"]:
        return x.view(*x.shape[:2], heads, -1).transpose(1, 2)
