"""An encoder alone (BERT): the left half of Figure 1."""

import pytest
import torch
from tests.model.conftest import VOCABULARY
from tests.model.one_stack_choices import EACH, NORMS, OF_ONE_FUNCTION

from headwise.errors import SettingsError
from headwise.model import EncoderOnly, TransformerConfig
from headwise.model.heads import MeanPooling


@OF_ONE_FUNCTION
def test_it_is_the_encoder_of_an_encoder_decoder(encoder_only, small, batch, choice):
    """With the same weights it is the same function, bit for bit."""
    source, _, is_real = batch
    whole, alone = small(**choice), encoder_only(**choice)
    alone.embedding.load_state_dict(whole.source_embedding.state_dict())
    alone.enter_encoder.load_state_dict(whole.enter_encoder.state_dict())
    alone.encoder.load_state_dict(whole.encoder.state_dict())

    encoded = alone.encode(source, is_real)

    state = whole.encode(source, is_real)
    for block, cross_kv in zip(whole.decoder.blocks, state.cross_kv, strict=True):
        own = block.cross_attention.project_keys_values(encoded)
        assert torch.equal(own.keys, cross_kv.keys)
        assert torch.equal(own.values, cross_kv.values)


def test_calling_the_module_encodes(encoder_only, batch):
    source, _, is_real = batch
    model = encoder_only()

    assert torch.equal(model(source, is_real), model.encode(source, is_real))


@EACH
def test_what_padding_holds_changes_nothing(encoder_only, batch, choice):
    source, _, is_real = batch
    model = encoder_only(**choice)
    other = torch.where(is_real, source, (source + 3) % VOCABULARY)

    before, after = model.encode(source, is_real), model.encode(other, is_real)

    assert not torch.equal(other, source)
    assert torch.equal(before[is_real], after[is_real])


@NORMS
def test_a_text_does_not_depend_on_the_batch_it_is_in(encoder_only, batch, norm):
    """Alone and unpadded, or beside longer ones."""
    source, _, is_real = batch
    for dtype, within in [(torch.float64, 1e-12), (torch.float32, 1e-6)]:
        model = encoder_only(dtype=dtype, norm=norm)
        together = model.encode(source, is_real)
        for row, length in enumerate([7, 5, 2]):
            mine = slice(row, row + 1), slice(length)

            alone = model.encode(source[mine], is_real[mine])

            assert (together[mine] - alone).norm() <= within * alone.norm()


@NORMS
def test_every_token_depends_on_every_token_and_not_on_padding(encoder_only, norm):
    """The derivative by the embedding of padding is exactly 0."""
    model = encoder_only(norm=norm, dtype=torch.float64)
    is_real = torch.arange(6) < 4
    mask = is_real[None, None, None]

    def output(embedded):
        return model.encoder(model.enter_encoder(embedded, 0), mask)

    embedded = torch.randn(1, 6, 16, dtype=torch.float64)
    depends = torch.autograd.functional.jacobian(output, embedded)
    depends = depends[0, :, :, 0].abs().amax(dim=(1, 3))  # 1 S D 1 S D -> S S

    assert (depends[is_real][:, is_real] > 0).all()
    assert (depends[is_real][:, ~is_real] == 0).all()


@NORMS
def test_without_positions_the_order_of_tokens_does_not_matter(encoder_only, norm):
    """Vectors are shuffled as their tokens are (equivariance); the mean stays."""
    model = encoder_only(norm=norm, positions="none", dtype=torch.float64)
    tokens, order = torch.arange(1, 9)[None], torch.randperm(8)
    is_real = torch.arange(8)[None] < 6

    encoded = model.encode(tokens, is_real)
    shuffled = model.encode(tokens[:, order], is_real[:, order])

    expected = encoded[:, order]
    torch.testing.assert_close(shuffled, expected, rtol=0, atol=1e-12)
    means = [
        MeanPooling()(vectors, real)
        for vectors, real in [(encoded, is_real), (shuffled, is_real[:, order])]
    ]
    torch.testing.assert_close(means[1], means[0], rtol=0, atol=1e-12)


def test_with_positions_the_order_of_tokens_matters(encoder_only):
    model = encoder_only(dtype=torch.float64)
    tokens, order = torch.arange(1, 6)[None], torch.tensor([1, 0, 2, 3, 4])
    is_real = torch.ones(1, 5, dtype=torch.bool)

    encoded = model.encode(tokens, is_real)
    shuffled = model.encode(tokens[:, order], is_real)

    assert (encoded[:, order] - shuffled).abs().max() > 0.01
    assert (encoded.mean(1) - shuffled.mean(1)).abs().max() > 0.01


@EACH
def test_every_setting_trains_all_its_weights(encoder_only, batch, choice):
    source, _, is_real = batch
    model = encoder_only(**choice).train()
    encoded = model(source, is_real)

    # A sum would be constant: with post-norm each vector is normalized.
    (encoded * torch.randn_like(encoded)).sum().backward()

    assert encoded.shape == (3, 7, model.config.d_model)
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        flat_by_nature = name.endswith("to_keys.bias")  # shifts all scores alike
        assert flat_by_nature or weight.grad.abs().max() > 0, name


def test_a_row_of_padding_alone_stays_finite(encoder_only):
    model = encoder_only().train()
    is_real = torch.tensor([[True, True], [False, False]])

    encoded = model.encode(torch.tensor([[1, 2], [0, 0]]), is_real)
    encoded.square().sum().backward()

    assert encoded.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


def test_a_model_of_another_shape_is_refused():
    both = TransformerConfig()
    decoder = TransformerConfig(encoder_layers=0)

    with pytest.raises(SettingsError) as error:
        EncoderOnly(both, 11)
    assert error.value.problems == [
        "decoder_layers must be 0, not 6: this model has no decoder"
    ]
    with pytest.raises(SettingsError) as error:
        EncoderOnly(decoder, 11)
    assert error.value.problems == [
        "encoder_layers must be 1 or more, not 0",
        "decoder_layers must be 0, not 6: this model has no decoder",
    ]


def test_the_same_seed_gives_the_same_weights():
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=0, d_model=8, d_ff=8, num_heads=2
    )

    first, second, other = (EncoderOnly(config, 11, seed=seed) for seed in (5, 5, 6))

    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    assert not torch.equal(first.embedding.vectors, other.embedding.vectors)
    assert first.device == torch.device("cpu")
