"""Attention: both halves of Figure 2.

Letters used for sizes in this file:

    B  batch rows                        D  model width (d_model)
    H  heads (h)                         C  channels of a query or key (d_k)
    Q  positions that ask                V  channels of a value (d_v)
    K  positions that are asked
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model.masks import MayAttend

AttentionFunction = Callable[..., Tensor]
"""Queries, keys, values, who may look at whom, and a share of dropout, in this order;
as in :func:`scaled_dot_product_attention`."""


def attention_weights(
    queries: Float[Tensor, "B H Q C"],
    keys: Float[Tensor, "B H K C"],
    may_attend: Bool[Tensor, "#B #H #Q K"] | None,
) -> Float[Tensor, "B H Q K"]:
    """Say how much each query takes from each key: softmax(Q Kᵀ / √d_k).

    ``may_attend`` is True where a query may look at a key. What may not be looked at
    weighs exactly 0, and a query that may look at nothing gives a row of zeros, where
    the bare formula would divide zero by zero.
    """
    scores = queries @ keys.transpose(-2, -1)
    scores = scores / math.sqrt(queries.shape[-1])
    if may_attend is None:
        return scores.softmax(dim=-1)
    sees_nothing = ~may_attend.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~may_attend, -math.inf)
    scores = scores.masked_fill(sees_nothing, 0.0)  # keeps gradients finite as well
    return scores.softmax(dim=-1).masked_fill(sees_nothing, 0.0)


def scaled_dot_product_attention(
    queries: Float[Tensor, "B H Q C"],
    keys: Float[Tensor, "B H K C"],
    values: Float[Tensor, "B H K V"],
    may_attend: Bool[Tensor, "#B #H #Q K"] | None,
    dropout: float,
) -> Float[Tensor, "B H Q V"]:
    """Equation 1, the boxes of Figure 2 (left) from bottom to top."""
    weights = attention_weights(queries, keys, may_attend)
    return F.dropout(weights, dropout) @ values


@dataclass(frozen=True)
class KeyValues:
    """The keys and values that one attention box can be asked about."""

    keys: Float[Tensor, "B H K C"]
    values: Float[Tensor, "B H K V"]

    def rows(self, index: Tensor) -> KeyValues:
        """Pick batch rows, repeats allowed."""
        return KeyValues(self.keys[index], self.values[index])


class MultiHeadAttention(nn.Module):
    """Figure 2 (right): ``num_heads`` small attentions, joined and mixed.

    Figure 1 holds three kinds of attention. All three are this class:

        encoder            attention(x, source=x)
        decoder, lower     attention(x, source=x, may_attend=causal)
        decoder, upper     attention(x, source=encoder_output)
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_k: int,
        d_v: int,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.to_queries = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.to_keys = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.to_values = nn.Linear(d_model, num_heads * d_v, bias=bias)
        self.to_output = nn.Linear(num_heads * d_v, d_model, bias=bias)
        self.attend: AttentionFunction = scaled_dot_product_attention  # to be swapped

    def remember(self, source: Float[Tensor, "B K D"]) -> KeyValues:
        """Compute the keys and values of ``source`` once, for many queries."""
        return KeyValues(
            self._split_heads(self.to_keys(source)),
            self._split_heads(self.to_values(source)),
        )

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        source: Float[Tensor, "B K D"] | KeyValues,
        may_attend: MayAttend | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """Let every position of ``x`` gather what it needs from ``source``."""
        memory = source if isinstance(source, KeyValues) else self.remember(source)
        queries = self._split_heads(self.to_queries(x))
        dropout = self.dropout if self.training else 0.0
        heads = self.attend(queries, memory.keys, memory.values, may_attend, dropout)
        joined = heads.transpose(1, 2).flatten(start_dim=2)  # B H Q V -> B Q HV
        output: Tensor = self.to_output(joined)
        return output

    def _split_heads(self, x: Float[Tensor, "B L HC"]) -> Float[Tensor, "B H L C"]:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
