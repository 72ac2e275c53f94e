"""Writing token by token on weights laid out for it: the model's own scores."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headwise.model.config import TransformerConfig
from headwise.model.stepping import SteppingDecoder
from headwise.model.transformer import Transformer

SMALL = TransformerConfig(
    encoder_layers=2, decoder_layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.0
)
VARIANTS = {
    "post": {},
    "pre": {"norm": "pre"},
    "gelu": {"activation": "gelu"},
    "biases": {"attention_bias": True, "output_bias": True},
    "untied": {"tie_embeddings": "none"},
    "learned": {"positions": "learned", "max_positions": 64},
    "keys wider than values": {"d_k": 12, "d_v": 4},
}


def made(**changed: object) -> Transformer:
    model = Transformer(replace(SMALL, **changed), 50, seed=3).eval()
    with torch.no_grad():
        for each in model.parameters():
            if each.dim() == 1:
                each.add_(0.1 * torch.randn_like(each))
    return model


@pytest.fixture
def source():
    tokens = torch.randint(4, 50, (3, 7), generator=torch.Generator().manual_seed(1))
    tokens[1, 4:] = 0
    return tokens, tokens != 0


@pytest.mark.parametrize("changed", VARIANTS.values(), ids=VARIANTS)
@torch.inference_mode()
def test_the_scores_are_those_of_the_model(changed, source):
    """Over more positions than there is room for at first, rows moving and leaving."""
    model = made(**changed)
    fast = SteppingDecoder(model)
    states = [model.start(*source), fast.start(*source)]
    picks = {
        0: [0, 0, 1, 1, 2, 2],  # a beam begins
        1: [1, 0, 3, 3, 4, 5],  # changes places
        4: [0, 1, 4, 5],  # a sentence leaves
        6: [0, 2, 3],  # not as many for each
        8: [2, 0, 1],  # out of order
        12: [1],
    }
    tokens = torch.tensor([1, 1, 1])
    for place in range(20):
        scored = [
            each.step(tokens, state)
            for each, state in zip((model, fast), states, strict=True)
        ]
        torch.testing.assert_close(scored[0][0], scored[1][0], rtol=1e-5, atol=1e-5)
        states = [state for _, state in scored]
        tokens = (tokens * 7 + place) % 46 + 4
        if place in picks:
            kept = torch.tensor(picks[place])
            tokens = tokens[kept]
            states = [state.rows(kept) for state in states]


@torch.inference_mode()
def test_the_rows_of_a_beam_share_what_they_read(source):
    model = SteppingDecoder(made())
    state = model.start(*source).rows(torch.arange(3).repeat_interleave(4))

    _, state = model.step(torch.ones(12, dtype=torch.long), state)
    state = state.rows(torch.tensor([3, 2, 1, 0, 8, 8, 8, 8]))

    assert [len(each) for each in state.source] == [2, 2]
    assert state.source_of.tolist() == [0] * 4 + [1] * 4


def test_changed_weights_are_noticed():
    model = made()
    fast = SteppingDecoder(model)
    assert fast.still_of(model)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert not fast.still_of(model)


@pytest.mark.parametrize("changed", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("small", [0, 1 << 20])
@torch.inference_mode()
def test_bfloat16_is_near_and_scores_stay_float32(changed, source, small, monkeypatch):
    """Whether few rows are multiplied in float32 or not."""
    monkeypatch.setattr("headwise.model.stepping_boxes.SMALL", small)
    model = made(**changed)
    exact, near = SteppingDecoder(model), SteppingDecoder(model, "bf16")
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
    """Filled up to a few numbers of rows, and in float32 where there are few.

    The products are the same; only where a sum lies between two numbers of bfloat16
    may it be rounded the other way.
    """
    monkeypatch.setattr("headwise.model.stepping_boxes.SMALL", small)
    fast = SteppingDecoder(made(), "bf16")
    tokens = torch.randint(4, 50, (37, 6), generator=torch.Generator().manual_seed(1))
    after = torch.arange(37) + 4

    def scores(rows: slice) -> torch.Tensor:
        state = fast.start(tokens[rows], tokens[rows] != 0)
        return fast.step(after[rows], state)[0]

    few, many = scores(slice(11, 14)), scores(slice(37))[11:14]
    torch.testing.assert_close(few, many, rtol=0.02, atol=0.02)
