"""Chains of dependent operations, and peaks of memory."""

import pytest
import torch
from torch import nn

from headwise.complexity.benchmark import chain_of
from headwise.complexity.counting import longest_chain
from headwise.complexity.layers import LAYERS
from headwise.complexity.memory import peak_bytes
from headwise.complexity.sizes import Sizes


class Two(nn.Module):
    """Two chains, of three operations and of one, which a fourth joins; two views."""

    def forward(self, x):
        long = x.exp().T.cos().sin()
        return long.T + x.exp()


def test_the_longest_chain_of_a_small_graph():
    assert longest_chain(Two(), torch.randn(3, 3)) == 4


@pytest.mark.parametrize("name", LAYERS)
def test_only_recurrences_wait_for_every_position(name):
    """As Table 1 says: O(n) sequential operations, or O(1)."""
    per_position, _ = chain_of(LAYERS[name])

    assert (per_position > 0) == (LAYERS[name].sequential == "O(n)")


def test_an_elman_step_is_a_product_an_addition_and_a_tanh():
    """The product with the input needs no earlier state: it waits for nothing."""
    per_position, _ = chain_of(LAYERS["Elman recurrence"])

    assert per_position == 3


class Thrice(nn.Module):
    """Holds two further tensors of the size of x at once, then one."""

    def forward(self, x):
        one = x + 1
        other = one * 2
        del one
        return other.exp_()


def test_the_peak_is_what_is_held_at_once():
    x = torch.randn(1000, 100)

    peak = peak_bytes(Thrice(), x)

    assert 2 * x.nbytes <= peak < 2 * x.nbytes + 100  # torch makes tensors of 1 and 2


def test_self_attention_holds_three_square_matrices_and_fused_attention_none():
    sizes = Sizes(length=512, width=16, kernel=3, window=3, batch=2)
    x = torch.randn(2, 512, 16)
    square = 2 * 512 * 512 * 4

    full = peak_bytes(LAYERS["self-attention"].make(sizes), x)
    fused = peak_bytes(LAYERS["fused self-attention"].make(sizes), x)

    assert 3 * square <= full < 3.2 * square
    assert fused < 0.5 * square


def test_the_same_call_always_has_the_same_peak():
    sizes = Sizes(length=64, width=16, kernel=3, window=9, batch=2)
    x = torch.randn(2, 64, 16)
    for kind in LAYERS.values():
        layer = kind.make(sizes)
        assert peak_bytes(layer, x) == peak_bytes(layer, x) > 0
