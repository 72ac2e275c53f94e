"""Gated convolutions: layers by hand, and torch's convolutions as the oracle."""

import math

import pytest
import torch
from torch.nn import functional as F

from headwise.model import TransformerConfig
from headwise.model.config_checks import CONVOLUTIONAL
from headwise.model.convolutional.layers import (
    DecoderLayer,
    EncoderLayer,
    GatedConvolution,
    dilation_of,
)
from headwise.model.source_attention import SourceMemory

EACH = pytest.mark.parametrize("kind", CONVOLUTIONAL)


def config(kind="convolutional", **changes):
    return TransformerConfig(kind=kind, **{"d_model": 4, "dropout": 0.0, **changes})


def randomized(layer):
    with torch.no_grad():
        for each in layer.parameters():
            each.normal_()
    return layer.double()


def test_a_gated_convolution_worked_out_by_hand():
    """One channel, kernel (1, 2, 3), and the gate open by sigmoid(0) = 1/2.

    Over 1, 10, 100: at its middle 1 + 2 · 10 + 3 · 100 = 321, half of it 160.5.
    """
    layer = GatedConvolution(config(d_model=1, positions="none"), 0)
    with torch.no_grad():
        layer.convolution.weight.zero_()
        layer.convolution.bias.zero_()
        layer.convolution.weight[0, 0] = torch.tensor([1.0, 2.0, 3.0])

    found = layer(torch.tensor([[[1.0], [10.0], [100.0]]]))

    assert found.tolist() == [[[160.5]]]


def test_an_encoder_layer_worked_out_by_hand():
    """As above, with zeros beyond the text: 1, 10 | padding 100.

    (2 + 30) / 2 = 16 and (1 + 20) / 2 = 10.5; plus what came in, times √½.
    """
    layer = EncoderLayer(config(d_model=1, positions="none"), 0)
    kernel = layer.convolution.convolution
    with torch.no_grad():
        kernel.weight.zero_()
        kernel.bias.zero_()
        kernel.weight[0, 0] = torch.tensor([1.0, 2.0, 3.0])
    is_real = torch.tensor([[True, True, False]])

    found = layer(torch.tensor([[[1.0], [10.0], [100.0]]]), is_real)

    expected = torch.tensor([17.0, 20.5]) * math.sqrt(0.5)
    torch.testing.assert_close(found[0, :2, 0], expected)


@EACH
@pytest.mark.parametrize("layer", range(7))
def test_a_decoder_layer_is_a_sum_over_earlier_inputs_and_attention_to_the_source(
    kind, layer
):
    """Position by position, in the order of the paper, without any convolution."""
    made = randomized(DecoderLayer(config(kind, kernel_size=3), layer))
    apart = dilation_of(config(kind), layer)
    x, embedded = torch.randn(2, 2, 40, 4).double()
    keys, values = torch.randn(2, 2, 6, 4).double()
    is_real = torch.arange(6) < torch.tensor([[6], [4]])
    weight, bias = made.convolution.convolution.parameters()

    found, _ = made(
        x, embedded, made.initial_inputs(x), SourceMemory(keys, values, is_real)
    )

    for row, length in enumerate([6, 4]):
        for place in range(40):
            read = [place - 2 * apart, place - apart, place]
            inputs = [x[row, each] if each >= 0 else 0 * bias[:4] for each in read]
            products = [weight[:, :, k] @ given for k, given in enumerate(inputs)]
            a, b = (sum(products) + bias).chunk(2)
            hidden = a * b.sigmoid()
            query = made.to_queries.weight @ hidden + made.to_queries.bias
            query = (query + embedded[row, place]) * math.sqrt(0.5)
            weights = (keys[row, :length] @ query).softmax(0)
            hidden = (hidden + weights @ values[row, :length]) * math.sqrt(0.5)
            expected = (hidden + x[row, place]) * math.sqrt(0.5)
            torch.testing.assert_close(found[row, place], expected)


@EACH
@pytest.mark.parametrize("size", [1, 3, 5])
def test_an_encoder_layer_is_torchs_convolution_of_each_text_with_zeros_around(
    kind, size
):
    for number in range(7):
        layer = randomized(EncoderLayer(config(kind, kernel_size=size), number))
        x = torch.randn(2, 9, 4).double()
        is_real = torch.arange(9) < torch.tensor([[9], [5]])
        weight, bias = layer.convolution.convolution.parameters()
        apart = dilation_of(config(kind), number)

        found = layer(x, is_real)

        for row, length in enumerate([9, 5]):
            text = x[row, :length].T
            side = (size - 1) // 2 * apart
            whole = F.conv1d(text, weight, bias, padding=side, dilation=apart)
            expected = (F.glu(whole, dim=0) + text) * math.sqrt(0.5)
            torch.testing.assert_close(found[row, :length], expected.T)


def test_dilations_double_and_begin_again():
    dilated = [dilation_of(config("dilated"), layer) for layer in range(12)]
    assert dilated == [1, 2, 4, 8, 16, 1, 2, 4, 8, 16, 1, 2]
    assert {dilation_of(config(), layer) for layer in range(12)} == {1}


@EACH
def test_a_decoder_layer_keeps_the_last_inputs_that_it_will_read(kind):
    for number in range(6):
        layer = randomized(DecoderLayer(config(kind, kernel_size=5), number))
        x, earlier = (
            torch.randn(2, 3, 4).double(),
            layer.initial_inputs(torch.ones(2, 1, 4)),
        )
        memory = SourceMemory(x, x, torch.ones(2, 3) > 0)

        _, kept = layer(x, x, earlier.double(), memory)

        reach = 4 * dilation_of(config(kind), number)
        assert kept.shape == (2, reach, 4)
        assert torch.equal(kept[:, -3:], x)
        assert (kept[:, :-3] == 0).all()
