"""The PyTorch decoder: the scores of Transformer.step."""

from __future__ import annotations

import pytest
import torch
from tests.model.decoder_equality import VARIANTS, assert_same_steps, made, sources

from headwise.backends.pytorch.decoder import TorchDecoder


@pytest.fixture
def source():
    return sources(7, 4, 7)


@pytest.mark.parametrize("changed", VARIANTS.values(), ids=VARIANTS)
@torch.inference_mode()
def test_the_scores_are_those_of_the_model(changed, source):
    model = made(**changed)

    assert_same_steps(model, TorchDecoder(model), source, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_the_rows_of_a_beam_share_the_cross_attention_cache(source):
    model = TorchDecoder(made())
    state = model.start(*source).index_select(torch.arange(3).repeat_interleave(4))

    _, state = model.step(torch.ones(12, dtype=torch.long), state)
    state = state.index_select(torch.tensor([3, 2, 1, 0, 8, 8, 8, 8]))

    assert [len(each) for each in state.cross_kv] == [2, 2]
    assert state.source_of.tolist() == [0] * 4 + [1] * 4


def test_changed_weights_are_noticed():
    model = made()
    fast = TorchDecoder(model)
    assert fast.is_current(model)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert not fast.is_current(model)


@pytest.mark.parametrize("changed", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("small", [0, 1 << 20])
@torch.inference_mode()
def test_bfloat16_is_near_and_scores_stay_float32(changed, source, small, monkeypatch):
    """Whether few rows are multiplied in float32 or not."""
    monkeypatch.setattr("headwise.backends.pytorch.layers.SMALL", small)
    model = made(**changed)
    exact, near = TorchDecoder(model), TorchDecoder(model, "bf16")
    tokens = torch.tensor([1, 1, 1])

    states = [exact.start(*source), near.start(*source)]
    for _ in range(3):
        expected, states[0] = exact.step(tokens, states[0])
        scores, states[1] = near.step(tokens, states[1])

        assert scores.dtype == torch.float32
        assert not torch.equal(scores, expected)
        torch.testing.assert_close(scores, expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("small", [0, 20_000])
@torch.inference_mode()
def test_a_row_in_bfloat16_does_not_depend_on_how_many_there_are(small, monkeypatch):
    """Padded to a few numbers of rows, and in float32 where there are few.

    The matmuls are the same; only where a sum lies between two numbers of bfloat16
    may it be rounded the other way.
    """
    monkeypatch.setattr("headwise.backends.pytorch.layers.SMALL", small)
    fast = TorchDecoder(made(), "bf16")
    tokens = torch.randint(4, 50, (37, 6), generator=torch.Generator().manual_seed(1))
    after = torch.arange(37) + 4

    def scores(rows: slice) -> torch.Tensor:
        state = fast.start(tokens[rows], tokens[rows] != 0)
        return fast.step(after[rows], state)[0]

    few, many = scores(slice(11, 14)), scores(slice(37))[11:14]
    torch.testing.assert_close(few, many, rtol=0.02, atol=0.02)
