"""The forward pass of training on packed batches: see ``backends.pytorch.packing``.

Its reference is ``Transformer.decode``; ``tests/backends/pytorch/test_unpadding.py``
holds values and gradients equal.

Letters used for sizes: B batch rows, S source positions, L target positions, N real
tokens of the target, D model width.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.backends.pytorch.unpadding import PackedMask, Packing
from headwise.model.masks import make_causal_mask, make_padding_mask
from headwise.model.transformer import Transformer


def decode_packed(
    model: Transformer,
    source: Int[Tensor, "B S"],
    target: Int[Tensor, "B L"],
    source_is_real: Bool[Tensor, "B S"],
    target_is_real: Bool[Tensor, "B L"],
) -> Float[Tensor, "N D"]:
    """Return the decoder's output at the N real target tokens, sentence by sentence.

    The reference backend calls ``model.decode`` and drops the padding afterwards.
    """
    if model.backend == "reference":
        return model.decode(source, target, source_is_real)[target_is_real]
    heads = model.config.num_heads
    sources, targets = (Packing.of(x, heads) for x in (source_is_real, target_is_real))
    padding_mask = make_padding_mask(source_is_real)
    causal_mask = make_causal_mask(target.shape[1], target.device)

    x = sources.pack(model.enter_encoder(model.source_embedding(source), 0))
    encoded = model.encoder(x, PackedMask(sources, sources, padding_mask))
    state = model.decoder.initial_state(
        encoded, PackedMask(targets, sources, padding_mask)
    )
    x = targets.pack(model.enter_decoder(model.target_embedding(target), 0))
    out: Tensor = model.decoder(x, state, PackedMask(targets, targets, causal_mask))
    return out[0, : targets.num_real]
