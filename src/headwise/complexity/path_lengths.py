"""Maximum path length of Table 1, by the support of the Jacobian.

A network is a stack of hops. In one hop every position is computed anew from what it
reads directly: a layer, and of a recurrence its cell, once. The path length is the
least number of hops after which every output depends on every input that it may depend
on: on all, or in one direction on those up to its own position. Then the Jacobian
∂ output_i / ∂ input_j is nonzero for all such i and j.

Letters used for sizes: n positions, d channels, k kernel width, r window. As inputs are
moved one by one, n of them are also the batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import jvp
from torch.nn import functional as F

from headwise.complexity.sizes import Size
from headwise.model.attention import scaled_dot_product_attention
from headwise.model.variants.attention import VariantAttention, Window
from headwise.model.variants.scores import SCORES

WIDTH = 4
"""Channels: support does not depend on them."""

DTYPE = torch.float64

Vectors = Float[Tensor, "n n d"]
Hop = Callable[[Vectors, Vectors], Vectors]
"""From the inputs of the network and what the last hop returned to the next vectors."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """Layers of one kind, one on the other."""

    paper: str
    """Maximum path length, in Table 1 or Section 4."""

    formulas: Mapping[bool, str | None]
    """Exact number of hops as text, by whether it runs in one direction alone."""

    num_hops: Callable[[int, int, bool], int | None]
    """The same as a number, of n, of k or r, and of the direction; None: never."""

    hops: Callable[[int, int, bool], Iterator[Hop]]
    """All hops that may bring anything new, the lowest first, of the same."""

    size: Size | None = None
    """The size that it depends on besides n."""


def path_length(
    network: Network, length: int, size: int, *, causal: bool
) -> int | None:
    """Return the number of hops by which the Jacobian gets its full support.

    Weights are drawn, in float64. Each input is moved in a direction of its own, and
    forward-mode differentiation follows it through the hops. None: it never does.
    """
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # Of its own, when torch.func is used for the first time.
        warnings.filterwarnings("ignore", "`torch.jit.script", DeprecationWarning)
        torch.manual_seed(1)
        x = torch.randn(length, WIDTH, dtype=DTYPE).repeat(length, 1, 1)
        moved = torch.zeros(length, length, WIDTH, dtype=DTYPE)
        each = torch.arange(length)
        moved[each, each] = torch.randn(length, WIDTH, dtype=DTYPE)
        wanted = torch.ones(length, length, dtype=torch.bool)
        wanted = wanted.triu() if causal else wanted  # [input, output]
        vectors, tangents = x, moved
        for number, hop in enumerate(network.hops(length, size, causal), start=1):
            # Three with auxiliary outputs, of which there are none.
            vectors, tangents = cast(
                tuple[Tensor, Tensor], jvp(hop, (x, vectors), (moved, tangents))
            )
            if torch.equal((tangents != 0).any(dim=-1), wanted):
                return number
    return None


def attention_hops(length: int, size: int, causal: bool) -> Iterator[Hop]:
    """Yield attention of each position to all, or to those up to itself."""

    def hop(x: Vectors, vectors: Vectors) -> Vectors:
        mask = torch.ones(1, 1, x.shape[1], x.shape[1], dtype=torch.bool)
        head = vectors[:, None]
        mask = mask.tril() if causal else mask
        return scaled_dot_product_attention(head, head, head, mask, 0.0)[:, 0]

    return repeat(hop, length)


def restricted_hops(length: int, size: int, causal: bool) -> Iterator[Hop]:
    """Yield attention to the r positions around each, or to the last r."""
    side = (size - 1) // 2
    window = Window(size - 1, 0) if causal else Window(side, side)
    attend = VariantAttention(SCORES["scaled"](1, WIDTH), window=window)

    def hop(x: Vectors, vectors: Vectors) -> Vectors:
        head = vectors[:, None]
        return attend(head, head, head, None, 0.0)[:, 0]

    return repeat(hop, length)


def convolution_hops(length: int, size: int, causal: bool) -> Iterator[Hop]:
    """Yield convolutions over k positions, centred or over the last k."""
    for _ in range(length):
        yield convolution_hop(size, causal, dilation=1)


def dilated_hops(length: int, size: int, causal: bool) -> Iterator[Hop]:
    """Yield convolutions, each of a dilation k times that of the layer below.

    From a dilation of n on, a kernel reads no other position of the sequence.
    """
    dilation = 1
    while dilation < length:
        yield convolution_hop(size, causal, dilation=dilation)
        dilation *= size


def convolution_hop(size: int, causal: bool, *, dilation: int) -> Hop:
    """Return one convolution with weights of its own."""
    layer = nn.Conv1d(WIDTH, WIDTH, size, dilation=dilation, dtype=DTYPE)
    reach = dilation * (size - 1)
    around = (reach, 0) if causal else (reach // 2, reach // 2)

    def hop(x: Vectors, vectors: Vectors) -> Vectors:
        convolved: Tensor = layer(F.pad(vectors.mT, around))
        return convolved.mT

    return hop


def elman_hops(length: int, size: int, causal: bool) -> Iterator[Hop]:
    """Yield steps of an Elman recurrence, at all positions at once and all the same.

    From zeros, n of them give the states of the whole recurrence: after t of them, the
    first t states are right. In two directions a second cell runs from the end.
    """
    cells = [nn.RNNCell(WIDTH, WIDTH, dtype=DTYPE) for _ in range(1 if causal else 2)]

    def step(x: Vectors, states: Vectors) -> Vectors:
        parts = states.chunk(len(cells), dim=-1)
        steps = [_step_all(cells[0], x, F.pad(parts[0], (0, 0, 1, -1)))]
        if not causal:
            steps.append(_step_all(cells[1], x, F.pad(parts[1], (0, 0, -1, 1))))
        return torch.cat(steps, dim=-1)

    def first(x: Vectors, vectors: Vectors) -> Vectors:
        return step(x, x.new_zeros(*x.shape[:2], WIDTH * len(cells)))

    return chain([first], repeat(step, length - 1))


def _step_all(cell: nn.RNNCell, x: Vectors, before: Vectors) -> Vectors:
    """Return the state at each position from its input and from the state before it."""
    states: Tensor = cell(x.flatten(0, 1), before.flatten(0, 1))
    return states.view(*x.shape[:2], -1)


def _to_reach(distance: int, step: int) -> int:
    """Return how many steps of a length cover a distance; at least one."""
    return max(1, -(-distance // step))


def _dilated_hops(length: int, size: int, causal: bool) -> int | None:
    """Return the least L with k^L ≥ n.

    Of centred kernels there is none, unless one kernel covers all: a distance is the
    sum of one tap of each layer in one way only, and near the ends this leads over
    positions that are not there.
    """
    if not causal:
        return 1 if size >= 2 * length - 1 else None
    hops, reach = 1, size
    while reach < length:
        hops, reach = hops + 1, reach * size
    return hops


def _window_hops(length: int, size: int, causal: bool) -> int:
    return _to_reach(length - 1, size - 1 if causal else (size - 1) // 2)


def _texts(one_direction: str, both: str | None = None) -> Mapping[bool, str]:
    return {True: one_direction, False: both or one_direction}


PATHS: Mapping[str, Network] = {
    "self-attention": Network(
        paper="O(1)",
        formulas=_texts("1"),
        num_hops=lambda n, size, causal: 1,
        hops=attention_hops,
    ),
    "restricted self-attention": Network(
        paper="O(n/r)",
        formulas=_texts("⌈(n − 1) / (r − 1)⌉", "⌈2 (n − 1) / (r − 1)⌉"),
        num_hops=_window_hops,
        hops=restricted_hops,
        size="window",
    ),
    "Elman recurrence": Network(
        paper="O(n)",
        formulas=_texts("n"),
        num_hops=lambda n, size, causal: n,
        hops=elman_hops,
    ),
    "convolution": Network(
        paper="O(n/k)",
        formulas=_texts("⌈(n − 1) / (k − 1)⌉", "⌈2 (n − 1) / (k − 1)⌉"),
        num_hops=_window_hops,
        hops=convolution_hops,
        size="kernel",
    ),
    "dilated convolution": Network(
        paper="O(log_k(n))",
        formulas={True: "⌈log_k n⌉", False: None},
        num_hops=_dilated_hops,
        hops=dilated_hops,
        size="kernel",
    ),
}
"""Kind of layer -> network of such layers."""
