"""Masks: True means "may attend"."""

import torch

from headwise.model.masks import make_causal_mask, make_padding_mask


def test_the_causal_mask_allows_a_position_itself_and_earlier_ones():
    assert make_causal_mask(3, torch.device("cpu"))[0, 0].int().tolist() == [
        [1, 0, 0],
        [1, 1, 0],
        [1, 1, 1],
    ]


def test_the_padding_mask_allows_real_tokens_only():
    is_real = torch.tensor([[True, True, False], [True, False, False]])

    mask = make_padding_mask(is_real)

    assert mask.shape == (2, 1, 1, 3)
    assert torch.equal(mask[:, 0, 0], is_real)
