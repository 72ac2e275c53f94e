"""Attention does what Section 3.2 says, and says so quickly.

The worked example that several tests share: a sentence of three words in two channels,
x1 = [1 0], x2 = [0 1], x3 = [1 1], and one head with d_k = 4 and d_v = 2.

           1 0 1 0            2 0 0 0            6 0
    W_Q =  0 1 0 1     W_K =  0 2 0 0     W_V =  0 3

           1 0 1 0            2 0 0 0            6 0
    Q   =  0 1 0 1     K   =  0 2 0 0     V   =  0 3
           1 1 1 1            2 2 0 0            6 3

                                                             1 0 1
    √d_k = 2, so S = Q Kᵀ / 2: q1·k1 = 2 gives 1, and so on: S = 0 1 1
                                                             1 1 2
"""

import math

import pytest
import torch

from headwise.backends.pytorch.fused_attention import fused_attention
from headwise.model.attention import (
    MultiHeadAttention,
    attention_weights,
    scaled_dot_product_attention,
)
from headwise.model.masks import make_causal_mask

X = torch.tensor([[1.0, 0], [0, 1], [1, 1]])
TO_QUERIES = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1]])
TO_KEYS = torch.tensor([[2.0, 0, 0, 0], [0, 2, 0, 0]])
TO_VALUES = torch.tensor([[6.0, 0], [0, 3]])
NO_MIXING = torch.eye(2)

FUNCTIONS = {"reference": scaled_dot_product_attention, "fused": fused_attention}
PATHS = pytest.mark.parametrize("attend", FUNCTIONS.values(), ids=FUNCTIONS)
E = math.e

MASKS = {
    "none": lambda: None,
    "padding": lambda: (torch.arange(5) < torch.tensor([[5], [3]]))[:, None, None, :],
    "causal": lambda: make_causal_mask(5, torch.device("cpu")),
    "causal and padding": lambda: MASKS["padding"]() & MASKS["causal"](),
    "another for each head": lambda: torch.rand(2, 3, 5, 5) > 0.5,
    "nothing for one row": lambda: torch.tensor([True, False])[:, None, None, None],
}


def mask_of(kind):
    mask = MASKS[kind]()
    return None if mask is None else mask.expand(-1, -1, -1, 5)


def attention_with(to_queries, to_keys, to_values, to_output, *, num_heads):
    """Make attention from matrices as the paper writes them, applied from the right."""
    d_k, d_v = to_queries.shape[1] // num_heads, to_values.shape[1] // num_heads
    attention = MultiHeadAttention(len(to_queries), num_heads, d_k=d_k, d_v=d_v)
    named = {"queries": to_queries, "keys": to_keys, "values": to_values}
    named["output"] = to_output
    attention.load_state_dict({f"to_{n}.weight": w.T for n, w in named.items()})
    return attention


def one_head():
    return attention_with(TO_QUERIES, TO_KEYS, TO_VALUES, NO_MIXING, num_heads=1)


def test_queries_keys_and_values_of_three_words():
    """Worked by hand on top of this file."""
    attention = one_head()

    kv = attention.project_keys_values(X[None])

    queries = attention.to_queries(X)
    torch.testing.assert_close(
        queries, torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
    )
    torch.testing.assert_close(
        kv.keys[0, 0],
        torch.tensor([[2.0, 0, 0, 0], [0, 2, 0, 0], [2, 2, 0, 0]]),
    )
    torch.testing.assert_close(
        kv.values[0, 0], torch.tensor([[6.0, 0], [0, 3], [6, 3]])
    )


def test_attention_weights_of_three_words():
    """Each row of S through the softmax.

    [1 0 1] and [0 1 1] have the exponentials e, 1, e, which sum to 2e + 1;
    [1 1 2] has e, e, e², which is 1, 1, e over 2 + e.
    """
    queries, keys = (X @ TO_QUERIES)[None, None], (X @ TO_KEYS)[None, None]

    weights = attention_weights(queries, keys, None)[0, 0]

    by_hand = torch.tensor(
        [
            [E / (2 * E + 1), 1 / (2 * E + 1), E / (2 * E + 1)],
            [1 / (2 * E + 1), E / (2 * E + 1), E / (2 * E + 1)],
            [1 / (2 + E), 1 / (2 + E), E / (2 + E)],
        ]
    )
    torch.testing.assert_close(weights, by_hand)
    torch.testing.assert_close(by_hand[0], torch.tensor([0.42232, 0.15536, 0.42232]))


