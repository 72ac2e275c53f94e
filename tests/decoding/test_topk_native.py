"""Top-k by the C kernel: the tokens that PyTorch finds."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.decoding import topk
from headwise.decoding.topk import topk_tokens
from headwise.decoding.topk_native import MAX_K, has_native_topk, native_topk
from headwise.errors import NumericsError

pytestmark = pytest.mark.usefixtures("uses_native_backend")


def by_torch(logits, count, forbidden):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topk, "has_native_topk", lambda logits, count: False)
        return topk_tokens(logits, count, forbidden=forbidden)


@settings(deadline=None, max_examples=200)
@given(
    rows=st.integers(1, 20),
    vocabulary=st.sampled_from([1, 2, 17, 63, 64, 65, 900, 1024, 1025, 2500]),
    count=st.sampled_from([1, 2, 8, MAX_K]),
    forbidden=st.sampled_from([(), (0,), (0, 1), (3, 64), (0, 5000)]),
    values=st.sampled_from([1, 3, 50, 10**6]),
    seed=st.integers(0, 10**6),
)
def test_native_topk_agrees_with_pytorch(
    rows, vocabulary, count, forbidden, values, seed
):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(values, (rows, vocabulary), generator=generator) / 7
    known = tuple(each for each in forbidden if each < vocabulary)

    log_p, tokens = native_topk(logits, count, forbidden)

    found, ids = by_torch(logits, count, known)
    assert torch.equal(tokens, ids)
    expected = logits.double().log_softmax(-1).gather(1, ids)
    expected[found == -math.inf] = -math.inf
    torch.testing.assert_close(log_p.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0, 1e4, 1e30])
def test_the_logsumexp_of_large_and_small_logits_is_exact(scale):
    logits = scale * torch.randn(9, 3000, generator=torch.Generator().manual_seed(1))

    log_p, tokens = native_topk(logits, 5, ())

    expected = logits.double().log_softmax(-1).gather(1, tokens)
    torch.testing.assert_close(log_p.double(), expected, rtol=1e-5, atol=2e-6)


def test_a_row_does_not_depend_on_its_neighbours():
    logits = torch.randn(40, 1500, generator=torch.Generator().manual_seed(2))
    whole = native_topk(logits, 4, (1,))

    for row in range(40):
        alone = native_topk(logits[row : row + 1], 4, (1,))
        assert all(torch.equal(a[0], b[row]) for a, b in zip(alone, whole, strict=True))


@pytest.mark.parametrize("place", [0, 1023, 1024, 1499])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_one_nan_or_infinite_logit_is_an_error(place, value):
    logits = torch.zeros(3, 1500)
    logits[1, place] = value

    with pytest.raises(NumericsError, match="NaN or infinite"):
        native_topk(logits, 2, ())


def test_native_topk_leaves_other_layouts_and_dtypes_to_pytorch():
    logits = torch.zeros(4, 70)

    assert has_native_topk(logits, 3)
    assert not has_native_topk(logits.double(), 3)
    assert not has_native_topk(logits.t(), 3)
    assert not has_native_topk(logits[:0], 3)
    assert not has_native_topk(logits, MAX_K + 1)
    assert not has_native_topk(torch.zeros(2, 3, device="meta"), 1)
