"""Small models of any shape with random weights, and a pair of tokens for them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.reference.numpy_transformer import NumpyTransformer

from headwise import load
from headwise.inspection.token_pair import TokenPair
from headwise.model import Transformer, TransformerConfig

DEMO = Path(__file__).parents[1] / "models" / "demo"

VOCABULARY = 13

SHAPE = TransformerConfig(
    encoder_layers=2, decoder_layers=2, d_model=16, d_ff=24, num_heads=4, dropout=0.1
)

SHAPES = {
    "as published": {},
    "pre-norm, gelu": {"norm": "pre", "activation": "gelu"},
    "DeepNorm": {"norm": "deep"},
    "rotary, biases": {
        "positions": "rotary",
        "attention_bias": True,
        "output_bias": True,
        "activation": "swish",
    },
    "other widths": {
        "d_k": 6,
        "d_v": 10,
        "embedding_norm": True,
        "tie_embeddings": "none",
        "norm": "pre",
    },
}

SOURCE = (5, 7, 4, 9, 5, 2)
TARGET = (6, 8, 11, 4, 2)


def random_model(dtype=torch.float64, seed=3, **changes):
    """Return a model with no weight that is 0 or 1, as after some training."""
    model = Transformer(replace(SHAPE, **changes), VOCABULARY, seed=seed).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn(
                weight.shape, generator=generator, dtype=torch.float64
            ).to(dtype)
    return model.eval()


def pieces(tokens):
    return tuple(f"t{token}" for token in tokens)


def pair_of(source=SOURCE, target=TARGET):
    return TokenPair(source, target, pieces(source), pieces(target), "<s>")


@pytest.fixture
def pair():
    return pair_of()


@pytest.fixture(params=SHAPES)
def model(request):
    """Return a model in float64, once of each shape."""
    return random_model(**SHAPES[request.param])


@pytest.fixture
def numbers(model, pair):
    """Return every array of the independent forward pass."""
    return NumpyTransformer(model).run(list(pair.source), list(pair.decoder_input))


@pytest.fixture(scope="session")
def demo():
    """Return the translator of the repository's model."""
    return load(DEMO, engine="torch")
