"""Look inside while a model runs: what each attention box weighs.

Letters used for sizes: B batch rows, H heads, Q positions that ask, K positions that
are asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Bool, Float
from torch import Tensor, nn

from headwise.model.attention import (
    AttentionFunction,
    MultiHeadAttention,
    attention_weights,
    scaled_dot_product_attention,
)

Seen = dict[str, list[Float[Tensor, "B H Q K"]]]
"""Name of a box, such as ``decoder.blocks.0.cross_attention``, to what it weighed."""


@contextmanager
def attention_seen(model: nn.Module) -> Iterator[Seen]:
    """Note what every attention box of ``model`` weighs, one tensor for each call.

    Outputs stay as they are, up to rounding: the readable way stands in for the fast
    one, which never has the weights in one piece.
    """
    boxes = {
        name: box
        for name, box in model.named_modules()
        if isinstance(box, MultiHeadAttention)
    }
    before = {name: box.attend for name, box in boxes.items()}
    seen: Seen = {name: [] for name in boxes}
    for name, box in boxes.items():
        box.attend = _noting(seen[name])
    try:
        yield seen
    finally:
        for name, box in boxes.items():
            box.attend = before[name]


def _noting(seen: list[Tensor]) -> AttentionFunction:
    def attend(
        queries: Float[Tensor, "B H Q C"],
        keys: Float[Tensor, "B H K C"],
        values: Float[Tensor, "B H K V"],
        may_attend: Bool[Tensor, "#B #H #Q K"] | None,
        dropout: float,
    ) -> Float[Tensor, "B H Q V"]:
        seen.append(attention_weights(queries, keys, may_attend).detach())
        return scaled_dot_product_attention(queries, keys, values, may_attend, dropout)

    return attend
