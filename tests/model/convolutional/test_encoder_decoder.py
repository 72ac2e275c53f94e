"""Convolutional encoder-decoders; ``test_kinds.py`` has the laws of all kinds."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from headwise.errors import SettingsError
from headwise.model import TransformerConfig
from headwise.model.config_checks import CONVOLUTIONAL, POSITIONS_OF_CONVOLUTIONS
from headwise.model.convolutional.encoder_decoder import INPUT_SCALE
from headwise.model.kinds import ENCODER_DECODERS, new_encoder_decoder

EACH = pytest.mark.parametrize("kind", CONVOLUTIONAL)
LENGTH = 60


def source_read_by(model, place):
    """Return the positions of a long source that the encoder's output at one reads."""
    x = torch.randn(1, LENGTH, 16).double().requires_grad_()
    out = model.encoder(x, torch.ones(1, LENGTH) > 0)
    out[0, place].sum().backward()
    return x.grad[0].abs().amax(-1).nonzero().flatten().tolist()


def target_read_by(model, place):
    """Return the positions of a long target that the output at one reads."""
    encoded = torch.randn(1, 3, 16).double()
    state = model.decoder.initial_state(encoded, encoded, torch.ones(1, 3) > 0)
    x = torch.randn(1, LENGTH, 16).double().requires_grad_()
    out, _ = model.decoder(x, state)
    out[0, place].sum().backward()
    return x.grad[0].abs().amax(-1).nonzero().flatten().tolist()


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_plain_kernels_read_k_minus_1_positions_more_with_each_layer(
    small, size, layers
):
    """So n positions need about n / k layers."""
    model = small(
        dtype=torch.float64,
        kind="convolutional",
        kernel_size=size,
        encoder_layers=layers,
        decoder_layers=layers,
    )
    side = layers * (size - 1) // 2

    assert source_read_by(model, 30) == [*range(30 - side, 31 + side)]
    assert target_read_by(model, 30) == [*range(30 - 2 * side, 31)]


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_dilated_kernels_read_twice_as_much_with_each_layer(small, layers):
    """2^(N + 1) - 1 positions with kernels of 3: n positions need log n layers."""
    model = small(
        dtype=torch.float64,
        kind="dilated",
        kernel_size=3,
        encoder_layers=layers,
        decoder_layers=layers,
    )
    side = 2**layers - 1

    assert source_read_by(model, 30) == [*range(30 - side, 31 + side)]
    assert target_read_by(model, 40) == [*range(40 - 2 * side, 41)]


@EACH
def test_values_are_keys_and_inputs_and_grow_with_the_root_of_the_length(
    small, batch, kind
):
    source, _, is_real = batch
    model = small(dtype=torch.float64, kind=kind)

    memory = model.start(source, is_real).memory

    encoded = model.encode_source(source, is_real)
    embedded = model.enter_encoder(model.embed_source(source), 0) * INPUT_SCALE
    assert torch.equal(memory.keys, encoded)
    for row, length in enumerate([7, 5, 2]):
        expected = (encoded[row] + embedded[row]) * math.sqrt(length / 2)
        torch.testing.assert_close(memory.values[row], expected)


@EACH
def test_a_state_has_no_more_than_its_kernels_read(small, batch, kind):
    """However many tokens are decoded."""
    source, target, is_real = batch
    layers = {"encoder_layers": 6, "decoder_layers": 6}
    model = small(kind=kind, kernel_size=5, **layers)
    state = model.start(source, is_real)
    for _ in range(30):
        _, state = model.step(target[:, 0], state)

    dilations = [1] * 6 if kind == "convolutional" else [1, 2, 4, 8, 16, 1]
    assert [each.shape[1] for each in state.earlier] == [4 * each for each in dilations]
    assert state.position == 30


