"""Feed-forward: Equation 2, position-wise."""

from typing import get_args

import pytest
import torch

from headwise.model.config import ActivationName
from headwise.model.feed_forward import ACTIVATIONS, FeedForward


def test_equation_2_on_one_word():
    """Worked by hand: x = [1 −1], W₁ has the columns [1 0], [0 1], [1 1].

    x W₁ + b₁ = [1 −1 0] + [0 0 5] = [1 −1 5]; max(0, ·) = [1 0 5];
    W₂ has the rows [1 2], [100 100], [0 1]; b₂ = [0 10]:
    [1 2] + 5 [0 1] + [0 10] = [1 17].
    """
    layer = FeedForward(2, 3)
    with torch.no_grad():
        layer.widen.weight.copy_(torch.tensor([[1.0, 0], [0, 1], [1, 1]]))
        layer.widen.bias.copy_(torch.tensor([0.0, 0, 5]))
        layer.narrow.weight.copy_(torch.tensor([[1.0, 100, 0], [2, 100, 1]]))
        layer.narrow.bias.copy_(torch.tensor([0.0, 10]))

    out = layer(torch.tensor([[[1.0, -1.0]]]))

    torch.testing.assert_close(out, torch.tensor([[[1.0, 17.0]]]))


def test_it_is_two_convolutions_of_kernel_size_1():
    """Section 3.3 says so; gradients agree as well."""
    layer = FeedForward(8, 20).double()
    first = torch.nn.Conv1d(8, 20, kernel_size=1).double()
    second = torch.nn.Conv1d(20, 8, kernel_size=1).double()
    with torch.no_grad():
        first.weight.copy_(layer.widen.weight[:, :, None])
        second.weight.copy_(layer.narrow.weight[:, :, None])
        first.bias.copy_(layer.widen.bias)
        second.bias.copy_(layer.narrow.bias)
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)

    ours = layer(x)
    theirs = second(first(x.mT).relu()).mT

    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    direction = torch.randn_like(ours)
    torch.testing.assert_close(
        *(torch.autograd.grad(out, x, direction)[0] for out in (ours, theirs)),
        rtol=0,
        atol=1e-12,
    )


def test_feed_forward_is_position_wise():
    layer = FeedForward(8, 20)
    x = torch.randn(1, 6, 8)
    order = torch.tensor([3, 0, 5, 1, 4, 2])

    whole = layer(x)

    torch.testing.assert_close(layer(x[:, order]), whole[:, order])
    torch.testing.assert_close(layer(x[:, 2:3]), whole[:, 2:3])


DEFINITIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2,
    "swish": lambda x: x / (1 + torch.exp(-x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_what_its_name_says(name):
    x = torch.linspace(-4, 4, 81)

    activated = FeedForward(2, 2, activation=name).activation(x)

    torch.testing.assert_close(activated, DEFINITIONS[name](x))


def test_every_activation_that_settings_offer_exists():
    assert set(ACTIVATIONS) == set(get_args(ActivationName))


def test_feed_forward_has_no_dropout_inside_unless_configured():
    x = torch.randn(1, 3, 8)
    plain = FeedForward(8, 20).train()
    dropped = FeedForward(8, 20, dropout=0.5).train()

    assert torch.equal(plain(x), plain(x))
    assert not torch.equal(dropped(x), dropped(x))
    assert torch.equal(dropped.eval()(x), dropped(x))


def test_feed_forward_dropout_applies_after_the_activation():
    x = torch.randn(1, 3, 8)
    layer, given = FeedForward(8, 20, dropout=0.5).train(), []
    layer.dropout.register_forward_hook(lambda _, seen, __: given.append(seen[0]))

    layer(x)

    torch.testing.assert_close(given, [layer.widen(x).relu()])
