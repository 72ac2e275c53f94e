"""The way through a :class:`Transformer` in training: fast, or readable.

Letters used for sizes: B batch rows, S source positions, L target positions, N real
tokens of the target, D model width.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.model.add_and_norm import AddAndNorm
from headwise.model.attention import MultiHeadAttention, readable_attention
from headwise.model.dropout import Dropout
from headwise.model.fused_attention import fused_attention
from headwise.model.kernels import Kernels
from headwise.model.masks import to_real_tokens, to_the_past
from headwise.model.packing import PackedMask, Packing
from headwise.model.transformer import Transformer


def use_kernels(model: Transformer, kernels: Kernels) -> None:
    """Let ``model`` go through its boxes the fast way or the readable one.

    Both mean the same: see :mod:`headwise.model.kernels`. What is to be compiled is
    called the fast way wherever it is not (:mod:`headwise.model.rows`).
    """
    model.kernels = kernels
    fast = kernels != "readable"
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.attend = fused_attention if fast else readable_attention
        elif isinstance(module, AddAndNorm | Dropout):
            module.fast = fast


def decode_real(
    model: Transformer,
    source: Int[Tensor, "B S"],
    target: Int[Tensor, "B L"],
    source_is_real: Bool[Tensor, "B S"],
    target_is_real: Bool[Tensor, "B L"],
) -> Float[Tensor, "N D"]:
    """Return what ``model.decode`` does where the target is real, row after row.

    The fast way takes no padding through the boxes: see
    :mod:`headwise.model.packing`.
    """
    if model.kernels == "readable":
        return model.decode(source, target, source_is_real)[target_is_real]
    heads = model.config.num_heads
    asked, written = (Packing.of(x, heads) for x in (source_is_real, target_is_real))
    of_source = to_real_tokens(source_is_real)
    past = to_the_past(target.shape[1], target.device)

    x = asked.pack(model.enter_encoder(model.source_embedding(source), 0))
    encoded = model.encoder(x, PackedMask(asked, asked, of_source))
    state = model.decoder.read(encoded, PackedMask(written, asked, of_source))
    x = written.pack(model.enter_decoder(model.target_embedding(target), 0))
    out: Tensor = model.decoder(x, state, PackedMask(written, written, past))
    return out[0, : written.num_real]
