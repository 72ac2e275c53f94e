"""The variants that tests go through: every choice of every setting that has one."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from headwise.model.config import (
    AttentionName,
    FeedForwardName,
    NormKind,
    PositionName,
    ResidualName,
)
from headwise.model.variants.names import KNOWN_EVERYWHERE

ONE_OF_EACH: dict[str, Any] = {
    "positions": "alibi",
    "attention": "cosine",
    "attention_window": 3,
    "num_key_value_heads": 2,
    "norm_kind": "rms",
    "feed_forward": "swiglu",
    "residual": "none",
}
"""Setting -> a value that makes a variant."""

CONCATENATED = {"position_join": "concatenate", "tie_embeddings": "none"}
NEEDED: dict[tuple[str, Any], dict[str, Any]] = {
    ("residual", "positions"): CONCATENATED,
}
"""What else a choice needs."""

_NAMED = {
    "positions": PositionName,
    "attention": AttentionName,
    "norm_kind": NormKind,
    "feed_forward": FeedForwardName,
    "residual": ResidualName,
}
CHOICES: dict[str, dict[str, Any]] = {
    f"{name} = {value}": {name: value, **NEEDED.get((name, value), {})}
    for name, kind in _NAMED.items()
    for value in get_args(kind)
    if value not in KNOWN_EVERYWHERE[name]
}
CHOICES |= {
    "window": {"attention_window": 3},
    "wide window": {"attention_window": 9},
    "one head of keys": {"num_key_value_heads": 1},
    "two heads of keys": {"num_key_value_heads": 2},
    "numbers beside": {"positions": "number", **CONCATENATED},
    "fractions beside, pre-norm": {
        "positions": "fraction",
        "norm": "pre",
        "d_position": 3,
        **CONCATENATED,
    },
    "batch norm everywhere": {
        "norm_kind": "batch",
        "norm": "pre",
        "embedding_norm": True,
    },
    "RMSNorm everywhere": {"norm_kind": "rms", "norm": "pre", "embedding_norm": True},
    "rotary, grouped, window": {
        "positions": "rotary",
        "num_key_value_heads": 2,
        "attention_window": 3,
    },
    "wide keys": {"attention": "multiplicative", "d_k": 6, "d_v": 3},
    "as LLaMA": {
        "positions": "rotary",
        "norm": "pre",
        "norm_kind": "rms",
        "feed_forward": "swiglu",
        "num_key_value_heads": 2,
    },
    "as T5": {
        "positions": "t5",
        "attention": "unscaled",
        "norm": "pre",
        "norm_kind": "rms",
        "feed_forward": "geglu",
    },
}
CHOICES |= {
    f"{score} scores, {positions}, window": {
        "attention": score,
        "positions": positions,
        "attention_window": 5,
    }
    for score in get_args(AttentionName)
    for positions in ("alibi", "shaw", "t5")
    if positions != "shaw" or score in ("scaled", "unscaled")
}
"""Name -> settings of a variant."""

EACH = pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
