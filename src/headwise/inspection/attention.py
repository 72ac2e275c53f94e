"""Attention weights of every layer and head, their norms, and attention rollout.

Letters used for sizes in this file:

    H  heads                Q  positions that attend
    D  model width          K  positions that are attended to
    V  channels of a value
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from headwise.errors import ResourceError, UsageError
from headwise.evaluation_mode import evaluation_mode
from headwise.inspection.hooks import (
    AttentionCall,
    OnCall,
    observe_attention,
)
from headwise.inspection.patch_grid import PatchGrid
from headwise.inspection.places import (
    AttentionName,
    Head,
    all_heads,
    attention_layers,
    config_of,
    find_head,
)
from headwise.inspection.token_pair import TokenPair, run_model
from headwise.model.attention import MultiHeadAttention
from headwise.model.attention_hooks import record_attention_weights
from headwise.model.config import TransformerConfig
from headwise.model.encoder_decoder import EncoderDecoder

MAX_WEIGHTS = 200_000_000
"""Most weights and norms that are kept at a time: 800 MB in float32."""


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention of one head."""

    head: Head

    weights: Tensor
    """[Q K]; each row sums to 1, and is exactly 0 where attention is masked."""

    norms: Tensor | None = None
    """[Q K], ||a f(x)||: the length of what a position gets from each other one, the
    weight a times its value after W^O. Kobayashi et al. (2020), Attention is Not Only a
    Weight."""


@dataclass(frozen=True, eq=False)
class LayerNorms:
    """The same norms of all heads of a layer together."""

    attention: AttentionName
    norms: Tensor
    """[Q K], ||Σ a f(x)|| with the sum over heads, whose vectors may cancel out."""


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of a model for one pair.

    Rows of ``encoder`` heads are pieces of the source, and so are columns. Rows of
    ``decoder`` and ``cross`` heads are pieces of the target as they are predicted;
    columns are the decoder input, or the source.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    decoder_input: tuple[str, ...]
    maps: tuple[AttentionMap, ...]
    layer_norms: tuple[LayerNorms, ...] = ()
    """Of the layers all of whose heads were asked for, if norms were."""

    rollout: Tensor | None = None
    """[S S] over the source, or [T T] over a text of a decoder alone: how much of each
    position's last vector stems from each position of the input, as the weights alone
    say. Abnar and Zuidema (2020), Quantifying Attention Flow in Transformers."""

    patches: PatchGrid | None = None
    """Where the patches lie that ``source`` names; None of a text."""

    tree: str | None = None
    """Of a parser, the tree in brackets that the target is."""

    def labels(self, head: Head) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the pieces of the rows and of the columns of a head."""
        if head.kind == "encoder":
            return self.source, self.source
        return self.target, (
            self.source if head.kind == "cross" else self.decoder_input
        )

    def of(self, head: Head) -> AttentionMap:
        """Return the map of one head."""
        return next(each for each in self.maps if each.head == head)


@torch.no_grad()
def attention_of(
    model: nn.Module,
    pair: TokenPair,
    *,
    heads: Collection[Head] | None = None,
    norms: bool = False,
    rollout: bool = False,
) -> Attention:
    """Return the attention of ``heads``, by default of all, as ``pair`` is run.

    Layers are reduced to what was asked for as they are computed, so memory is that of
    the result and of one layer. Raises ``UsageError`` for a head that there is not, and
    for norms or a rollout of a variant that has other ones; ``ResourceError`` if the
    result has more than ``MAX_WEIGHTS`` numbers.
    """
    layers = attention_layers(model)
    _check_variants(model, norms=norms, rollout=rollout)
    wanted = sorted(set(all_heads(model) if heads is None else heads))
    for head in wanted:
        find_head(model, head)
    _check_size(pair, wanted, norms)
    maps: dict[Head, AttentionMap] = {}
    sums: dict[AttentionName, Tensor] = {}
    means: dict[AttentionName, Tensor] = {}

    def observe(
        name: AttentionName, layer: MultiHeadAttention, call: AttentionCall
    ) -> None:
        chosen = [head for head in wanted if head.attention == name]
        for head in chosen:
            maps[head] = AttentionMap(head, call.weights[0, head.head].clone())
        if norms and chosen:
            vectors = value_vectors(layer, call.values[0])
            for head in chosen:
                lengths = vectors[head.head].norm(dim=-1)
                found = maps[head]
                maps[head] = replace(found, norms=found.weights * lengths)
            if len(chosen) == layer.num_heads:
                sums[name] = norms_of_sums(call.weights[0], vectors)
        if rollout and name.kind == rolled:
            means[name] = call.weights[0].mean(dim=0)

    rolled = "encoder" if pair.source else "decoder"
    observers: dict[MultiHeadAttention, OnCall] = {
        layer: partial(observe, name, layer) for name, layer in layers.items()
    }
    with evaluation_mode(model), observe_attention(observers):
        run_model(model, pair)
    return Attention(
        pair.source_pieces,
        pair.target_pieces,
        pair.decoder_pieces,
        tuple(maps[head] for head in all_heads(model) if head in maps),
        tuple(LayerNorms(name, found) for name, found in sums.items()),
        attention_rollout(list(means.values())) if means else None,
        pair.patches,
        pair.tree,
    )


@torch.no_grad()
def attention_to_source(
    model: EncoderDecoder, pair: TokenPair, *, heads: Collection[Head] | None = None
) -> Attention:
    """Return the attention of a decoder that is no Transformer: ``cross.LAYER.0``.

    Raises ``UsageError`` for other heads, and if there is no attention.
    """
    known = heads_to_source(model.config)
    if not known:
        raise UsageError(f"this {type(model).__name__} has no attention to look into")
    if wrong := set(heads or ()) - {*known}:
        raise UsageError(
            f"there is no head {min(wrong)}: the attention of a "
            f"{type(model).__name__} has {', '.join(map(str, known))}"
        )
    with evaluation_mode(model), record_attention_weights(model) as record:
        run_model(model, pair)
    recorded = [weights[0, 0] for (weights,) in record.values()]
    chosen = known if heads is None else [each for each in known if each in heads]
    return Attention(
        pair.source_pieces,
        pair.target_pieces,
        pair.decoder_pieces,
        tuple(AttentionMap(head, recorded[head.layer]) for head in chosen),
        tree=pair.tree,
    )


def heads_to_source(config: TransformerConfig) -> list[Head]:
    """Return every head of cross-attention: of a recurrent model ``cross.0.0``.

    A convolutional one has one for each layer of its decoder.
    """
    layers, heads = config.cross_attention_shape
    return [
        Head("cross", layer, head) for layer in range(layers) for head in range(heads)
    ]


def value_vectors(layer: MultiHeadAttention, values: Tensor) -> Tensor:
    """Return f(x) [H K D] of values [H K V]: each times its head's slice of W^O."""
    width = values.shape[-1]
    return torch.stack(
        [
            each @ layer.to_output.weight[:, head * width : (head + 1) * width].T
            for head, each in enumerate(values)
        ]
    )


