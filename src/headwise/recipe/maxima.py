"""The maximum of each whole number of a recipe, so that none of them overflows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MAXIMUM = 2**31 - 1
"""Of all that are not named below; whether memory and time suffice is said later."""

LOWER_MAXIMA = {
    **dict.fromkeys(("training.processes", "training.data_workers"), 1024),
    **dict.fromkeys(("model.encoder_layers", "model.decoder_layers"), 10_000),
}

SEEDS = ("seed", "decoding.seed")
"""No counts: that of the recipe has a maximum of its own."""


def above_maximum(table: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield a problem for each whole number of ``table`` that is too large."""
    for name, value in table.items():
        inner = f"{path}{name}"
        if isinstance(value, Mapping):
            yield from above_maximum(value, f"{inner}.")
        elif isinstance(value, list):
            numbered = {f"{inner}[{index}]": each for index, each in enumerate(value)}
            yield from above_maximum(numbered)
        elif type(value) is int and inner not in SEEDS:
            most = LOWER_MAXIMA.get(inner, MAXIMUM)
            if value > most:
                yield f"{inner} must be at most {most:,}, not {value:,}"
