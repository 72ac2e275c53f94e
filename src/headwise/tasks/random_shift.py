"""Random shifts of pictures in training: data augmentation by translation.

Letters used for sizes: B pictures, S patches, P values of a patch, T frames, H height,
W width, C channels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.data.batches import uniform
from headwise.data.ragged_batch import Batch
from headwise.text.patch_tokenizer import PatchTokenizer


def shift_pictures(
    batch: Batch, random: np.random.PCG64, *, cutter: PatchTokenizer, most: int
) -> Batch:
    """Shift each picture by up to ``most`` pixels, up or down and left or right.

    Its edge is repeated where nothing was. All frames of a video shift alike.
    """
    pixels = cutter.join(batch.source.tokens.numpy())
    count, _, height, width, _ = pixels.shape
    drawn = np.floor(uniform(random, 2 * count) * (2 * most + 1)).astype(np.int64)
    down, right = (drawn - most).reshape(2, count)
    rows = np.clip(np.arange(height) - down[:, None], 0, height - 1)
    columns = np.clip(np.arange(width) - right[:, None], 0, width - 1)
    pictures = np.arange(count)[:, None, None]
    # B H W T C, as the frames stand between the indices
    shifted = pixels[pictures, :, rows[:, :, None], columns[:, None, :]]
    patches: NDArray[np.uint8] = cutter.cut(np.moveaxis(shifted, 3, 1))
    source = replace(batch.source, tokens=torch.from_numpy(patches))
    return replace(batch, source=source)
