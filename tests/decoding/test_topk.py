import math

import pytest
import torch

from headwise.decoding import topk
from headwise.decoding.topk import top1_token, topk_tokens
from headwise.errors import NumericsError


@pytest.fixture(autouse=True, params=["kernels", "PyTorch"])
def way(request, monkeypatch):
    """By kernels where there are some, and as it is done elsewhere."""
    if request.param == "PyTorch":
        monkeypatch.setattr(topk, "has_native_topk", lambda *_: False)


def test_topk_is_sorted_and_has_log_probabilities():
    """Worked by hand: of 0.2, 0.5 and 0.3 the best two are 0.5 and 0.3."""
    log_p, tokens = topk_tokens(torch.tensor([[0.2, 0.5, 0.3]]).log() + 7.0, 2)

    assert tokens.tolist() == [[1, 2]]
    assert log_p.tolist()[0] == pytest.approx([math.log(0.5), math.log(0.3)])


@pytest.mark.parametrize("forbidden", [(), (0, 2), (1, 5, 6)])
@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("num_values", [1, 2, 5, 1000])
def test_topk_breaks_ties_by_the_lower_id(num_values, count, forbidden):
    """Few different values give many ties, also between what is taken and left."""
    generator = torch.Generator().manual_seed(num_values)
    logits = torch.randint(num_values, (50, 40), generator=generator).float()

    _, tokens = topk_tokens(logits, count, forbidden=forbidden)

    for row, found in zip(logits.tolist(), tokens.tolist(), strict=True):
        allowed = [token for token in range(40) if token not in forbidden]
        assert found == sorted(allowed, key=lambda token: -row[token])[:count]


def test_forbidden_tokens_do_not_renormalise_the_others():
    log_p, tokens = topk_tokens(torch.zeros(1, 4), 4, forbidden=(0,))

    assert tokens.tolist() == [[1, 2, 3, 0]]
    assert log_p.tolist()[0] == pytest.approx([math.log(0.25)] * 3 + [-math.inf])


def test_half_precision_is_summed_in_float32():
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    half = logits.bfloat16()

    log_p, tokens = topk_tokens(half, 4)

    expected = half.float().log_softmax(-1).gather(1, tokens)
    torch.testing.assert_close(log_p, expected)


def test_the_logits_are_left_as_they_were():
    logits = torch.randn(2, 9)
    before = logits.clone()

    topk_tokens(logits, 3, forbidden=(1,))

    torch.testing.assert_close(logits, before, rtol=0, atol=0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_one_nan_or_infinite_logit_is_an_error(value):
    logits = torch.zeros(2, 5)
    logits[1, 3] = value

    with pytest.raises(NumericsError, match="NaN or infinite"):
        topk_tokens(logits, 2)


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("size", [2048, 2071])
def test_grouped_topk_agrees_with_a_full_sort(count, size):
    """Few different scores, so that most rows have equals outside what is kept."""
    chance = torch.Generator().manual_seed(count)
    logits = torch.randint(0, 40, (50, size), generator=chance).float()
    logits[::2] += torch.rand(25, size, generator=chance)
    logits[7, [0, 1]] = 99.0  # beyond what exp may be asked for, and forbidden

    values, tokens = topk_tokens(logits, count, forbidden=(0, 1))

    allowed = logits.log_softmax(-1)
    allowed[:, [0, 1]] = -torch.inf
    expected, order = allowed.sort(descending=True, stable=True)
    torch.testing.assert_close(values, expected[:, :count])
    assert torch.equal(tokens, order[:, :count])
    if count == 1:
        best, ids = top1_token(logits, forbidden=(0, 1))
        assert torch.equal(ids, tokens[:, 0])
        assert torch.equal(best, values[:, 0])