@PATHS
def test_attention_of_three_words(attend):
    """Z = softmax(S) V; its first row, times 2e + 1:

    e [6 0] + 1 [0 3] + e [6 3] = [12e  3 + 3e].
    """
    attention = one_head()
    attention.attend = attend

    by_hand = torch.tensor(
        [
            [12 * E / (2 * E + 1), (3 + 3 * E) / (2 * E + 1)],
            [(6 + 6 * E) / (2 * E + 1), 6 * E / (2 * E + 1)],
            [(6 + 6 * E) / (2 + E), (3 + 3 * E) / (2 + E)],
        ]
    )
    torch.testing.assert_close(attention(X[None], X[None])[0], by_hand)


@PATHS
def test_masked_attention_of_three_words(attend):
    """Scores above the diagonal become −∞, so their shares 0.

    Word 1 sees itself: [6 0]. Word 2 has the scores 0 and 1, shares 1 and e over
    1 + e: [6 3e] / (1 + e). Word 3 sees all, as without a mask.
    """
    attention = one_head()
    attention.attend = attend
    causal = make_causal_mask(3, torch.device("cpu"))

    by_hand = torch.tensor(
        [
            [6, 0],
            [6 / (1 + E), 3 * E / (1 + E)],
            [(6 + 6 * E) / (2 + E), (3 + 3 * E) / (2 + E)],
        ]
    )
    torch.testing.assert_close(attention(X[None], X[None], causal)[0], by_hand)


@PATHS
def test_two_heads_of_three_words(attend):
    """Head 1 is the worked one. Head 2 has queries of 0, so equal shares of its values
    [3 0], [0 3], [3 3]: [2 2] for every word.

    [Z1 Z2] W_O with the rows [1 0], [0 1], [10 0], [0 100] is Z1 + [20 200].
    """
    attention = attention_with(
        torch.cat([TO_QUERIES, torch.zeros(2, 4)], dim=1),
        torch.cat([TO_KEYS, TO_KEYS], dim=1),
        torch.cat([TO_VALUES, torch.tensor([[3.0, 0], [0, 3]])], dim=1),
        torch.tensor([[1.0, 0], [0, 1], [10, 0], [0, 100]]),
        num_heads=2,
    )
    attention.attend = attend

    joined = attention(X[None], X[None])

    expected = one_head()(X[None], X[None]) + torch.tensor([20.0, 200.0])
    torch.testing.assert_close(joined, expected)


def test_six_target_words_attend_to_three_source_words():
    queries, keys = torch.randn(1, 1, 6, 4), torch.randn(1, 1, 3, 4)

    weights = attention_weights(queries, keys, None)

    assert weights.shape == (1, 1, 6, 3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 6))


@PATHS
def test_the_value_of_a_dominant_key_is_copied(attend):
    """Worked by hand: one score of 100 next to a 0 leaves only the first value."""
    query = torch.tensor([[[[10.0, 0.0]]]])
    keys = torch.tensor([[[[10.0 * 2**0.5, 0.0], [0.0, 0.0]]]])
    values = torch.tensor([[[[3.0, 4.0], [-7.0, 9.0]]]])

    output = attend(query, keys, values, None, 0.0)

    torch.testing.assert_close(output, torch.tensor([[[[3.0, 4.0]]]]))


@PATHS
def test_masked_keys_lose_against_any_score(attend):
    """A large negative number in the place of −∞ would win against this one."""
    query, keys = torch.tensor([[[[1e6]]]]), torch.tensor([[[[-1e6], [0.0]]]])
    values = torch.tensor([[[[1.0], [2.0]]]])
    mask = torch.tensor([True, False])[None, None, None]

    assert attend(query, keys, values, mask, 0.0).item() == 1


def test_the_variance_of_scores_does_not_depend_on_d_k():
    """Section 3.2.1: the product of two random vectors has the variance d_k."""
    for d_k in (16, 64, 256):
        queries, keys = torch.randn(2, 1, 1, 300, d_k)

        scores = attention_weights(queries, keys, None).log()  # but for a row's sum

        assert scores.var(dim=-1).mean().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("d_k", "d_v"), [(4, 4), (3, 5), (8, 2)])