@EACH
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_kernels_begin_with_the_published_variance(kind, dropout):
    config = TransformerConfig(
        kind=kind,
        d_model=128,
        kernel_size=5,
        dropout=dropout,
        encoder_layers=1,
        decoder_layers=1,
    )
    model = new_encoder_decoder(config, 11, seed=1)
    for stack in (model.encoder, model.decoder):
        kernels = stack.layers[0].convolution.convolution.weight
        expected = 4 * (1 - dropout) / (5 * 128)
        assert kernels.var().item() == pytest.approx(expected, rel=0.02)


@EACH
@pytest.mark.parametrize("layers", [4, 12])
@pytest.mark.parametrize("scale", [0.1, INPUT_SCALE])
def test_signals_keep_their_size_through_many_layers(kind, layers, scale):
    """What sums, kernels and √m are scaled for.

    The larger the inputs, the less even is attention, and the more its mean times √m:
    a decoder may grow by a fifth with each layer.
    """
    config = TransformerConfig(
        kind=kind,
        d_model=64,
        encoder_layers=layers,
        decoder_layers=layers,
        dropout=0.0,
    )
    model = new_encoder_decoder(config, 11, seed=1).eval()
    source, embedded, target = torch.randn(3, 4, 20, 64) * scale
    is_real = torch.ones(4, 20) > 0

    encoded = model.encoder(source, is_real)
    state = model.decoder.initial_state(encoded, embedded, is_real)
    decoded, _ = model.decoder(target, state)

    growth = 2.5 if scale == 0.1 else 1.2**layers
    assert 0.4 < encoded.std() / scale < 2.5
    assert 0.4 < decoded.std() / scale < max(2.5, growth)


@EACH
def test_it_learns_to_reverse(kind):
    config = TransformerConfig(
        kind=kind, encoder_layers=2, decoder_layers=2, d_model=32, dropout=0.0
    )
    model = new_encoder_decoder(config, 11, seed=1).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(250):
        source = torch.randint(3, 11, (32, 5))
        target = source.flip(1)
        shifted = F.pad(target, (1, 0), value=1)[:, :-1]
        logits = model(source, shifted, source > 0)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    assert loss < 0.1


@EACH
def test_an_even_kernel_has_no_middle(kind):
    with pytest.raises(
        SettingsError, match=r"kernel_size must be odd.* 4 is not, 5 wo"
    ):
        TransformerConfig(kind=kind, kernel_size=4)
    with pytest.raises(SettingsError, match="kernel_size must be 1 or more, not 0"):
        TransformerConfig(kind=kind, kernel_size=0)


@pytest.mark.parametrize("kind", sorted({*ENCODER_DECODERS} - {*CONVOLUTIONAL}))
def test_a_kernel_is_refused_where_nothing_is_convolved(kind):
    with pytest.raises(
        SettingsError, match=r"kernel_size = 5 is for .* 'dilated' only"
    ):
        TransformerConfig(kind=kind, kernel_size=5)


@EACH
def test_positions_that_are_added_to_embeddings_are_known_and_others_refused(kind):
    for known in POSITIONS_OF_CONVOLUTIONS:
        TransformerConfig(kind=kind, positions=known)
    with pytest.raises(
        SettingsError, match=r"positions must be one of sinusoidal.*'rot"
    ):
        TransformerConfig(kind=kind, positions="rotary")
    with pytest.raises(SettingsError, match="sinusoids come in pairs"):
        TransformerConfig(kind=kind, d_model=15)
    assert TransformerConfig(kind=kind, positions="learned", d_model=15).position_limit


@EACH
@pytest.mark.parametrize(
    ("name", "value"),
    [("norm", "pre"), ("attention", "cosine"), ("feed_forward", "glu"), ("d_k", 4)],
)
def test_what_only_a_transformer_has_is_refused(kind, name, value):
    with pytest.raises(SettingsError, match=f"{name} = .* leave it out"):
        TransformerConfig(**{"kind": kind, name: value})


@EACH
def test_each_layer_of_the_decoder_has_one_head(kind):
    config = TransformerConfig(kind=kind, decoder_layers=5)
    assert config.cross_attention_shape == (5, 1)
    assert replace(config, decoder_layers=2).cross_attention_shape == (2, 1)
