"""Attention of one head: answers worked out by hand, and laws."""

import math

import pytest
import torch
from torch.nn import functional as F

from headwise.model.attention_hooks import record_attention_weights
from headwise.model.source_attention import (
    SOURCE_ATTENTIONS,
    AdditiveAttention,
    SourceMemory,
    additive_weights,
    cosine,
    dot_product,
    similarity_weights,
)

MAKERS = {name: make for name, make in SOURCE_ATTENTIONS.items() if make}
EACH = pytest.mark.parametrize("name", MAKERS)


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

    found = attention(
        torch.tensor([[[0.0, -9.0]]]), SourceMemory(keys, values, is_real)
    )

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


def test_cosines_and_dot_products_worked_out_by_hand():
    """The query (3, 4) and the keys (4, 3) and (-6, -8).

    The cosines are 24/25 and -1, the dot products 24 and -50. So the first weight is
    1 / (1 + e^(-1 - 0.96)) by cosines, and by dot products 1 up to e^-74.
    """
    query = torch.tensor([[[3.0, 4.0]]])
    keys = torch.tensor([[[4.0, 3.0], [-6.0, -8.0]]])
    is_real = torch.tensor([[True, True]])

    by_cosine = similarity_weights(query, keys, cosine, is_real)
    by_dot_product = similarity_weights(query, keys, dot_product, is_real)

    first = 1 / (1 + math.exp(-1.96))
    torch.testing.assert_close(by_cosine, torch.tensor([[[first, 1 - first]]]))
    torch.testing.assert_close(by_dot_product, torch.tensor([[[1.0, 0.0]]]))


def test_dot_products_are_torchs_attention_without_a_scale():
    x, keys, values = torch.randn(3, 2, 4, 6).double()
    is_real = torch.arange(4) < torch.tensor([[4], [2]])
    attention = MAKERS["dot"](6)

    found = attention(x, SourceMemory(keys, values, is_real))

    mask = is_real[:, None]
    expected = F.scaled_dot_product_attention(x, keys, values, mask, scale=1.0)
    torch.testing.assert_close(found, expected)


def test_a_weight_by_cosines_is_at_most_e_squared_times_another():
    """And the length of a query or a key changes nothing."""
    queries, keys = torch.randn(2, 3, 5, 8).double()
    is_real = torch.ones(3, 5) > 0

    weights = similarity_weights(queries, keys, cosine, is_real)

    assert (weights.amax(-1) / weights.amin(-1)).max() <= math.exp(2)
    longer = similarity_weights(9 * queries, keys / 7, cosine, is_real)
    torch.testing.assert_close(longer, weights)


@EACH
def test_padding_gets_nothing_and_rows_are_apart(name):
    attention = MAKERS[name](8)
    x, encoded = torch.randn(2, 2, 5, 8)
    is_real = torch.arange(5) < torch.tensor([[5], [2]])

    def attend(encoded, rows=slice(None), length=5):
        given = encoded[rows, :length]
        keys = attention.project_keys(given)
        return attention(x[rows], SourceMemory(keys, given, is_real[rows, :length]))

    found = attend(encoded)

    torch.testing.assert_close(found[1:], attend(encoded, slice(1, 2), 2))
    assert torch.equal(found, attend(encoded.masked_fill(~is_real[:, :, None], 7.0)))


@EACH
def test_its_weights_can_be_recorded_and_then_it_is_as_before(name):
    attention = MAKERS[name](4)
    x, keys, is_real = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.ones(2, 5) > 0
    before = attention.weigh

    with record_attention_weights(attention) as record:
        out = attention(x, SourceMemory(keys, keys, is_real))

    (weights,) = record[""]
    assert weights.shape == (2, 1, 3, 5)
    torch.testing.assert_close(weights[:, 0] @ keys, out)
    assert attention.weigh is before
