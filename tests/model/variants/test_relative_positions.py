"""Relative positions, against what was published and the code of others."""

import math
from dataclasses import replace

import pytest
import torch
from tests.model.conftest import SMALL, VOCABULARY
from torch.nn import functional as F
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from headwise.model.attention import MultiHeadAttention
from headwise.model.masks import make_causal_mask
from headwise.model.transformer import Transformer
from headwise.model.variants.attention import (
    VariantAttention,
    as_self_attention,
    distances,
)
from headwise.model.variants.relative_positions import (
    RELATIVE_POSITIONS,
    SHAW_CLIP,
    Alibi,
    ShawPositions,
    T5Bias,
    alibi_slopes,
    t5_buckets,
)
from headwise.model.variants.scores import DotProduct

CPU = torch.device("cpu")


def drawn(length=6, heads=4, width=3):
    return torch.randn(3, 2, heads, length, width, dtype=torch.float64)


def randomized(module):
    with torch.no_grad():
        for each in module.parameters():
            each.copy_(torch.randn_like(each))
    return module


def test_slopes_of_eight_heads_are_those_of_the_paper():
    """Press et al. (2022), Section 3: 1/2, 1/4, …, 1/256."""
    assert alibi_slopes(8) == [2**-n for n in range(1, 9)]


def test_slopes_of_sixteen_heads_are_those_of_the_paper():
    """Press et al. (2022), Section 3: 1/2^0.5, 1/2^1, 1/2^1.5, …, 1/2^8."""
    assert alibi_slopes(16) == pytest.approx([2 ** (-n / 2) for n in range(1, 17)])


def test_slopes_of_twelve_heads_are_those_of_the_authors_code():
    """``get_slopes(12)``: the 8 of eight heads, and then each other one of sixteen."""
    eight, sixteen = alibi_slopes(8), alibi_slopes(16)
    assert alibi_slopes(12) == pytest.approx([*eight, *sixteen[0::2][:4]])


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 8, 12, 20, 32])
def test_slopes_equal_those_of_bloom(heads):
    """transformers builds slope times position for each head."""
    tensor = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)
    assert alibi_slopes(heads) == pytest.approx(tensor[:, 0, 1].tolist())


def test_alibi_equals_attention_of_torch_with_the_bias_of_the_paper():
    """Figure 3: 0 on the diagonal, -m to its left, -2m further left."""
    queries, keys, values = drawn(length=4, heads=2)
    rows = [[0, 0, 0, 0], [-1, 0, 0, 0], [-2, -1, 0, 0], [-3, -2, -1, 0]]
    slopes = torch.tensor([2**-4, 2**-8], dtype=torch.float64)[:, None, None]
    causal = make_causal_mask(4, CPU)
    bias = (slopes * torch.tensor(rows)).masked_fill(~causal, -math.inf)

    ours = VariantAttention(DotProduct(3**-0.5), Alibi(2))(
        queries, keys, values, causal, 0.0
    )

    wanted = F.scaled_dot_product_attention(queries, keys, values, bias)
    torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize("causal", [True, False])
def test_buckets_equal_those_of_transformers(causal):
    apart = torch.arange(-300, 301)[None]

    wanted = T5Attention._relative_position_bucket(
        apart, bidirectional=not causal, num_buckets=32, max_distance=128
    )

    assert torch.equal(t5_buckets(apart, causal=causal), wanted)


def test_buckets_by_hand():
    """Causal: 16 distances of their own, then log(d / 16) / log(8) · 16 more.

    17: 16 + ⌊0.47⌋; 64: 16 + ⌊10.67⌋; 127: 16 + ⌊15.94⌋; from 128 on the last.
    """
    apart = -torch.tensor([[0, 1, 15, 16, 17, 64, 127, 128, 10_000]])
    assert t5_buckets(apart, causal=True).tolist() == [
        [0, 1, 15, 16, 16, 26, 31, 31, 31]
    ]