def norms_of_sums(weights: Tensor, vectors: Tensor) -> Tensor:
    """Return ||Σ a f(x)|| [Q K] of weights [H Q K] and vectors f(x) [H K D].

    By products of the vectors of each two heads, in float64, so that no [Q K D] is in
    memory.
    """
    exact = vectors.double()
    products = torch.einsum("hkd,gkd->hgk", exact, exact)
    squares = torch.zeros(weights.shape[1:], dtype=torch.double, device=weights.device)
    for head, of_head in enumerate(weights.double()):
        for other, of_other in enumerate(weights.double()):
            squares += of_head * of_other * products[head, other]
    return squares.clamp(min=0).sqrt().to(weights.dtype)


def attention_rollout(layers: list[Tensor]) -> Tensor:
    """Return the rollout [L L] of the mean weights [L L] of each layer, first to last.

    The residual connection counts as much as attention does: each layer passes on
    (A + I) / 2, and the rollout is their product, the last layer's on the left.
    """
    identity = torch.eye(len(layers[0]), dtype=layers[0].dtype, device=layers[0].device)
    rolled = identity
    for weights in layers:
        rolled = (weights + identity) / 2 @ rolled
    return rolled


def _check_variants(model: nn.Module, *, norms: bool, rollout: bool) -> None:
    config = config_of(model)
    if norms and config.positions == "shaw":
        raise UsageError(
            "norms are those of weighted values, to which model.positions = 'shaw' "
            "adds vectors of distances; the weights can be shown"
        )
    if rollout and config.residual != "all":
        raise UsageError(
            "attention rollout assumes a residual connection around each layer, and "
            f"model.residual is {config.residual!r}; the weights can be shown"
        )


def _check_size(pair: TokenPair, heads: list[Head], norms: bool) -> None:
    sizes = {
        "encoder": len(pair.source) ** 2,
        "decoder": len(pair.target) ** 2,
        "cross": len(pair.source) * len(pair.target),
    }
    count = sum(sizes[head.kind] for head in heads) * (2 if norms else 1)
    if count > MAX_WEIGHTS:
        raise ResourceError(
            f"the attention of {len(heads)} heads over {len(pair.source):,} and "
            f"{len(pair.target):,} tokens has {count:,} numbers, more than the "
            f"{MAX_WEIGHTS:,} that are kept at a time; choose fewer heads"
        )
