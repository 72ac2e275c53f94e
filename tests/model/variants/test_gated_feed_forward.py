"""Gated feed-forward layers, against the code of others and by hand."""

from dataclasses import replace

import pytest
import torch
from tests.model.conftest import SMALL
from torch.nn import functional as F
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP

from headwise.errors import SettingsError
from headwise.model.feed_forward import FeedForward
from headwise.model.variants.gated_feed_forward import GATES, GatedFeedForward

BY_HAND = {
    "glu": lambda x: 1 / (1 + (-x).exp()),
    "bilinear": lambda x: x,
    "reglu": lambda x: x.clamp(min=0),
    "geglu": lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2,
    "swiglu": lambda x: x / (1 + (-x).exp()),
}


def test_one_word_by_hand():
    """Gate x W = [2 -1], of which ReLU leaves [2 0]; x V = [3 5]; [6 0] W₂ = 6 + 1."""
    layer = GatedFeedForward(1, 2, gate="reglu")
    layer.load_state_dict(
        {
            "gate.weight": torch.tensor([[2.0], [-1.0]]),
            "gate.bias": torch.zeros(2),
            "widen.weight": torch.tensor([[3.0], [5.0]]),
            "widen.bias": torch.zeros(2),
            "narrow.weight": torch.tensor([[1.0, 10.0]]),
            "narrow.bias": torch.tensor([1.0]),
        }
    )
    assert layer(torch.ones(1, 1, 1)).item() == 7


@pytest.mark.parametrize("gate", GATES)
def test_each_follows_its_formula(gate):
    layer = GatedFeedForward(8, 20, gate=gate).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64)

    gated = BY_HAND[gate](layer.gate(x)) * layer.widen(x)

    torch.testing.assert_close(layer(x), layer.narrow(gated))


def test_glu_equals_that_of_torch():
    layer = GatedFeedForward(8, 20, gate="glu")
    x = torch.randn(2, 3, 8)
    both = torch.cat([layer.widen(x), layer.gate(x)], dim=-1)
    torch.testing.assert_close(layer(x), layer.narrow(F.glu(both)))


def test_swiglu_without_biases_equals_that_of_llama():
    theirs = LlamaMLP(
        LlamaConfig(hidden_size=8, intermediate_size=20, num_attention_heads=2)
    )
    ours = GatedFeedForward(8, 20, gate="swiglu")
    with torch.no_grad():
        for each in ours.parameters():
            each.zero_()
        ours.gate.weight.copy_(theirs.gate_proj.weight)
        ours.widen.weight.copy_(theirs.up_proj.weight)
        ours.narrow.weight.copy_(theirs.down_proj.weight)
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(ours(x), theirs(x))


def test_at_two_thirds_of_the_width_it_has_as_many_weights_as_a_plain_layer():
    plain, gated = FeedForward(24, 96), GatedFeedForward(24, 64, gate="geglu")
    counts = [
        sum(each.numel() for each in layer.parameters() if each.dim() == 2)
        for layer in (plain, gated)
    ]
    assert counts[0] == counts[1]


def test_dropout_falls_on_the_product():
    torch.manual_seed(1)
    layer = GatedFeedForward(8, 20, gate="glu", dropout=0.5).train()
    x, given = torch.randn(1, 2, 8), []
    layer.narrow.register_forward_pre_hook(lambda m, inputs: given.append(inputs[0]))
    layer(x)
    gated = torch.sigmoid(layer.gate(x)) * layer.widen(x)
    dropped = given[0] == 0
    assert 0 < dropped.float().mean() < 1
    torch.testing.assert_close(given[0][~dropped], 2 * gated[~dropped])


def test_an_activation_beside_a_gate_is_refused():
    with pytest.raises(SettingsError, match="'gelu' is for feed_forward = 'plain'"):
        replace(SMALL, feed_forward="swiglu", activation="gelu")
