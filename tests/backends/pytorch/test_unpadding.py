"""Packed batches give the values and gradients of padded ones."""

import pytest
import torch

from headwise.backends.pytorch import fused_attention
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.unpadded_forward import decode_packed
from headwise.backends.pytorch.unpadding import ROUND, Packing

EXACT = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(2017)


def lengths_to_mask(lengths, longest):
    return torch.arange(longest)[None, :] < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("lengths", [[3], [1, 4, 2], [4] * 70, [1] * ROUND])
def test_packing_keeps_every_real_token_in_order(lengths):
    is_real = lengths_to_mask(lengths, 4)
    x = torch.randn(len(lengths), 4, 6)

    packing = Packing.of(is_real, num_heads=2)
    packed = packing.pack(x)

    assert packing.num_real == sum(lengths)
    assert packed.shape[1] % ROUND == 0
    assert packed.shape[1] > packing.num_real  # the last row is always filler
    assert torch.equal(packed[0, : packing.num_real], x[is_real])


def test_merge_heads_inverts_split_heads():
    """As a transposition would have it, were there no padding."""
    is_real = lengths_to_mask([3, 1, 2], 3)
    x = torch.randn(3, 3, 2, 5)  # B L H C

    packing = Packing.of(is_real, num_heads=2)
    packed = packing.pack(x.flatten(2)).view(1, -1, 2, 5).transpose(1, 2)
    apart = packing.split_heads(packed)
    joined = packing.merge_heads(apart)

    seen = apart.view(3, 2, 3, 5).transpose(1, 2)
    assert torch.equal(seen[is_real], x[is_real])
    real = packing.num_real
    assert torch.equal(joined[:, :, :real], packed[:, :, :real])
    assert (joined[:, :, real:] == 0).all()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("longest", [fused_attention.MAX_KEYS_BY_MATMUL, 2])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_model_learns_the_same_without_padding(
    small, norm, longest, positions, monkeypatch
):
    """Values and gradients, by products and, for what is long, by torch's kernel."""
    monkeypatch.setattr(fused_attention, "MAX_KEYS_BY_MATMUL", longest)
    model = small(norm=norm, positions=positions, dropout=0.0).double().train()
    source_is_real = lengths_to_mask([5, 2, 4], 5)
    target_is_real = lengths_to_mask([1, 6, 3], 6)
    source = torch.randint(4, 9, (3, 5)) * source_is_real
    target = torch.randint(4, 9, (3, 6)) * target_is_real
    batch = source, target, source_is_real, target_is_real
    found = {}
    for way in ("auto", "reference"):
        use_backend(model, way)
        model.zero_grad()
        out = decode_packed(model, *batch)
        (out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        gradients = (each.grad for each in model.parameters())
        found[way] = [out, *(each.clone() for each in gradients if each is not None)]

    for fast, readable in zip(*found.values(), strict=True):
        torch.testing.assert_close(fast, readable, **EXACT)


def test_padding_is_never_attended_to(small):
    model = small(dropout=0.0).train()
    is_real = lengths_to_mask([2, 4], 4)
    clean = torch.randint(4, 9, (2, 4)) * is_real
    dirty = torch.where(is_real, clean, 7)

    outs = [decode_packed(model, x, x, is_real, is_real) for x in (clean, dirty)]

    assert torch.equal(*outs)
