"""Masks: True means "may attend"."""

import torch

from headwise.model.masks import to_real_tokens, to_the_past


def test_a_word_may_look_at_itself_and_at_what_stands_before_it():
    assert to_the_past(3, torch.device("cpu"))[0, 0].int().tolist() == [
        [1, 0, 0],
        [1, 1, 0],
        [1, 1, 1],
    ]


def test_every_query_may_look_at_real_tokens_only():
    is_real = torch.tensor([[True, True, False], [True, False, False]])

    mask = to_real_tokens(is_real)

    assert mask.shape == (2, 1, 1, 3)
    assert torch.equal(mask[:, 0, 0], is_real)
