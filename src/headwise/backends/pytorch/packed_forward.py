"""The forward pass of training, without padding: see ``backends.pytorch.packing``.

Letters used for sizes: B batch rows, S source positions, L target positions, N real
tokens of the target, D model width.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.backends.pytorch.packing import PackedMask, Packing
from headwise.model.masks import to_real_tokens, to_the_past
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
    encoded = model.encoder(x, PackedMask(asked, asked, of_source))
    state = model.decoder.read(encoded, PackedMask(written, asked, of_source))
    x = written.pack(model.enter_decoder(model.target_embedding(target), 0))
    out: Tensor = model.decoder(x, state, PackedMask(written, written, past))
    return out[0, : written.num_real]
