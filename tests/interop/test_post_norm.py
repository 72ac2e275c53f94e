"""A model with DeepNorm as a post-norm model: the same function."""

import pytest
import torch

from headwise.interop.post_norm import as_post_norm
from headwise.model import TransformerConfig
from headwise.model.transformer import Transformer


def made(norm):
    config = TransformerConfig(
        encoder_layers=3,
        decoder_layers=2,
        d_model=16,
        d_ff=32,
        num_heads=2,
        norm=norm,
        attention_bias=True,
    )
    model = Transformer(config, 50, seed=1).double().eval()
    with torch.no_grad():
        for each in model.parameters():
            each += 0.2 * torch.randn(each.shape, dtype=torch.float64)
    return model


@torch.no_grad()
def test_it_computes_the_same_with_a_residual_scale_of_1():
    model = made("deep")
    before = {name: each.clone() for name, each in model.state_dict().items()}
    source, target = torch.randint(4, 50, (2, 3, 7))
    is_real = torch.ones_like(source, dtype=torch.bool)

    post = as_post_norm(model)

    scales = [x.residual_scale for x in post.modules() if hasattr(x, "residual_scale")]
    assert (
        scales == [1.0] * 12
    )  # 3 encoder blocks of 2 sublayers, 2 of the decoder of 3
    torch.testing.assert_close(
        post(source, target, is_real),
        model(source, target, is_real),
        rtol=1e-12,
        atol=1e-12,
    )
    assert all(torch.equal(before[name], x) for name, x in model.state_dict().items())


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_other_models_stay_as_they_are(norm):
    model = made(norm)

    assert as_post_norm(model) is model
