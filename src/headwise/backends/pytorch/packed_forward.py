"""The forward pass of training, without padding: see ``backends.pytorch.packing``.

Letters used for sizes: B batch rows, S source positions, L target positions, N real
tokens of the target, D model width.
"""

from __future__ import annotations

from typing import cast

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.backends.pytorch.packing import PackedMask, Packing
from headwise.model.masks import MayAttend, to_real_tokens, to_the_past
from headwise.model.transformer import Transformer


def decode_real(
    model: Transformer,
    source: Int[Tensor, "B S"],
    target: Int[Tensor, "B L"],
    source_is_real: Bool[Tensor, "B S"],
    target_is_real: Bool[Tensor, "B L"],
) -> Float[Tensor, "N D"]:
    """Return what ``model.decode`` does where the target is real, row after row.

    Its reference is ``model.decode``, which the reference backend goes through; the
    others take no padding through the boxes.
    """
    if model.backend == "reference":
        return model.decode(source, target, source_is_real)[target_is_real]
    heads = model.config.num_heads
    asked, written = (Packing.of(x, heads) for x in (source_is_real, target_is_real))
    of_source = to_real_tokens(source_is_real)
    past = to_the_past(target.shape[1], target.device)

    x = asked.pack(model.enter_encoder(model.source_embedding(source), 0))
    encoded = model.encoder(x, _mask(asked, asked, of_source))
    state = model.decoder.read(encoded, _mask(written, asked, of_source))
    x = written.pack(model.enter_decoder(model.target_embedding(target), 0))
    out: Tensor = model.decoder(x, state, _mask(written, written, past))
    return out[0, : written.num_real]


def _mask(queries: Packing, keys: Packing, may_attend: MayAttend) -> MayAttend:
    """Return what ``fused_attention`` takes in the place of a mask."""
    return cast(MayAttend, PackedMask(queries, keys, may_attend))
