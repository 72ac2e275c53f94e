"""Cross-entropy: right by hand, and the same whether or not all logits are kept."""

import math

import pytest
import torch

from headwise import losses
from headwise.losses import (
    chunk_with_gradients,
    chunked_cross_entropy,
    cross_entropy,
    projected_cross_entropy,
)

SMOOTHING = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3, 1.0])
BIAS = pytest.mark.parametrize("with_bias", [False, True])


@pytest.fixture
def few_rows_at_once(monkeypatch):
    """Make a chunk so small that 10 tokens need three, and the last is not full."""
    monkeypatch.setattr(losses, "BYTES_AT_ONCE", 4 * 7 * 8)


def numbers(*, with_bias, rows=10, dtype=torch.float64):
    hidden = torch.randn(rows, 6, dtype=dtype, requires_grad=True)
    vectors = torch.randn(7, 6, dtype=dtype, requires_grad=True)
    bias = torch.randn(7, dtype=dtype, requires_grad=True) if with_bias else None
    return (hidden, vectors, bias), torch.randint(7, (rows,))


def with_all_logits(hidden, vectors, bias, targets, smoothing):
    logits = hidden @ vectors.T
    return cross_entropy(logits if bias is None else logits + bias, targets, smoothing)


def test_three_words_by_hand():
    """h = [ln 2] against the vectors 1, 0, 0: probabilities 2, 1, 1 in 4.

    The right word is the first: −ln 1/2 = ln 2. With ε = 0.3 it gets 0.7 + 0.1 and the
    others 0.1 each: 0.8 ln 2 + 0.2 ln 4 = 1.2 ln 2. There the gradient at the logits
    is p − q = [−0.3 0.15 0.15], at h so −0.3, at the vectors that times ln 2.
    """
    hidden = torch.tensor([[math.log(2)]], requires_grad=True)
    vectors = torch.tensor([[1.0], [0], [0]], requires_grad=True)
    right = torch.tensor([0])

    plain = projected_cross_entropy(hidden, vectors, None, right, 0.0)
    smooth = projected_cross_entropy(hidden, vectors, None, right, 0.3)
    smooth.backward()

    assert plain.item() == pytest.approx(math.log(2))
    assert smooth.item() == pytest.approx(1.2 * math.log(2))
    assert hidden.grad.item() == pytest.approx(-0.3)
    expected = torch.tensor([[-0.3], [0.15], [0.15]]) * math.log(2)
    torch.testing.assert_close(vectors.grad, expected)


@SMOOTHING
def test_cross_entropy_equals_its_formula(smoothing):
    """−Σ q ln p, with q written out."""
    logits, targets = torch.randn(5, 7).double(), torch.randint(7, (5,))
    q = torch.full((5, 7), smoothing / 7).double()
    q[range(5), targets] += 1 - smoothing

    expected = -(q * logits.log_softmax(-1)).sum()

    torch.testing.assert_close(cross_entropy(logits, targets, smoothing), expected)


def test_a_sum_over_two_batches_is_the_sum_over_both():
    logits, targets = torch.randn(5, 7).double(), torch.randint(7, (5,))

    parts = [
        cross_entropy(logits[part], targets[part], 0.1)
        for part in (slice(2), slice(2, 5))
    ]

    torch.testing.assert_close(sum(parts), cross_entropy(logits, targets, 0.1))


