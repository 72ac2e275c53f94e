"""Embeddings of patches: worked by hand, and equal to a convolution."""

import pytest
import torch
from torch.nn import functional as F

from headwise.errors import SettingsError
from headwise.model.initialization import initialize
from headwise.model.patches import PatchEmbedding


def test_black_is_minus_one_and_white_one_by_hand():
    """With weights 1 and 10 and the bias 0.5: 1 * -1 + 10 * 1 + 0.5."""
    embedding = PatchEmbedding(2, 1)
    with torch.no_grad():
        embedding.projection.weight.copy_(torch.tensor([[1.0, 10.0]]))
        embedding.projection.bias.fill_(0.5)

    assert embedding(torch.tensor([[[0, 255]]])).item() == 9.5


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_it_equals_a_convolution_as_wide_as_its_stride(dtype):
    """As ViT computes it: patches of 2 x 3 pixels of 2 channels, 3 x 2 of them."""
    picture = torch.randint(0, 256, (5, 6, 6, 2))  # B H W C
    patches = picture.view(5, 3, 2, 2, 3, 2).transpose(2, 3).reshape(5, 6, 12)
    embedding = PatchEmbedding(12, 8)
    initialize(embedding, seed=1)

    kernel = embedding.projection.weight.view(8, 2, 3, 2).permute(0, 3, 1, 2)
    scaled = picture.permute(0, 3, 1, 2) / 127.5 - 1
    wanted = F.conv2d(scaled, kernel, embedding.projection.bias, stride=(2, 3))

    out = embedding(patches.to(dtype))
    torch.testing.assert_close(out, wanted.flatten(2).transpose(1, 2))


def test_it_computes_in_the_number_format_of_its_weights():
    embedding = PatchEmbedding(4, 8).to(torch.bfloat16)
    pixels = torch.zeros(2, 3, 4, dtype=torch.uint8)
    assert embedding(pixels).dtype == torch.bfloat16


def test_sizes_below_1_are_refused_all_at_once():
    with pytest.raises(SettingsError) as raised:
        PatchEmbedding(0, -1)
    assert raised.value.problems == [
        "patch_values must be 1 or more, not 0",
        "width must be 1 or more, not -1",
    ]
