"""Add & Norm: LayerNorm(x + Sublayer(x)), as Section 3.1 has it."""

import pytest
import torch

from headwise.model.add_and_norm import AddAndNorm


def by_hand(placement):
    layer = AddAndNorm(4, 0.0, placement).double()
    with torch.no_grad():
        layer.norm.weight.copy_(torch.tensor([1.0, 2, 3, 4]))
        layer.norm.bias.copy_(torch.tensor([10.0, 20, 30, 40]))
    return layer


def rows(*numbers):
    return torch.tensor([numbers], dtype=torch.float64)


def test_layer_normalization_of_two_words():
    """Worked by hand, word by word.

    x + out = [2 2 6 6]: mean 4, variance 4, standard deviation 2, so [−1 −1 1 1];
    times the gain [1 2 3 4], plus the bias [10 20 30 40]: [9 18 33 44].
    x + out = [0 0 0 12]: mean 3, variance 27, standard deviation 3√3, so
    [−1 −1 −1 3] / √3. Dividing by the variance would give [−1 −1 1 1] / 2 for the
    first.
    """
    layer = by_hand("post")
    x = rows([1, 0, 4, 3], [5, -1, 0, 12])
    out = rows([1, 2, 2, 3], [-5, 1, 0, 0])

    normal = layer.add_residual(x, out)

    third = torch.tensor([-1.0, -2, -3, 12], dtype=torch.float64) / 3**0.5
    second = torch.tensor([10.0, 20, 30, 40], dtype=torch.float64) + third
    expected = torch.stack([rows(9, 18, 33, 44)[0], second])[None]
    torch.testing.assert_close(normal, expected, rtol=0, atol=1e-4)  # ε = 1e-5


def test_layer_normalization_is_position_wise():
    layer = AddAndNorm(4, 0.0, "post")
    x, out = torch.randn(2, 2, 5, 4)

    whole = layer.add_residual(x, out)

    torch.testing.assert_close(
        layer.add_residual(x[:1, 2:3], out[:1, 2:3]), whole[:1, 2:3]
    )
    torch.testing.assert_close(whole.mean(-1), torch.zeros(2, 5), atol=1e-6, rtol=0)


def test_post_norm_leaves_the_sublayer_input_as_it_is():
    x = torch.randn(1, 3, 4, dtype=torch.float64)

    assert by_hand("post").sublayer_input(x) is x


def test_pre_norm_normalizes_the_sublayer_input_and_not_the_sum():
    x, out = torch.randn(2, 1, 3, 4, dtype=torch.float64)
    layer = by_hand("pre")

    torch.testing.assert_close(
        layer.sublayer_input(x), by_hand("post").add_residual(x, 0 * x)
    )
    torch.testing.assert_close(layer.add_residual(x, out), x + out)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_dropout_applies_to_the_sublayer_output_and_not_to_the_residual(placement):
    layer = AddAndNorm(4, 0.5, placement).train()
    layer.norm = torch.nn.Identity()
    x = torch.zeros(1, 50, 4)

    untouched = layer.add_residual(x + 7, x)
    dropped = layer.add_residual(x, x + 7)

    assert (untouched == 7).all()
    assert set(dropped.unique().tolist()) == {0, 14}
