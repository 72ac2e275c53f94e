"""Additive attention: an answer worked out by hand, and laws."""

import math

import torch

from headwise.model.attention_hooks import record_attention_weights
from headwise.model.recurrent.additive_attention import (
    AdditiveAttention,
    additive_weights,
)


def test_an_answer_worked_out_by_hand():
    """With v = (2 / tanh 1, 0), keys (1, 9) and (0, 9), and the query (0, -9).

    The scores are 2 and 0, so that the first weight is e² / (e² + 1). The values 10 and
    20 then have the mean 10 + 10 / (e² + 1).
    """
    attention = AdditiveAttention(2)
    with torch.no_grad():
        attention.to_queries.weight.copy_(torch.eye(2))
        attention.to_queries.bias.zero_()
        attention.to_scores.weight.copy_(torch.tensor([[2 / math.tanh(1), 0.0]]))
    keys = torch.tensor([[[1.0, 9.0], [0.0, 9.0]]])
    values = torch.tensor([[[10.0, 0.0], [20.0, 0.0]]])
    is_real = torch.tensor([[True, True]])

    found = attention(torch.tensor([[[0.0, -9.0]]]), keys, values, is_real)

    mean = 10 + 10 / (math.exp(2) + 1)
    torch.testing.assert_close(found, torch.tensor([[[mean, 0.0]]]))


def test_it_is_the_formula_pair_by_pair():
    queries, keys = torch.randn(2, 3, 4).double(), torch.randn(2, 5, 4).double()
    scale = torch.randn(4).double()
    is_real = torch.arange(5) < torch.tensor([[5], [3]])

    weights = additive_weights(queries, keys, scale, is_real)

    for row, length in enumerate([5, 3]):
        for query, found in zip(queries[row], weights[row], strict=True):
            scores = [(query + key).tanh() @ scale for key in keys[row, :length]]
            expected = torch.stack(scores).softmax(0)
            torch.testing.assert_close(found[:length], expected, rtol=0, atol=1e-12)
            assert (found[length:] == 0).all()


def test_its_weights_can_be_recorded_and_then_it_is_as_before():
    attention = AdditiveAttention(4)
    x, keys, is_real = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.ones(2, 5) > 0

    with record_attention_weights(attention) as record:
        out = attention(x, keys, keys, is_real)

    (weights,) = record[""]
    assert weights.shape == (2, 1, 3, 5)
    torch.testing.assert_close(weights[:, 0] @ keys, out)
    assert attention.weigh is additive_weights
