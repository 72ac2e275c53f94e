"""Settings of captioning."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.tasks.patch_settings import check_patches


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptioningSettings:
    """How a picture is cut."""

    patch_size: int = 4
    """Pixels at each side of a patch; height and width must be multiples of it."""

    max_shift: int = 0
    """Pixels by which pictures are shifted at random in training, at most."""

    def __post_init__(self) -> None:
        check_patches(self.patch_size, self.max_shift)
