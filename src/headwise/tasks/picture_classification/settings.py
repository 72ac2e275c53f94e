"""Settings of the classification of pictures."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.errors import SettingsError
from headwise.tasks.encoder_spec import PoolingSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureSettings(PoolingSettings):
    """How a picture is cut, and one vector of it made of those of its patches.

    ``pooling`` first: the vector of the [class] token, as in ViT.
    """

    patch_size: int = 4
    """Pixels at each side of a patch; height and width must be multiples of it."""

    def __post_init__(self) -> None:
        PoolingSettings.__post_init__(self)
        if self.patch_size < 1:
            raise SettingsError(
                [f"patch_size must be 1 or more, not {self.patch_size}"]
            )
