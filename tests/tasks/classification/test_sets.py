"""Without positions, a classifier reads a set: the order of its tokens
changes no class."""

import pytest
import torch

from headwise.data.ragged_batch import RaggedTokens
from headwise.model import TransformerConfig
from headwise.tasks.classification.model import TextClassifier
from headwise.tasks.encoder_spec import PoolingSettings
from headwise.text.vocabulary import END

CONFIG = TransformerConfig(
    encoder_layers=3,
    decoder_layers=0,
    d_model=24,
    d_ff=48,
    num_heads=3,
    positions="none",
)


def logits(model, tokens):
    text = torch.tensor([*tokens, END])
    return model(RaggedTokens.from_lengths(text, torch.tensor([len(text)])))


@pytest.mark.parametrize("pooling", ["first", "mean", "context"])
def test_the_order_of_a_set_does_not_change_its_class(pooling):
    settings = PoolingSettings(pooling=pooling)
    model = TextClassifier(CONFIG, 30, 9, settings, seed=1).double().eval()
    tokens = torch.randint(4, 30, (20,), generator=torch.Generator().manual_seed(2))
    expected = logits(model, tokens.tolist())

    for seed in range(5):
        order = torch.randperm(20, generator=torch.Generator().manual_seed(seed))
        found = logits(model, tokens[order].tolist())
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_with_positions_it_does():
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=0, d_model=8, d_ff=8, num_heads=2
    )
    model = TextClassifier(config, 30, 9, PoolingSettings(), seed=1).eval()

    assert not torch.allclose(logits(model, [5, 6, 7]), logits(model, [7, 6, 5]))
