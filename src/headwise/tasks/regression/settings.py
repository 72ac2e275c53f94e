"""Settings of regression; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from headwise.errors import SettingsError

Pooling = Literal["first", "mean", "context"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionSettings:
    """How one vector of a text is made of those of its tokens."""

    pooling: Pooling = "mean"
    """first: the vector of the start token, as BERT's [CLS]; mean: of all tokens;
    context: a weighted mean, with weights by a trained context vector."""

    tanh_layer: bool = False
    """BERT's linear layer with tanh between pooling and the number."""

    def __post_init__(self) -> None:
        if self.pooling not in get_args(Pooling):
            raise SettingsError(
                [
                    f"pooling must be one of {', '.join(get_args(Pooling))}, not "
                    f"{self.pooling!r}"
                ]
            )
