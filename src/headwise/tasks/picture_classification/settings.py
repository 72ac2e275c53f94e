"""Settings of the classification of pictures."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.tasks.encoder_spec import PoolingSettings
from headwise.tasks.patch_settings import check_patches


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureSettings(PoolingSettings):
    """How a picture is cut, and one vector of it made of those of its patches.

    ``pooling`` first: the vector of the [class] token, as in ViT.
    """

    patch_size: int = 4
    """Pixels at each side of a patch; height and width must be multiples of it."""

    max_shift: int = 0
    """Pixels by which pictures are shifted at random in training, at most."""

    def __post_init__(self) -> None:
        PoolingSettings.__post_init__(self)
        check_patches(self.patch_size, self.max_shift)
