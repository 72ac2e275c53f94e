"""The architectures that tests of models with one stack go through."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pytest
from tests.model.decoder_equality import VARIANTS

from headwise.model.config import (
    ActivationName,
    NormPlacement,
    PositionName,
    TransformerConfig,
)
from headwise.model.variants.names import variants_of

SMALL = TransformerConfig(d_model=16, num_heads=2)

CHOICES: list[dict[str, Any]] = [
    {"norm": norm, "activation": activation, "positions": positions}
    for norm, activation, positions in product(
        get_args(NormPlacement), get_args(ActivationName), get_args(PositionName)
    )
    # Pre-norm takes away again what they add to all channels.
    if norm != "pre" or positions not in ("number", "fraction")
]
CHOICES += [each for each in VARIANTS.values() if not each.keys() <= CHOICES[0].keys()]

OF_ONE_FUNCTION = pytest.mark.parametrize(
    "choice",
    [each for each in CHOICES if each.get("norm") != "deep"],
    ids=lambda c: " ".join(f"{k}={v}" for k, v in c.items()),
)
"""Without DeepNorm, whose α depends on whether there is another stack."""

OF_BACKENDS = pytest.mark.parametrize(
    "choice",
    [each for each in CHOICES if not variants_of(replace(SMALL, **each))],
    ids=lambda c: " ".join(f"{k}={v}" for k, v in c.items()),
)
"""Without the variants, which backends refuse (tests/backends/test_variants.py)."""

EACH = pytest.mark.parametrize(
    "choice", CHOICES, ids=lambda c: " ".join(f"{k}={v}" for k, v in c.items())
)
NORMS = pytest.mark.parametrize("norm", get_args(NormPlacement))
