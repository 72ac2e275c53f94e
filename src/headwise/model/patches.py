"""Embeddings of pictures, as in ViT (Dosovitskiy et al. 2021): a vector for each patch.

Beyond the paper: in the place of the "Input Embedding" box, for pictures or videos.

Letters used for sizes: B batch rows, S patches of a picture, P values of a patch
(height * width * channels), E embedding width.
"""

from __future__ import annotations

from jaxtyping import Float, Integer
from torch import Tensor, nn

from headwise.errors import SettingsError

HALF_RANGE = 127.5
"""Half of the largest pixel value, 255."""


class PatchEmbedding(nn.Module):
    """A linear projection of the pixel values of each patch, with a bias.

    Positions are added by the stack's input, as to the embeddings of tokens. Raises
    ``SettingsError`` if ``patch_values`` (P) or ``width`` (E) is below 1.
    """

    def __init__(self, patch_values: int, width: int) -> None:
        super().__init__()
        sizes = {"patch_values": patch_values, "width": width}
        problems = [
            f"{name} must be 1 or more, not {size}"
            for name, size in sizes.items()
            if size < 1
        ]
        if problems:
            raise SettingsError(problems)
        self.patch_values = patch_values
        self.projection = nn.Linear(patch_values, width)

    def forward(self, pixels: Integer[Tensor, "B S P"]) -> Float[Tensor, "B S E"]:
        """Embed patches of integers from 0 to 255, which are scaled to [-1, 1]."""
        scaled = pixels.to(self.projection.weight.dtype) / HALF_RANGE - 1
        embedded: Tensor = self.projection(scaled)
        return embedded
