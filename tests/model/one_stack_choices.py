"""The architectures that tests of models with one stack go through."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest
from tests.model.decoder_equality import VARIANTS

from headwise.model.config import ActivationName, NormPlacement, PositionName

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

EACH = pytest.mark.parametrize(
    "choice", CHOICES, ids=lambda c: " ".join(f"{k}={v}" for k, v in c.items())
)
NORMS = pytest.mark.parametrize("norm", get_args(NormPlacement))
