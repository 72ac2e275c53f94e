"""The logit lens against an independent forward pass."""

import numpy as np
import pytest
from tests.inspection.test_output import Letters
from tests.reference.numpy_transformer import NumpyTransformer, log_softmax

from headwise.inspection.logit_lens import logit_lens
from headwise.inspection.output import output_of
from headwise.inspection.token_pair import TokenPair
from headwise.model import DecoderOnly, TransformerConfig


def test_every_layer_says_what_its_vectors_give(model, pair, numbers):
    """If pre-norm, through the norm at the end of the stack, which is the last's."""
    reference = NumpyTransformer(model)
    names = ["decoder.in", "decoder.0.out", "decoder.1.out"]

    found = logit_lens(model, pair, Letters(), count=13)

    assert [layer.layer for layer in found.layers] == [None, 0, 1]
    for layer, name in zip(found.layers, names, strict=True):
        x = reference.last_norm("decoder", numbers[name])
        rows = log_softmax(reference.logits(x))
        for position, row in zip(layer.positions, rows, strict=True):
            assert position.log_probability == pytest.approx(
                row[position.token], abs=1e-9
            )
            assert position.alternatives[0].token == int(np.argmax(row))


def test_the_last_layer_is_the_output(model, pair):
    last = logit_lens(model, pair, Letters()).layers[-1]

    assert last.positions == output_of(model, pair, Letters(), count=3).positions


def test_a_decoder_alone_has_one_too():
    config = TransformerConfig(
        encoder_layers=0, decoder_layers=3, d_model=16, d_ff=24, num_heads=4, norm="pre"
    )
    pair = TokenPair((), (5, 6, 2), (), ("a", "b", "</s>"), "<s>")

    found = logit_lens(DecoderOnly(config, 13), pair, Letters())

    assert len(found.layers) == 4
    assert [len(row) for row in found.best()] == [3] * 4
