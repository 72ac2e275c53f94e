"""Windows, groups of heads, and what backends and observers ask of a variant."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from tests.model.conftest import SMALL, VOCABULARY
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from headwise.errors import SettingsError
from headwise.model.attention import MultiHeadAttention
from headwise.model.attention_hooks import record_attention_weights
from headwise.model.config import AttentionName
from headwise.model.decoder_only import DecoderOnly
from headwise.model.encoder_only import EncoderOnly
from headwise.model.transformer import Transformer
from headwise.model.variants.attention import VariantAttention, Window, window_of
from headwise.model.variants.relative_positions import RELATIVE_POSITIONS
from headwise.model.variants.scores import SCORES

WINDOWS = {
    "itself": Window(0, 0),
    "before": Window(3, 0),
    "both sides": Window(2, 2),
    "wider than the text": Window(40, 40),
}
EACH_WINDOW = pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)


def attention(score="scaled", positions=None, window=None):
    """Make attention of two heads with d_k = d_v = 4, as after some training."""
    config = replace(SMALL, d_model=8, num_heads=2, attention=score)
    made = None
    if positions is not None:
        made = RELATIVE_POSITIONS[positions](config, False).double()
    variant = VariantAttention(SCORES[score](2, 4).double(), made, window)
    with torch.no_grad():
        for module in (variant.score, made):
            for each in () if module is None else module.parameters():
                each.copy_(torch.randn_like(each))
    return variant


def drawn(queries, keys):
    lengths = queries, keys, keys
    return [
        torch.randn(2, 2, n, 4, dtype=torch.float64, requires_grad=True)
        for n in lengths
    ]


@EACH_WINDOW
@pytest.mark.parametrize("positions", [None, *RELATIVE_POSITIONS])
@pytest.mark.parametrize("score", get_args(AttentionName))
def test_blocks_equal_the_whole_matrix_with_a_mask(score, positions, window):
    """Values and gradients, over whole texts and with fewer queries than keys."""
    attend = attention(score, positions, window)
    for queries, keys in ((1, 1), (11, 11), (1, 11), (4, 11), (30, 30)):
        inputs = drawn(queries, keys)
        is_real = torch.arange(keys) < torch.tensor([[keys], [max(1, keys - 2)]])
        mask = is_real[:, None, None]

        blocks = attend(*inputs, mask, 0.0)
        dense = attend.mix(attend.weigh(*inputs[:2], mask), inputs[2])

        torch.testing.assert_close(blocks, dense)
        direction = torch.randn_like(dense)
        for ours, wanted in zip(
            torch.autograd.grad(blocks, inputs, direction, allow_unused=True),
            torch.autograd.grad(dense, inputs, direction, allow_unused=True),
            strict=True,
        ):
            if wanted is not None and ours is not None:
                torch.testing.assert_close(ours, wanted)


@EACH_WINDOW
def test_a_window_equals_attention_of_torch_with_a_band_as_mask(window):
    inputs = drawn(12, 12)
    positions = torch.arange(12)
    apart = positions - positions[:, None]
    band = (apart >= -window.before) & (apart <= window.after)

    ours = attention(window=window)(*inputs, None, 0.0)

    torch.testing.assert_close(ours, F.scaled_dot_product_attention(*inputs, band))


def test_windows_by_hand():
    """Five positions: two before and two after in an encoder, the last five if not."""
    config = replace(SMALL, attention_window=5)
    assert window_of(config, causal=False) == Window(2, 2)
    assert window_of(config, causal=True) == Window(4, 0)
    assert window_of(SMALL, causal=True) is None
    itself = window_of(replace(SMALL, attention_window=1), causal=False)
    assert itself == Window(0, 0)


@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_decoder_alone_equals_one_with_the_window_of_its_task(decoder_only, window):
    """``language_model.window`` does the same by a mask of n² entries."""
    ours = decoder_only(attention_window=window, dtype=torch.float64)
    theirs = DecoderOnly(
        replace(ours.config, attention_window=None), VOCABULARY, window=window
    )
    theirs.double().load_state_dict(ours.state_dict())
    tokens = torch.randint(1, VOCABULARY, (2, 20))

    torch.testing.assert_close(ours(tokens), theirs.eval()(tokens))


def test_only_positions_within_reach_have_an_influence(encoder_only):
    """Two layers that reach one position on each side reach two."""
    model = encoder_only(attention_window=3)
    tokens = torch.randint(1, VOCABULARY, (1, 11))
    other = tokens.clone()
    other[0, 5] = tokens[0, 5] % (VOCABULARY - 1) + 1
    is_real = torch.ones(1, 11, dtype=torch.bool)

    changed = (model(tokens, is_real) != model(other, is_real))[0].any(dim=-1)

    assert changed.nonzero().flatten().tolist() == [3, 4, 5, 6, 7]


class LargestTensor(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that is made meanwhile."""

    def __init__(self):
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for each in out if isinstance(out, tuple | list) else (out,):
            if isinstance(each, torch.Tensor):
                self.largest = max(self.largest, each.untyped_storage().nbytes())
        return out


def one_update(model, tokens):
    with LargestTensor() as seen, FlopCounterMode(display=False) as counter:
        if isinstance(model, DecoderOnly):
            out = model(tokens)
        elif isinstance(model, EncoderOnly):
            out = model(tokens, torch.ones_like(tokens, dtype=torch.bool))
        else:
            real = torch.ones(1, 2, dtype=torch.bool)
            out = model(tokens[:, :2], tokens, real)
        out.square().mean().backward()
    return seen.largest, counter.get_total_flops()


