"""Layers: counts are those of the formulas, and each computes what it should."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from headwise.complexity.benchmark import counted_at
from headwise.complexity.layers import LAYERS, Recurrence, Unrolled
from headwise.complexity.sizes import Sizes

SIZES = [
    Sizes(length=24, width=8, kernel=3, window=5),
    Sizes(length=37, width=12, kernel=5, window=9, batch=3),
    Sizes(length=4, width=6, kernel=7, window=9, batch=2),  # shorter than k and r
    Sizes(length=64, width=1, kernel=9, window=3),
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_torch_counts_as_many_multiply_adds_as_the_formula_says(name, sizes):
    assert counted_at(LAYERS[name], sizes) == LAYERS[name].multiply_adds(sizes)


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    [
        ("self-attention", 2 * 10 * 10 * 3),  # q kᵀ and weights times values
        ("Elman recurrence", 10 * (3 * 3 + 3 * 3)),  # W x + U h at each position
        ("GRU", 10 * 3 * (3 * 3 + 3 * 3)),  # two gates and a candidate
        ("LSTM", 10 * 4 * (3 * 3 + 3 * 3)),  # three gates and a candidate
        ("convolution", 10 * 5 * 3 * 3),  # a matrix for each of five positions
        ("separable convolution", 10 * (5 * 3 + 3 * 3)),
        ("projections of attention", 10 * 4 * 3 * 3),
    ],
)
def test_multiply_adds_worked_out_by_hand(name, multiply_adds):
    """Ten positions, three channels, a kernel of five."""
    sizes = Sizes(length=10, width=3, kernel=5, window=3)

    assert LAYERS[name].multiply_adds(sizes) == multiply_adds


def test_blocks_of_a_window_compute_less_than_twice_what_table_1_says():
    """n is a multiple of r, so that no block is padded."""
    sizes = Sizes(length=90, width=4, kernel=3, window=9)

    counted = LAYERS["restricted self-attention"].multiply_adds(sizes)

    assert counted == 2 * 90 * (2 * 9 - 1) * 4
    assert counted < 2 * (2 * 9 * 90 * 4)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_maps_n_vectors_to_as_many(name):
    for sizes in SIZES:
        x = torch.randn(sizes.batch, sizes.length, sizes.width)
        assert LAYERS[name].make(sizes)(x).shape == x.shape


@pytest.mark.parametrize(
    "name", [n for n, k in LAYERS.items() if k.sequential != "O(1)"]
)
def test_the_recurrence_that_is_counted_is_the_one_that_is_timed(name):
    sizes = Sizes(length=11, width=6, kernel=3, window=3, batch=2)
    layer = LAYERS[name].make(sizes)
    assert isinstance(layer, Recurrence)
    x = torch.randn(2, 11, 6)

    torch.testing.assert_close(Unrolled(layer.layer)(x), layer(x))


def test_fused_attention_is_self_attention():
    x = torch.randn(2, 13, 8)
    readable, fused = (
        LAYERS[name].make(SIZES[0])
        for name in ("self-attention", "fused self-attention")
    )

    torch.testing.assert_close(fused(x), readable(x))


def test_restricted_attention_is_self_attention_within_a_band():
    sizes = replace(SIZES[0], window=5)
    x = torch.randn(2, 13, 8)
    apart = torch.arange(13) - torch.arange(13)[:, None]

    restricted = LAYERS["restricted self-attention"].make(sizes)(x)

    head = x[:, None]
    wanted = F.scaled_dot_product_attention(
        head, head, head, (apart.abs() <= 2)[None, None]
    )
    torch.testing.assert_close(restricted, wanted[:, 0])


def test_a_separable_convolution_reads_k_positions_of_its_own_channel_first():
    sizes = Sizes(length=9, width=4, kernel=3, window=3)
    depthwise, pointwise = LAYERS["separable convolution"].make(sizes)

    assert depthwise.layer.weight.shape == (4, 1, 3)
    assert pointwise.layer.weight.shape == (4, 4, 1)
