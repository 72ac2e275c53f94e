"""Shared by tests of incremental decoders: models, sources, and a comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer

SMALL = TransformerConfig(
    encoder_layers=2, decoder_layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.0
)
VARIANTS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre"},
    "deep": {"norm": "deep", "attention_bias": True},
    "gelu": {"activation": "gelu"},
    "swish before and biased": {
        "activation": "swish",
        "norm": "pre",
        "attention_bias": True,
        "output_bias": True,
    },
    "untied": {"tie_embeddings": "none"},
    "output tied": {"tie_embeddings": "output"},
    "learned": {"positions": "learned", "max_positions": 64},
    "halves": {"positions": "sinusoidal_halves", "embedding_norm": True},
    "no positions": {"positions": "none"},
    "concatenated": {
        "positions": "learned",
        "position_join": "concatenate",
        "d_position": 5,
        "max_positions": 64,
        "tie_embeddings": "none",
    },
    "rotary": {"positions": "rotary", "norm": "pre"},
    "rotary, wide keys": {"positions": "rotary", "d_k": 22, "d_v": 5},
    "keys wider than values": {"d_k": 12, "d_v": 4},
    "odd": {"d_model": 35, "d_ff": 49, "num_heads": 3, "d_k": 7, "d_v": 17}
    | {"positions": "learned", "max_positions": 64},
    "wide heads": {"d_model": 128, "d_ff": 96},
    "heads of 32": {"d_model": 64, "d_ff": 64},
    "one layer": {"encoder_layers": 3, "decoder_layers": 1, "d_v": 40},
}
PICKS = {
    0: [0, 0, 1, 1, 2, 2],  # the first step of a beam
    1: [1, 0, 3, 3, 4, 5],  # reordered
    4: [0, 1, 4, 5],  # a sentence is finished
    6: [0, 2, 3],  # different numbers for each
    8: [2, 0, 1, 1],  # out of order
    12: [3, 1],
    34: [1, 1, 0, 1],  # beyond the initial capacity
    36: [1],
}
"""Step -> the rows that are selected after it."""


def made(vocabulary: int = 50, device: str = "cpu", **changed: Any) -> Transformer:
    """Return a model whose norms and biases are not the initial ones."""
    model = Transformer(replace(SMALL, **changed), vocabulary, seed=3).eval()
    with torch.no_grad():
        for each in model.parameters():
            if each.dim() == 1:
                each.add_(0.1 * torch.randn_like(each))
    return model.to(device)


def sources(
    *lengths: int, vocabulary: int = 50, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return padded sources of these lengths, and the mask of their tokens."""
    shape = len(lengths), max(lengths)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, vocabulary, shape, generator=generator)
    for row, length in zip(tokens, lengths, strict=True):
        row[length:] = 0
    return tokens.to(device), (tokens != 0).to(device)


def assert_same_steps(
    model: Any,
    fast: Any,
    source: tuple[torch.Tensor, torch.Tensor],
    *,
    steps: int = 40,
    **tolerance: float,
) -> None:
    """Compare logits over more steps than the initial capacity, with reordered rows."""
    states = [model.start(*source), fast.start(*source)]
    device = source[0].device
    tokens = torch.tensor([1, 1, 1], device=device)
    for place in range(steps):
        scored = [
            each.step(tokens, state)
            for each, state in zip((model, fast), states, strict=True)
        ]
        torch.testing.assert_close(scored[1][0], scored[0][0], **tolerance)
        states = [state for _, state in scored]
        tokens = (tokens * 7 + place) % 46 + 4
        if place in PICKS:
            kept = torch.tensor(PICKS[place], device=device)
            tokens = tokens[kept]
            states = [state.index_select(kept) for state in states]
