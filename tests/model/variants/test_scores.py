"""Scores of attention, against formulas and torch's own attention."""

import math

import pytest
import torch
from torch.nn import functional as F

from headwise.model.attention import scaled_dot_product_attention
from headwise.model.source_attention import additive_weights
from headwise.model.variants.attention import VariantAttention
from headwise.model.variants.scores import COSINE_SCALE, SCORES

HEADS, WIDTH = 3, 4
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]


def drawn():
    queries, keys, values = torch.randn(3, 2, HEADS, 5, WIDTH, dtype=torch.float64)
    return queries, keys, values


def made(name):
    score = SCORES[name](HEADS, WIDTH).double()
    with torch.no_grad():
        for each in score.parameters():
            each.copy_(torch.randn_like(each))
    return score


def by_hand(name, query, key, head, score):
    """Return the score of one key for one query: plain arithmetic."""
    dot = sum(a * b for a, b in zip(query, key, strict=True))
    if name == "scaled":
        return dot / math.sqrt(len(query))
    if name == "unscaled":
        return dot
    if name == "cosine":
        lengths = math.dist(query, [0] * WIDTH) * math.dist(key, [0] * WIDTH)
        return dot / lengths * COSINE_SCALE * math.exp(score.log_factor[head].item())
    if name == "additive":
        v = score.v[head].tolist()
        return sum(w * math.tanh(a + b) for w, a, b in zip(v, query, key, strict=True))
    assert name == "multiplicative"
    matrix = score.matrices[head * WIDTH : (head + 1) * WIDTH].tolist()
    return sum(
        query[i] * matrix[i][j] * key[j] for i in range(WIDTH) for j in range(WIDTH)
    )


@pytest.mark.parametrize("name", SCORES)
def test_every_score_follows_its_formula(name):
    queries, keys, _ = drawn()
    score = made(name)

    scores = score(queries, keys)

    for row, head, i, j in [(0, 0, 0, 0), (1, 2, 4, 1), (0, 1, 2, 3), (1, 1, 3, 3)]:
        query, key = queries[row, head, i].tolist(), keys[row, head, j].tolist()
        wanted = by_hand(name, query, key, head, score)
        assert scores[row, head, i, j].item() == pytest.approx(wanted, rel=1e-12), name


@pytest.mark.parametrize("mask", [None, CAUSAL], ids=["no mask", "causal"])
@pytest.mark.parametrize(("name", "scale"), [("scaled", None), ("unscaled", 1.0)])
def test_dot_products_equal_attention_of_torch(name, scale, mask):
    queries, keys, values = drawn()

    ours = VariantAttention(SCORES[name](HEADS, WIDTH))(
        queries, keys, values, mask, 0.0
    )

    wanted = F.scaled_dot_product_attention(queries, keys, values, mask, scale=scale)
    torch.testing.assert_close(ours, wanted)


def test_cosine_attention_equals_attention_of_torch_over_unit_vectors():
    queries, keys, values = drawn()
    score = made("cosine")
    factors = COSINE_SCALE * score.log_factor.exp()[:, None, None]

    ours = VariantAttention(score)(queries, keys, values, CAUSAL, 0.0)

    wanted = F.scaled_dot_product_attention(
        F.normalize(queries, dim=-1) * factors,
        F.normalize(keys, dim=-1),
        values,
        CAUSAL,
        scale=1.0,
    )
    torch.testing.assert_close(ours, wanted)


def test_lengths_of_queries_and_keys_do_not_change_cosine_attention():
    queries, keys, values = drawn()
    attend = VariantAttention(made("cosine"))

    longer = attend(7 * queries, 0.1 * keys, values, None, 0.0)

    torch.testing.assert_close(longer, attend(queries, keys, values, None, 0.0))


def test_multiplicative_attention_with_identities_is_unscaled():
    queries, keys, values = drawn()
    score = made("multiplicative")
    with torch.no_grad():
        score.matrices.copy_(torch.eye(WIDTH).repeat(HEADS, 1))

    ours = VariantAttention(score)(queries, keys, values, None, 0.0)

    plain = VariantAttention(SCORES["unscaled"](HEADS, WIDTH))
    torch.testing.assert_close(ours, plain(queries, keys, values, None, 0.0))


def test_additive_weights_are_those_of_the_recurrent_model():
    """One head of it: v · tanh(q + k)."""
    queries, keys, _ = (each[:, :1] for each in drawn())
    score = SCORES["additive"](1, WIDTH).double()
    with torch.no_grad():
        score.v.copy_(torch.randn_like(score.v))
    is_real = torch.arange(5) < torch.tensor([[5], [3]])

    ours = VariantAttention(score).weigh(queries, keys, is_real[:, None, None])

    wanted = additive_weights(queries[:, 0], keys[:, 0], score.v[0], is_real)
    torch.testing.assert_close(ours[:, 0], wanted)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_default_scores_compute_what_the_paper_has(dropout):
    queries, keys, values = drawn()
    torch.manual_seed(3)
    ours = VariantAttention(SCORES["scaled"](HEADS, WIDTH))(
        queries, keys, values, CAUSAL, dropout
    )
    torch.manual_seed(3)
    wanted = scaled_dot_product_attention(queries, keys, values, CAUSAL, dropout)

    torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize("name", SCORES)
def test_a_fully_masked_query_gets_zeros(name):
    queries, keys, values = (each.requires_grad_() for each in drawn())
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[1, :, 2] = False

    out = VariantAttention(made(name))(queries, keys, values, mask, 0.0)
    out.sum().backward()

    assert (out[1, :, 2] == 0).all()
    assert all(each.grad.isfinite().all() for each in (queries, keys, values))


def test_weights_of_a_plain_cosine_are_nearly_equal():
    """From -1 to 1, so that none exceeds e² times another; hence the factor."""
    score = SCORES["cosine"](1, 2).double()
    same, other = torch.tensor([[1.0, 0]]).double(), torch.tensor([[-1.0, 0]]).double()
    keys = torch.cat([same, other])[None, None]

    sharp = VariantAttention(score).weigh(same[None, None], keys, None)[0, 0, 0]

    plain = torch.tensor([1.0, -1.0]).double()
    assert (plain[0] - plain[1]).exp().item() == pytest.approx(math.e**2)
    assert (sharp[0] / sharp[1]).item() == pytest.approx(math.e**20)