@pytest.mark.parametrize("causal", [True, False])
def test_t5_attention_equals_that_of_transformers(causal):
    config = T5Config(
        d_model=16, d_kv=4, num_heads=4, dropout_rate=0.0, is_decoder=causal
    )
    theirs = randomized(T5Attention(config, has_relative_attention_bias=True).eval())
    settings = replace(SMALL, positions="t5", attention="unscaled")
    ours = MultiHeadAttention(16, 4, d_k=4, d_v=4)
    as_self_attention(ours, settings, causal=causal)
    with torch.no_grad():
        for name, other in (("queries", "q"), ("keys", "k"), ("values", "v")):
            getattr(ours, f"to_{name}").weight.copy_(getattr(theirs, other).weight)
        ours.to_output.weight.copy_(theirs.o.weight)
        ours.relative_positions.biases.copy_(theirs.relative_attention_bias.weight)
    x, mask, additive = torch.randn(2, 40, 16), None, None
    if causal:
        mask = make_causal_mask(40, CPU)
        additive = torch.zeros(1, 1, 40, 40).masked_fill(~mask, -torch.inf)

    wanted = theirs(x, mask=additive)[0]

    torch.testing.assert_close(ours(x, x, mask), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_shaw_attention_follows_equations_3_and_4(causal, scaled):
    """Over vectors for each pair of positions, as the paper has it before it folds."""
    length = SHAW_CLIP + 5
    queries, keys, values = drawn(length=length, heads=2)
    positions = ShawPositions(3, 3, causal=causal, scaled=scaled).double()
    randomized(positions)
    scale = 3**-0.5 if scaled else 1.0
    mask = make_causal_mask(length, CPU) if causal else None
    heads = VariantAttention(DotProduct(scale), positions)(
        queries, keys, values, mask, 0.0
    )

    last = 0 if causal else SHAW_CLIP
    a_keys = torch.zeros(length, length, 3, dtype=torch.float64)
    a_values = torch.zeros(length, length, 3, dtype=torch.float64)
    for i in range(length):
        for j in range(length):
            clipped = max(-SHAW_CLIP, min(last, j - i)) + SHAW_CLIP
            a_keys[i, j] = positions.of_keys.vectors[clipped]
            a_values[i, j] = positions.of_values.vectors[clipped]
    scores = torch.einsum("bhic,bhijc->bhij", queries, keys[:, :, None] + a_keys)
    scores = scores * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1)
    wanted = torch.einsum("bhij,bhijc->bhic", weights, values[:, :, None] + a_values)
    torch.testing.assert_close(heads, wanted)


def test_distances_are_those_of_keys_from_queries():
    """Two queries that are the last of three keys, and a block in front of a window."""
    assert distances(2, 3, 1, CPU).tolist() == [[-1, 0, 1], [-2, -1, 0]]
    assert distances(1, 3, 2, CPU).tolist() == [[-2, -1, 0]]


@pytest.mark.parametrize("name", RELATIVE_POSITIONS)
def test_self_attention_has_relative_positions_and_cross_attention_has_none(name):
    model = Transformer(replace(SMALL, positions=name), VOCABULARY)
    for block in (*model.encoder.blocks, *model.decoder.blocks):
        assert block.self_attention.attend.positions is not None
    for block in model.decoder.blocks:
        assert not isinstance(block.cross_attention.attend, VariantAttention)


def test_the_blocks_of_a_stack_share_the_biases_of_t5():
    model = Transformer(replace(SMALL, positions="t5"), VOCABULARY)
    biases = {
        stack: [block.self_attention.attend.positions for block in blocks]
        for stack, blocks in (
            ("encoder", model.encoder.blocks),
            ("decoder", model.decoder.blocks),
        )
    }

    for first, second in biases.values():
        assert first is second
    assert biases["encoder"][0] is not biases["decoder"][0]
    assert [n for n in model.state_dict() if "relative" in n] == [
        "encoder.blocks.0.self_attention.relative_positions.biases",
        "decoder.blocks.0.self_attention.relative_positions.biases",
    ]
    model.double()  # conversions keep them one
    assert biases["encoder"][1].biases.dtype == torch.float64


def test_the_tables_of_a_decoder_have_no_later_distances():
    causal = ShawPositions(4, 4, causal=True, scaled=True)
    both = ShawPositions(4, 4, causal=False, scaled=True)

    assert len(causal.of_keys.vectors) == SHAW_CLIP + 1
    assert len(both.of_keys.vectors) == 2 * SHAW_CLIP + 1


@pytest.mark.parametrize("causal", [True, False])
def test_t5_tells_apart_what_it_was_made_for(causal):
    bias = randomized(T5Bias(1, causal=causal))
    apart = torch.tensor([[-2, -1, 0, 1, 2]])
    added = bias.scores(torch.zeros(1, 1, 1, 3), apart)[0, 0, 0].tolist()
    assert len(set(added)) == (3 if causal else 5)