@pytest.mark.usefixtures("few_rows_at_once")
@SMOOTHING
@BIAS
@pytest.mark.parametrize("rows", [1, 4, 8, 10])
def test_value_and_all_gradients_equal_those_with_all_logits(
    smoothing, with_bias, rows
):
    inputs, targets = numbers(with_bias=with_bias, rows=rows)
    wanted = [x for x in inputs if x is not None]

    ours = projected_cross_entropy(*inputs, targets, smoothing)
    plain = with_all_logits(*inputs, targets, smoothing)

    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(
        torch.autograd.grad(3 * ours, wanted),
        torch.autograd.grad(3 * plain, wanted),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("few_rows_at_once")
@SMOOTHING
@BIAS
def test_gradients_of_the_loss_equal_finite_differences(smoothing, with_bias):
    inputs, targets = numbers(with_bias=with_bias)

    assert torch.autograd.gradcheck(
        lambda *x: projected_cross_entropy(*x, targets, smoothing), inputs
    )


@BIAS
def test_the_loss_in_float32_is_near_that_in_float64(with_bias):
    inputs, targets = numbers(with_bias=with_bias)
    single = [None if x is None else x.detach().float() for x in inputs]

    rough = projected_cross_entropy(*single, targets, 0.1)

    assert rough.dtype == torch.float32
    exact = projected_cross_entropy(*inputs, targets, 0.1)
    torch.testing.assert_close(rough.double(), exact, rtol=1e-6, atol=0)


@pytest.mark.usefixtures("few_rows_at_once")
@BIAS
def test_autocast_applies_to_matrix_products_only(with_bias):
    """bfloat16 has 8 bits: about 1 part in 256 for a product, gradients in float32."""
    inputs, targets = numbers(with_bias=with_bias, dtype=torch.float32)
    wanted = [x for x in inputs if x is not None]
    exact = torch.autograd.grad(projected_cross_entropy(*inputs, targets, 0.1), wanted)

    with torch.autocast("cpu", torch.bfloat16):
        loss = projected_cross_entropy(*inputs, targets, 0.1)
    rough = torch.autograd.grad(loss, wanted)

    assert loss.dtype == torch.float32
    for near, true in zip(rough, exact, strict=True):
        assert near.dtype == torch.float32
        assert 0 < (near - true).norm() < 0.02 * true.norm()


@BIAS
def test_a_word_of_no_probability_at_all_has_a_finite_loss(with_bias):
    """e^-200 is 0 in float32; its logarithm is taken from the scores instead."""
    hidden = torch.tensor([[200.0], [1.0]], requires_grad=True)
    vectors = torch.tensor([[0.0], [1.0]], requires_grad=True)
    bias = torch.zeros(2, requires_grad=True) if with_bias else None
    targets = torch.tensor([0, 0])

    ours = projected_cross_entropy(hidden, vectors, bias, targets, 0.1)

    plain = with_all_logits(hidden, vectors, bias, targets, 0.1)
    torch.testing.assert_close(ours, plain)
    assert ours.item() > 180


def test_weights_alone_may_want_a_gradient():
    """As when only the output matrix is trained."""
    (hidden, vectors, _), targets = numbers(with_bias=False)
    frozen = hidden.detach()

    projected_cross_entropy(frozen, vectors, None, targets, 0.1).backward()

    expected = torch.autograd.grad(
        with_all_logits(hidden, vectors, None, targets, 0.1), vectors
    )
    torch.testing.assert_close(vectors.grad, expected[0])


def test_no_gradient_is_made_where_none_is_wanted():
    inputs, targets = numbers(with_bias=True)

    with torch.no_grad():
        loss = projected_cross_entropy(*inputs, targets, 0.1)

    assert not loss.requires_grad
    torch.testing.assert_close(loss, with_all_logits(*inputs, targets, 0.1))


def test_a_second_derivative_is_refused_rather_than_wrong():
    inputs, targets = numbers(with_bias=False)
    loss = projected_cross_entropy(*inputs, targets, 0.1)
    (gradient,) = torch.autograd.grad(loss, inputs[0], create_graph=True)

    with pytest.raises(RuntimeError, match="does not require grad"):
        gradient.sum().backward()


def test_the_loss_of_no_tokens_is_0():
    (hidden, vectors, _), targets = numbers(with_bias=False, rows=0)

    loss = projected_cross_entropy(hidden, vectors, None, targets, 0.1)
    loss.backward()

    assert loss.item() == 0
    assert (vectors.grad == 0).all()


@SMOOTHING
@BIAS
@pytest.mark.parametrize("pieces", [1, 3, 12])
def test_pieces_agree_with_all_logits_of_the_rows_that_count(
    smoothing, with_bias, pieces
):
    """Rows that do not count are not looked at, whatever they hold."""
    inputs, targets = numbers(with_bias=with_bias, rows=12)
    counted = torch.arange(12) % 3 != 1
    chosen = (inputs[0][counted], *inputs[1:])
    expected = with_all_logits(*chosen, targets[counted], smoothing)
    wanted = torch.autograd.grad(3 * expected, [x for x in inputs if x is not None])
    with torch.no_grad():
        inputs[0][~counted] = 1e3

    found = chunked_cross_entropy(
        *inputs,
        targets,
        counted,
        smoothing,
        pieces=pieces,
        piece=chunk_with_gradients,
    )
    got = torch.autograd.grad(3 * found, [x for x in inputs if x is not None])

    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(got, wanted)
