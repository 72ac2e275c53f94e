"""The walk that each batch takes is PyTorch's own, names and order included."""

import pytest
from torch import nn

from headwise.backends.native.customization_check import named_parts
from headwise.model import Transformer
from headwise.model.config import TransformerConfig


def shared_and_absent() -> nn.Module:
    """Return a module twice in a model, a weight twice, and a weight that is None."""
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
    other.weight = layer.weight
    return nn.Sequential(layer, nn.Sequential(other, layer), nn.LayerNorm(2))


@pytest.mark.parametrize(
    "model",
    [
        shared_and_absent(),
        *(
            Transformer(
                TransformerConfig(
                    encoder_layers=2,
                    decoder_layers=1,
                    d_model=8,
                    d_ff=8,
                    num_heads=2,
                    tie_embeddings=tied,
                ),
                11,
            )
            for tied in ("all", "none")
        ),
    ],
    ids=["shared", "tied", "not tied"],
)
def test_modules_and_weights_are_those_of_pytorch(model):
    parts = named_parts(model)

    assert parts.modules == [*model.named_modules()]
    found = [(name, id(each)) for name, each in parts.weights]
    assert found == [(name, id(each)) for name, each in model.named_parameters()]
