"""The embeddings and the input of a stack (Sections 3.4, 3.5 and 5.4)."""

from dataclasses import replace

import pytest
import torch

from headwise.model import TransformerConfig
from headwise.model.embeddings import OutputProjection, StackInput, TokenEmbedding
from headwise.model.positions import sinusoids

CONFIG = TransformerConfig(d_model=16, num_heads=4, dropout=0.0)


def embedding(vocab_size, width):
    made = TokenEmbedding(vocab_size, width)
    torch.nn.init.normal_(made.vectors)
    return made


def test_a_word_is_looked_up_and_multiplied_by_the_root_of_d_model():
    """d_model = 16, so a vector of ones becomes fours."""
    table = TokenEmbedding(3, 16)
    torch.nn.init.ones_(table.vectors)

    assert (table(torch.tensor([[2, 0]])) == 4).all()


def test_looking_up_is_multiplying_with_a_one_hot_row():
    table = embedding(5, 4)
    tokens = torch.tensor([[3, 0, 3]])

    by_product = torch.nn.functional.one_hot(tokens, 5).float() @ table.vectors

    torch.testing.assert_close(table(tokens), 2 * by_product)


def test_positions_are_added_after_scaling():
    x = torch.randn(2, 3, 16)

    entered = StackInput(CONFIG).eval()(x, 4)

    expected = x + sinusoids(torch.arange(4, 7), 16).float()
    torch.testing.assert_close(entered, expected)


def test_the_embedding_norm_is_there_only_if_configured():
    x = torch.randn(2, 3, 16)

    plain = StackInput(CONFIG).eval()
    normed = StackInput(replace(CONFIG, embedding_norm=True)).eval()

    assert list(plain.parameters()) == []
    expected = torch.nn.functional.layer_norm(plain(x, 0), [16])
    torch.testing.assert_close(normed(x, 0), expected)


@pytest.mark.parametrize("norm", [False, True])
def test_dropout_falls_on_the_sum_of_embedding_and_position(norm):
    config = replace(CONFIG, dropout=0.5, embedding_norm=norm)
    enter = StackInput(config).train()
    x = torch.randn(4, 30, 16)

    dropped = enter(x, 0)

    whole = enter.eval()(x, 0)
    silent = dropped == 0
    assert 0.4 < silent.float().mean() < 0.6
    torch.testing.assert_close(dropped[~silent], 2 * whole[~silent])


def test_the_output_has_a_matrix_of_its_own_only_when_nothing_is_tied():
    for tying, own in [("none", True), ("output", False), ("all", False)]:
        layer = OutputProjection(replace(CONFIG, tie_embeddings=tying), 9)

        assert (layer.vectors is not None) is own
        assert layer.bias is None
