"""Random shifts of pictures in training."""

import numpy as np
import torch

from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.tasks.random_shift import shift_pictures
from headwise.text.patch_tokenizer import PatchTokenizer, PictureSize

SIZE = PictureSize(2, 4, 6, 3)
CUTTER = PatchTokenizer(SIZE, 2)


def batch_of(pictures):
    count = len(pictures)
    lengths = torch.full((count,), CUTTER.num_patches)
    tokens = torch.from_numpy(CUTTER.cut(pictures))
    labels = RaggedTokens.from_lengths(torch.zeros(count), torch.ones(count).long())
    return Batch(
        RaggedTokens.from_lengths(tokens, lengths), labels, torch.arange(count)
    )


def random_pictures(count):
    shape = count, SIZE.frames, SIZE.height, SIZE.width, SIZE.channels
    return np.random.default_rng(1).integers(0, 256, shape, np.uint8)


def shifted(pictures, most, seed=5):
    random = np.random.PCG64(seed)
    found = shift_pictures(batch_of(pictures), random, cutter=CUTTER, most=most)
    return CUTTER.join(found.source.tokens.numpy())


def by_hand(picture, down, right):
    """Return a picture [T H W C] shifted pixel by pixel."""
    found = np.empty_like(picture)
    for y in range(SIZE.height):
        for x in range(SIZE.width):
            from_y = min(max(y - down, 0), SIZE.height - 1)
            from_x = min(max(x - right, 0), SIZE.width - 1)
            found[:, y, x] = picture[:, from_y, from_x]
    return found


def test_cutting_and_joining_are_inverse():
    pictures = random_pictures(3)

    assert np.array_equal(CUTTER.join(CUTTER.cut(pictures)), pictures)
    assert np.array_equal(
        np.concatenate([CUTTER.patches(each) for each in pictures]),
        CUTTER.cut(pictures),
    )


def test_every_shift_occurs_and_no_other():
    pictures = random_pictures(300)
    found = shifted(pictures, 1)
    seen = set()
    for picture, result in zip(pictures, found, strict=True):
        places = [
            (down, right)
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
            if np.array_equal(by_hand(picture, down, right), result)
        ]
        assert len(places) == 1
        seen.add(places[0])

    assert len(seen) == 9


def test_the_generator_alone_decides():
    pictures = random_pictures(20)

    assert np.array_equal(shifted(pictures, 2), shifted(pictures, 2))
    assert not np.array_equal(shifted(pictures, 2), shifted(pictures, 2, seed=6))
    assert np.array_equal(shifted(pictures, 0), pictures)
