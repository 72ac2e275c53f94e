"""Unpadded batches give the values and gradients of padded ones."""

import pytest
import torch

from headwise.backends.pytorch import fused_attention
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.unpadded_forward import (
    ROUND,
    Unpadding,
    decode_only_unpadded,
    decode_unpadded,
    encode_unpadded,
)
from headwise.data.ragged_batch import RaggedTokens
from headwise.text.vocabulary import PAD

EXACT = {"rtol": 1e-9, "atol": 1e-9}
LENGTHS = [[3, 1, 7, 2], [4, 4, 4]]
"""With padding, and without, where heads are views and torch needs no mask."""

LONGEST = [fused_attention.MAX_KEYS_BY_MATMUL, 2]
"""Keys up to which products of matrices attend, and beyond them torch's kernel."""


def sentences(lengths):
    tokens = torch.randint(4, 9, (sum(lengths),))
    return RaggedTokens.from_lengths(tokens, torch.tensor(lengths))


@pytest.mark.parametrize("lengths", [[3], [1, 4, 2], [4] * 70, [1] * ROUND])
def test_unpadding_keeps_every_real_token_in_order(lengths):
    batch = sentences(lengths)
    x = torch.randn(*batch.padded_shape, 6)

    unpadding = Unpadding.of(batch, num_heads=2)
    unpadded = unpadding.unpad(x)

    assert unpadding.num_real == sum(lengths)
    assert unpadded.shape[1] % ROUND == 0
    assert unpadded.shape[1] > unpadding.num_real  # the last row is always filler
    assert torch.equal(unpadded[0, : unpadding.num_real], x[batch.is_real])


@pytest.mark.parametrize("lengths", [[3, 1, 2], [3, 3, 3]])
def test_merge_heads_inverts_split_heads(lengths):
    """As a transposition would have it, were there no padding."""
    batch = sentences(lengths)
    x = torch.randn(3, 3, 2, 5)  # B L H C

    unpadding = Unpadding.of(batch, num_heads=2)
    unpadded = unpadding.unpad(x.flatten(2)).view(1, -1, 2, 5).transpose(1, 2)
    apart = unpadding.split_heads(unpadded)
    joined = unpadding.merge_heads(apart)

    assert unpadding.is_padded == (lengths != [3, 3, 3])
    seen = apart.transpose(1, 2)
    assert torch.equal(seen[batch.is_real], x[batch.is_real])
    real = unpadding.num_real
    assert torch.equal(joined[:, :, :real], unpadded[:, :, :real])
    assert joined.shape == unpadded.shape
    assert (joined[:, :, real:] == 0).all()


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
@pytest.mark.parametrize("longest", LONGEST)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("lengths", [([5, 2, 4], [1, 6, 3]), ([4] * 3, [5] * 3)])
def test_a_model_learns_the_same_without_padding(
    small, norm, longest, positions, lengths, monkeypatch
):
    """Values and gradients, by products and, for what is long, by torch's kernel."""
    monkeypatch.setattr(fused_attention, "MAX_KEYS_BY_MATMUL", longest)
    model = small(norm=norm, positions=positions, dropout=0.0).double().train()
    source, target = map(sentences, lengths)
    found = {}
    for way in ("auto", "reference"):
        use_backend(model, way)
        model.zero_grad()
        if way == "reference":
            out = model.decode(source.padded(), target.padded(), source.is_real)
            out = out[target.is_real]
        else:
            out = decode_unpadded(model, source, target)
        (out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        gradients = (each.grad for each in model.parameters())
        found[way] = [out, *(each.clone() for each in gradients if each is not None)]

    for fast, readable in zip(*found.values(), strict=True):
        torch.testing.assert_close(fast, readable, **EXACT)


def test_padding_is_never_attended_to(small):
    model = use_backend(small(dropout=0.0).train(), "auto")
    source, target = sentences([2, 4]), sentences([4, 1])
    clean = decode_unpadded(model, source, target)
    with torch.no_grad():
        for embedding in (model.source_embedding, model.target_embedding):
            embedding.vectors[PAD] = 7.0

    dirty = decode_unpadded(model, source, target)

    assert torch.equal(clean, dirty)


def gradients_of(model, out):
    """Return the gradients of a weighted sum of ``out``."""
    model.zero_grad()
    (out * torch.arange(out.numel()).view(out.shape).sin()).sum().backward()
    return [each.grad for each in model.parameters()]


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("longest", LONGEST)
def test_a_decoder_alone_decodes_as_padded(
    decoder_only, norm, window, lengths, longest, monkeypatch
):
    monkeypatch.setattr(fused_attention, "MAX_KEYS_BY_MATMUL", longest)
    model = decoder_only(norm=norm, window=window, dtype=torch.float64).train()
    texts = sentences(lengths)

    use_backend(model, "reference")
    expected = model.decode(texts.padded())[texts.is_real]
    wanted = gradients_of(model, expected)
    use_backend(model, "torch")
    found = decode_only_unpadded(model, texts)

    torch.testing.assert_close(found, expected, **EXACT)
    torch.testing.assert_close(gradients_of(model, found), wanted, **EXACT)


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("longest", LONGEST)
def test_an_encoder_alone_encodes_as_padded(
    encoder_only, norm, lengths, longest, monkeypatch
):
    monkeypatch.setattr(fused_attention, "MAX_KEYS_BY_MATMUL", longest)
    model = encoder_only(norm=norm, dtype=torch.float64).train()
    texts = sentences(lengths)

    use_backend(model, "reference")
    expected = model.encode(texts.padded(), texts.is_real)[texts.is_real]
    wanted = gradients_of(model, expected)
    use_backend(model, "torch")
    found = encode_unpadded(model, texts)

    torch.testing.assert_close(found, expected, **EXACT)
    torch.testing.assert_close(gradients_of(model, found), wanted, **EXACT)
