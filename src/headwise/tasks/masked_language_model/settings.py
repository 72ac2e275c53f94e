"""Settings of masked language modelling; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskingSettings:
    """Which tokens are to be predicted in training."""

    mask_rate: float = 0.3
    """Share of the tokens of a window that are chosen. As in BERT, 80% of them are
    masked, 10% replaced by a random token, and 10% left as they are. BERT chooses 15%;
    more teach a small model sooner (Wettig et al. 2023, "Should You Mask 15%?")."""

    def __post_init__(self) -> None:
        if not 0 < self.mask_rate < 1:
            raise SettingsError(
                [f"mask_rate must be more than 0 and less than 1, not {self.mask_rate}"]
            )