STACKS = {
    "encoder": lambda c: EncoderOnly(replace(c, decoder_layers=0), VOCABULARY),
    "decoder": lambda c: DecoderOnly(replace(c, encoder_layers=0), VOCABULARY),
    "both": lambda c: Transformer(c, VOCABULARY),
}


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "shaw"])
@pytest.mark.parametrize("stack", STACKS)
def test_memory_and_time_of_a_window_grow_with_the_length_alone(stack, positions):
    """Forward and backward; without a window both grow with its square."""
    config = replace(SMALL, positions=positions, attention_window=5)
    short, long = (
        one_update(STACKS[stack](config), torch.randint(1, VOCABULARY, (1, length)))
        for length in (1000, 4000)
    )
    full = [
        one_update(
            STACKS[stack](replace(config, attention_window=None)),
            torch.randint(1, VOCABULARY, (1, length)),
        )
        for length in (200, 800)
    ]

    assert long[0] < 4.5 * short[0]
    assert long[1] < 4.5 * short[1]
    assert long[0] < 4000**2  # bytes: less than a mask of one byte for each pair
    assert full[1][0] > 12 * full[0][0]


def one_layer(model, tokens, part):
    """Return the vectors of a part of a text, from the positions in it alone."""
    x = model.enter_encoder(model.embedding(tokens[:, part]), part.start)
    mask = torch.ones(1, 1, 1, x.shape[1], dtype=torch.bool)
    return model.encoder(x, mask)[0]


def test_a_text_is_read_whose_square_fits_into_no_memory():
    """300,000 positions: a mask of all pairs would have 90 GB."""
    config = replace(SMALL, encoder_layers=1, attention_window=3, d_model=8)
    model = STACKS["encoder"](replace(config, num_heads=2)).eval()
    tokens = torch.randint(1, VOCABULARY, (1, 300_000))

    with torch.inference_mode():
        out = model(tokens, torch.ones_like(tokens, dtype=torch.bool))

    part = slice(149_990, 150_010)
    alone = one_layer(model, tokens, part)
    torch.testing.assert_close(out[0, 149_991:150_009], alone[1:-1])


def test_a_step_costs_as_much_at_any_position(small, batch):
    source, _, is_real = batch
    model = small(attention_window=5)
    state, costs = model.start(source, is_real), []
    for position in range(60):
        with FlopCounterMode(display=False) as counter:
            _, state = model.step(torch.tensor([1, 2, 3]), state)
        if position in (10, 59):
            costs.append(counter.get_total_flops())

    assert costs[0] == costs[1]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_queries_equal_attention_of_torch(groups):
    layer = MultiHeadAttention(16, 4, d_k=3, d_v=5, num_key_value_heads=groups)
    x, source = torch.randn(2, 6, 16), torch.randn(2, 7, 16)

    out = layer(x, source)

    queries = layer.to_queries(x).view(2, 6, 4, 3).transpose(1, 2)
    keys = layer.to_keys(source).view(2, 7, groups, 3).transpose(1, 2)
    values = layer.to_values(source).view(2, 7, groups, 5).transpose(1, 2)
    heads = F.scaled_dot_product_attention(queries, keys, values, enable_gqa=True)
    wanted = layer.to_output(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(out, wanted)


def test_a_cache_of_grouped_queries_has_their_heads_of_keys_alone(small, batch):
    source, target, is_real = batch
    model = small(num_key_value_heads=2)

    _, state = model.step(target[:, 0], model.start(source, is_real))

    assert state.self_kv[0].append(state.cross_kv[0]).keys.shape[1] == 2
    assert state.cross_kv[0].keys.shape[1] == 2


@pytest.mark.parametrize(
    "choice",
    [
        {"attention": "cosine"},
        {"positions": "shaw"},
        {"positions": "t5", "attention_window": 3},
        {"num_key_value_heads": 2, "attention": "additive"},
    ],
    ids=str,
)
def test_recorded_weights_are_those_that_were_used(choice, small, batch):
    source, target, is_real = batch
    model = small(**choice, dtype=torch.float64)
    wanted = model(source, target, is_real)

    with record_attention_weights(model) as record:
        out = model(source, target, is_real)

    torch.testing.assert_close(out, wanted)
    assert len(record) == 6
    for name, (weights,) in record.items():
        sums = weights.sum(-1)
        if "encoder" in name:  # padding may see nothing but padding in its window
            sums = sums.transpose(1, 2)[is_real]
        torch.testing.assert_close(sums, torch.ones_like(sums))
        if "encoder" in name or "cross" in name:
            assert not weights[2, :, :, 2:].any()  # padding
        elif "decoder" in name:
            assert not weights.triu(1).any()


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"num_key_value_heads": 3}, "must divide num_heads=4 into equal groups; 3"),
        ({"num_key_value_heads": 8}, "must divide num_heads=4 into equal groups; 8"),
        ({"num_key_value_heads": 0}, "num_key_value_heads must be 1 or more, not 0"),
        ({"attention_window": 4}, "must be odd in an encoder.*4 is not, 5 would be"),
        ({"attention_window": 0}, "attention_window must be 1 or more, not 0"),
        ({"attention": "dot"}, "attention must be one of scaled, .*not 'dot'"),
        ({"positions": "shaw", "attention": "cosine"}, "'cosine' is none; set"),
    ],
    ids=str,
)
def test_settings_that_do_not_go_together_are_refused(choice, said):
    with pytest.raises(SettingsError, match=said):
        replace(SMALL, **choice)


def test_two_windows_of_one_attention_are_refused(decoder_only):
    with pytest.raises(SettingsError, match="window = 3 and attention_window = 5"):
        decoder_only(window=3, attention_window=5)