def test_fused_attention_equals_scaled_dot_product_attention(kind, d_k, d_v):
    sizes = (d_k, d_k, d_v)
    inputs = [torch.randn(2, 3, 5, c, dtype=torch.float64) for c in sizes]
    for each in inputs:
        each.requires_grad_()
    mask = mask_of(kind)
    direction = torch.randn(2, 3, 5, d_v, dtype=torch.float64)

    fast = fused_attention(*inputs, mask, 0.0)
    plain = scaled_dot_product_attention(*inputs, mask, 0.0)

    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-12)
    for ours, theirs in zip(
        torch.autograd.grad(fast, inputs, direction),
        torch.autograd.grad(plain, inputs, direction),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", MASKS)
def test_attention_weights_sum_to_one_and_are_zero_where_masked(kind):
    mask = mask_of(kind)

    weights = attention_weights(*torch.randn(2, 2, 3, 5, 4), mask)

    if mask is None:
        mask = torch.ones(1, 1, 5, 5, dtype=torch.bool)
    mask = mask.expand(2, 3, 5, 5)
    assert (weights[~mask] == 0).all()
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).float())


@PATHS
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("d_v", [4, 6])
def test_a_fully_masked_query_gets_zeros(attend, dropout, dtype, d_v):
    inputs = [torch.randn(2, 3, 5, c, dtype=dtype) for c in (4, 4, d_v)]
    for each in inputs:
        each.requires_grad_()
    mask = torch.rand(2, 1, 5, 5) > 0.3
    mask[0] = False
    mask[1, :, 2] = False

    with torch.autograd.set_detect_anomaly(True):  # no NaN on the way back either
        output = attend(*inputs, mask, dropout)
        output.float().square().sum().backward()

    assert (output[0] == 0).all()
    assert (output[1, :, 2] == 0).all()
    for each in inputs:
        assert each.grad.isfinite().all()
        assert (each.grad[0] == 0).all()


@PATHS
def test_masked_keys_and_values_change_nothing(attend):
    queries, keys, values = torch.randn(3, 2, 3, 5, 4)
    mask = mask_of("padding")
    before = attend(queries, keys, values, mask, 0.0)

    keys[1, :, 3:], values[1, :, 3:] = 1e4, -1e4

    assert torch.equal(attend(queries, keys, values, mask, 0.0), before)


def test_weights_of_torch_give_the_output_of_torch():
    """Pins what our own tests leave free, such as which channels form a head."""
    theirs = torch.nn.MultiheadAttention(12, 3, bias=False, batch_first=True).eval()
    q, k, v = theirs.in_proj_weight.detach().chunk(3)
    ours = attention_with(q.T, k.T, v.T, theirs.out_proj.weight.T, num_heads=3)
    x, source = torch.randn(2, 5, 12), torch.randn(2, 7, 12)

    their_output, their_weights = theirs(x, source, source, average_attn_weights=False)

    torch.testing.assert_close(ours(x, source), their_output)
    kv = ours.project_keys_values(source)
    queries = ours.to_queries(x).view(2, 5, 3, 4).transpose(1, 2)
    weights = attention_weights(queries, kv.keys, None)
    torch.testing.assert_close(weights, their_weights)


def test_projected_keys_and_values_can_be_kept():
    attention = MultiHeadAttention(8, 2, d_k=3, d_v=5)
    x, source = torch.randn(2, 4, 8), torch.randn(2, 6, 8)

    kv = attention.project_keys_values(source)

    assert kv.keys.shape == (2, 2, 6, 3)
    assert kv.values.shape == (2, 2, 6, 5)
    assert torch.equal(attention(x, kv), attention(x, source))


def test_rows_of_keys_and_values_can_be_selected_and_repeated():
    attention = MultiHeadAttention(8, 2, d_k=3, d_v=5)
    source, index = torch.randn(3, 6, 8), torch.tensor([2, 0, 0])

    selected = attention.project_keys_values(source).index_select(index)

    expected = attention.project_keys_values(source[index])
    torch.testing.assert_close(selected.keys, expected.keys)
    torch.testing.assert_close(selected.values, expected.values)


@PATHS
def test_attention_dropout_applies_in_training_mode_only(attend):
    x = torch.randn(1, 6, 8)
    for dropout, training, changes in [
        (0.0, True, False),
        (0.5, False, False),
        (0.5, True, True),
    ]:
        attention = MultiHeadAttention(8, 2, d_k=4, d_v=4, dropout=dropout)
        attention.attend = attend
        attention.train(training)

        same = torch.equal(attention(x, x), attention(x, x))

        assert same is not changes


def test_projections_have_no_bias_unless_configured():
    plain = MultiHeadAttention(8, 2, d_k=4, d_v=4)
    biased = MultiHeadAttention(8, 2, d_k=4, d_v=4, bias=True)

    assert [n for n, _ in plain.named_parameters() if "bias" in n] == []
    assert len([n for n, _ in biased.named_parameters() if "bias" in n]) == 4
