"""The native decoder: the scores of Transformer.step, the same bits in any batch."""

from __future__ import annotations

import ctypes
import math
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.decoder_equality import VARIANTS, assert_same_steps, made, sources

from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.steps import MAX_STEPS_AHEAD
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.decoding import topk
from headwise.decoding.topk import topk_tokens
from headwise.errors import ModelError, NumericsError, UsageError

pytestmark = pytest.mark.usefixtures("uses_native_backend")

NATIVE_VARIANTS = VARIANTS | {
    "rotary": {"positions": "rotary", "d_k": 22, "d_v": 5},
    "rotary, pre": {"positions": "rotary", "norm": "pre", "d_model": 128},
}


@pytest.fixture
def source():
    return sources(7, 4, 7)


@pytest.mark.parametrize("changed", NATIVE_VARIANTS.values(), ids=NATIVE_VARIANTS)
@torch.inference_mode()
def test_the_scores_are_those_of_the_model(changed, source):
    model = made(**changed)

    assert_same_steps(model, NativeDecoder(model), source, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("changed", NATIVE_VARIANTS.values(), ids=NATIVE_VARIANTS)
@torch.inference_mode()
def test_bfloat16_is_near(changed, source):
    model = made(**changed)
    near = NativeDecoder(model, "bf16")

    assert_same_steps(model, near, source, steps=14, rtol=0.08, atol=0.08)
    tokens = torch.tensor([1, 1, 1])
    exact, _ = model.step(tokens, model.start(*source))
    scores, _ = near.step(tokens, near.start(*source))
    assert not torch.equal(scores, exact)


@torch.inference_mode()
def test_the_bfloat16_kv_cache_is_rounded_to_the_nearest():
    """Whole numbers, so that sums are exact; torch rounds ties to even, as we do."""
    model = made(d_model=64, positions="none")
    attention = model.decoder.blocks[0].self_attention
    generator = torch.Generator().manual_seed(5)
    for weight in (attention.to_keys.weight, attention.to_values.weight):
        weight.copy_(torch.randint(-8, 8, weight.shape, generator=generator))
    (table,) = {id(each): each for each in model.embeddings.values()}.values()
    table.vectors.copy_(torch.randint(-8, 8, table.vectors.shape, generator=generator))
    table.vectors.div_(table.scale)
    tokens = torch.arange(3, 40)
    entering = table.vectors[tokens] * table.scale
    exact = torch.cat(
        [attention.to_keys(entering), attention.to_values(entering)], dim=1
    )

    fast = NativeDecoder(model, "bf16")
    _, state = fast.step(tokens, fast.start(*sources(*[3] * len(tokens))))

    size = exact.numel()  # the first block's come first
    kept = (ctypes.c_uint16 * size).from_address(int(state.cache.blocks[0]))
    bits = torch.frombuffer(bytearray(kept), dtype=torch.bfloat16).view(exact.shape)
    assert torch.equal(bits, exact.to(torch.bfloat16))
    assert not torch.equal(bits.float(), exact)  # there was something to round


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@torch.inference_mode()
def test_every_variant_decodes_the_same(precision, source, each_library, monkeypatch):
    model = made(vocabulary=1100, d_model=48, d_ff=33)
    here = NativeDecoder(model, precision)
    for place in ("weights", "steps"):
        name = f"headwise.backends.native.{place}.kernels"
        monkeypatch.setattr(name, lambda: each_library)
    there = NativeDecoder(model, precision)

    near = 1e-5 if precision == "float32" else 2e-2
    assert_same_steps(here, there, source, rtol=near, atol=near)
    tokens = torch.tensor([1, 1, 1])
    log_p, found, _ = there.step_topk(tokens, there.start(*source), 4, (0, 1))
    expected, tokens, _ = here.step_topk(tokens, here.start(*source), 4, (0, 1))
    torch.testing.assert_close(log_p, expected, rtol=near, atol=near)
    if precision == "float32":
        assert torch.equal(found, tokens)


@pytest.mark.parametrize(
    "real",
    [
        [[0, 0, 0, 0], [1, 1, 0, 0]],  # a source of nothing
        [[1, 0, 1, 1], [0, 1, 1, 0]],  # holes
        [[0, 0, 0, 0], [0, 0, 0, 0]],
    ],
)
@torch.inference_mode()
def test_padding_is_not_encoded(real):
    model = made()
    fast = NativeDecoder(model)
    tokens = torch.tensor([[9, 8, 7, 6], [5, 6, 7, 8]])
    is_real = torch.tensor(real) > 0
    after = torch.tensor([1, 1])

    expected, _ = model.step(after, model.start(tokens, is_real))
    scores, _ = fast.step(after, fast.start(tokens, is_real))

    torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_decoding_can_branch_from_an_older_state(source):
    """Two continuations of one state, also beyond the first capacity of the cache."""
    fast = NativeDecoder(made())
    state = fast.start(*source).index_select(torch.tensor([2, 0, 1, 1]))
    tokens = torch.tensor([1, 2, 3, 4])
    for _ in range(30):
        _, state = fast.step(tokens, state)

    def on(state, first):
        found = []
        for step in range(8):
            scores, state = fast.step((tokens + first + step) % 50, state)
            found.append(scores)
            state = state.index_select(torch.tensor([1, 0, 2, 3]))
        return torch.stack(found)

    once = on(state, 7)
    other = on(state, 20)
    again = on(state, 7)

    assert torch.equal(once, again)
    assert not torch.equal(once, other)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("changed", [{}, VARIANTS["odd"], VARIANTS["wide heads"]])
@torch.inference_mode()
def test_a_row_is_the_same_bits_in_any_batch(precision, changed):
    """Alone, among others, in another place: scores and choice of every step."""
    fast = NativeDecoder(made(vocabulary=1300, **changed), precision)
    lengths = [1 + number * 7 % 19 for number in range(37)]
    tokens, real = sources(*lengths, vocabulary=1300)

    def written(rows: list[int]) -> list[torch.Tensor]:
        few, is_real = tokens[rows], real[rows]
        longest = int(is_real.sum(1).max())
        state = fast.start(few[:, :longest], is_real[:, :longest])
        after, found = torch.tensor(rows) + 4, []
        for _ in range(5):
            scores, _ = fast.step(after, state)
            log_p, ids, state = fast.step_topk(after, state, 3, (0,))
            found += [scores, log_p, ids]
            after = ids[:, 1]
        return found

    whole = written(list(range(37)))
    for rows in ([11], [36, 2], list(range(30, 13, -1)), [5, 5, 5], list(range(13))):
        for few, all_rows in zip(written(rows), whole, strict=True):
            assert torch.equal(few, all_rows[rows])


@torch.inference_mode()
def test_positional_encodings_are_extended_when_needed():
    model = made()
    long = sources(300, 260, 3)

    assert_same_steps(
        model, NativeDecoder(model), long, steps=270, rtol=1e-4, atol=1e-4
    )


@torch.inference_mode()
def test_more_positions_than_were_learned_are_refused(source):
    fast = NativeDecoder(made(positions="learned", max_positions=8))
    tokens = torch.tensor([1, 1, 1])
    state = fast.start(*source)
    for _ in range(8):
        _, state = fast.step(tokens, state)

    with pytest.raises(ModelError, match="this model has only 8"):
        fast.step(tokens, state)
    with pytest.raises(ModelError, match="this model has only 8"):
        fast.start(*sources(9))


@torch.inference_mode()
def test_threads_do_not_disturb_each_other():
    """Each with states of its own, while positions grow under their hands."""
    model = made(d_model=64, d_ff=64)
    alone, shared = NativeDecoder(model), NativeDecoder(model)

    def written(fast, seed):
        tokens = torch.arange(seed, seed + 3)
        state, found = fast.start(*sources(seed, 2 * seed, 300)), []
        for _ in range(290):
            log_p, ids, state = fast.step_topk(tokens, state, 2, ())
            tokens = ids[:, 1]
            found.append(log_p)
        return torch.stack(found)

    expected = [written(alone, seed) for seed in (5, 9, 14)]
    found = {}

    def run(seed):
        with torch.inference_mode():
            found[seed] = written(shared, seed)

    threads = [threading.Thread(target=run, args=[seed]) for seed in (5, 9, 14)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    for seed, wanted in zip((5, 9, 14), expected, strict=True):
        assert torch.equal(found[seed], wanted)


@pytest.mark.parametrize("wrong", [-1, 50, 1 << 40])
@torch.inference_mode()
def test_tokens_outside_the_vocabulary_are_refused(wrong, source):
    fast = NativeDecoder(made())
    state = fast.start(*source)

    with pytest.raises(UsageError, match="tokens must be 0 to 49"):
        fast.step(torch.tensor([1, wrong, 1]), state)
    with pytest.raises(UsageError, match="tokens must be 0 to 49"):
        fast.start(torch.tensor([[wrong, 1]]), torch.tensor([[True, True]]))
    # What is not read is not looked at.
    fast.start(torch.tensor([[wrong, 1]]), torch.tensor([[False, True]]))


@torch.inference_mode()
def test_there_is_a_token_for_each_row(source):
    fast = NativeDecoder(made())

    with pytest.raises(UsageError, match="each of the 3 rows of the state, not 2"):
        fast.step(torch.tensor([1, 1]), fast.start(*source))


@torch.inference_mode()
def test_other_integer_dtypes_and_strides_are_accepted(source):
    fast = NativeDecoder(made())
    tokens = torch.tensor([4, 5, 6])
    expected, _ = fast.step(tokens, fast.start(*source))

    state = fast.start(source[0].int(), source[1])
    scores, _ = fast.step(tokens.short(), state)
    across = torch.stack([tokens, tokens + 1], dim=1)[:, 0]  # not one behind the other

    assert torch.equal(scores, expected)
    assert torch.equal(fast.step(across, state)[0], expected)


@torch.inference_mode()
def test_a_state_may_have_no_rows():
    fast = NativeDecoder(made())
    nothing = torch.empty(0, 3, dtype=torch.long)
    state = fast.start(nothing, nothing > 0)
    tokens = torch.empty(0, dtype=torch.long)

    scores, state = fast.step(tokens, state)
    log_p, found, _ = fast.step_topk(tokens, state.index_select(tokens), 2, ())

    assert scores.shape == (0, 50)
    assert log_p.shape == found.shape == (0, 2)


@pytest.fixture
def topk_by_torch(monkeypatch):
    """Let ``topk_tokens`` do without kernels."""
    monkeypatch.setattr(topk, "has_native_topk", lambda logits, count: False)


@pytest.mark.parametrize("vocabulary", [3, 50, 64, 1000, 1024, 1025, 2100])
@pytest.mark.parametrize("forbidden", [(), (0, 1), (2,), (0, 1, 1300)])
@pytest.mark.parametrize("count", [1, 2, 8, 60])
@torch.inference_mode()
def test_top_k_is_that_of_all_scores(vocabulary, forbidden, count, topk_by_torch):
    fast = NativeDecoder(made(vocabulary, output_bias=True))
    source = torch.tensor([[1, 2, 1], [2, 2, 0]])
    tokens = torch.tensor([1, 2])

    scores, _ = fast.step(tokens, fast.start(source, source > 0))
    log_p, found, _ = fast.step_topk(
        tokens, fast.start(source, source > 0), count, forbidden
    )

    refused = tuple(each for each in forbidden if each < vocabulary)
    expected, ids = topk_tokens(scores, count, forbidden=refused)
    torch.testing.assert_close(log_p, expected)
    sound = expected > -math.inf
    assert torch.equal(found[sound], ids[sound])
    assert set(found[~sound].tolist()) <= set(refused)


def with_scores(scores: torch.Tensor) -> NativeDecoder:
    """Return a decoder that gives these scores, whatever was written."""
    model = made(len(scores), output_bias=True, tie_embeddings="none")
    with torch.no_grad():
        model.output.vectors.zero_()
        model.output.bias.copy_(scores)
    return NativeDecoder(model)


def likely(scores: torch.Tensor, count: int, forbidden: tuple[int, ...] = ()):
    fast = with_scores(scores)
    source = torch.tensor([[1, 1]])
    with torch.inference_mode():
        state = fast.start(source, source > 0)
        log_p, found, _ = fast.step_topk(torch.tensor([1]), state, count, forbidden)
    return log_p[0], found[0]


@settings(deadline=None, max_examples=60)
@given(
    vocabulary=st.sampled_from([2, 5, 63, 130, 1024, 1100]),
    values=st.sampled_from([1, 2, 5]),
    count=st.sampled_from([1, 2, 7]),
    forbidden=st.sampled_from([(), (0,), (0, 3)]),
    seed=st.integers(0, 1000),
    lost=st.booleans(),
)
def test_top_k_breaks_ties_by_the_lower_token(
    vocabulary, values, count, forbidden, seed, lost
):
    """A few different scores, and perhaps -inf: ties within and across what is seen."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(values, (vocabulary,), generator=generator).float()
    if lost:
        chance = torch.rand(vocabulary, generator=generator)
        scores[chance < 0.5] = -math.inf
        scores[vocabulary // 2] = 1.0
    allowed = [each for each in range(vocabulary) if each not in forbidden]
    best = sorted(allowed, key=lambda token: -scores[token])[:count]
    best = [token for token in best if scores[token] > -math.inf]

    log_p, found = likely(scores, count, forbidden)

    assert found.tolist()[: len(best)] == best
    expected = scores.log_softmax(-1)[best]
    torch.testing.assert_close(log_p[: len(best)], expected)
    assert (log_p[len(best) :] == -math.inf).all()


@pytest.mark.parametrize("place", [0, 70, 1050])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_one_nan_logit_is_an_error(place, value):
    scores = torch.randn(1100)
    scores[place] = value

    with pytest.raises(NumericsError, match="NaN or infinite"):
        likely(scores, 2)


def test_a_row_without_any_token_is_an_error():
    with pytest.raises(NumericsError, match="NaN or infinite"):
        likely(torch.full((70,), -math.inf), 2)


def test_nan_weights_are_noticed():
    model = made()
    with torch.no_grad():
        model.encoder.blocks[0].feed_forward.widen.weight[3, 2] = math.nan
    fast = NativeDecoder(model)
    source = torch.tensor([[5, 6]])

    with torch.inference_mode(), pytest.raises(NumericsError, match="NaN or infinite"):
        fast.step_topk(torch.tensor([1]), fast.start(source, source > 0), 1, ())


def test_changed_weights_are_noticed():
    model = made()
    fast = NativeDecoder(model)
    assert fast.is_current(model)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert not fast.is_current(model)


@torch.inference_mode()
def test_native_and_torch_decoder_choose_the_same_tokens(source, topk_by_torch):
    """PyTorch without any C kernel, as a search uses both."""
    model = made(vocabulary=700)
    compiled, plain = NativeDecoder(model), TorchDecoder(model)
    states = compiled.start(*source), plain.start(*source)
    tokens = torch.tensor([1, 1, 1])
    for _ in range(20):
        log_p, found, one = compiled.step_topk(tokens, states[0], 8, (0, 1))
        scores, other = plain.step(tokens, states[1])
        expected, ids = topk_tokens(scores, 8, forbidden=(0, 1))

        assert torch.equal(found, ids)
        torch.testing.assert_close(log_p, expected, rtol=1e-5, atol=1e-5)
        states, tokens = (one, other), found[:, 0]


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@torch.inference_mode()
def test_steps_ahead_equal_single_steps(precision, source):
    """Bit by bit, beyond the first capacity of the cache, rows leaving between."""
    fast = NativeDecoder(made(), precision)
    forbidden = (0, 1, 7)
    states = [
        fast.start(*source).index_select(torch.tensor([2, 0, 1, 1])) for _ in range(2)
    ]
    tokens = torch.tensor([1, 1, 1, 1])
    for most in (1, 5, MAX_STEPS_AHEAD, 99, 2, 30):
        log_p, ids, states[0] = fast.decode_greedily(
            tokens,
            states[0],
            max_steps=most,
            end=-1,
            stop_at_finished=1,
            forbidden=forbidden,
        )
        assert len(ids) == min(most, MAX_STEPS_AHEAD)
        for ahead, chosen in zip(log_p, ids, strict=True):
            one, best, states[1] = fast.step_topk(tokens, states[1], 1, forbidden)
            assert torch.equal(ahead, one[:, 0])
            assert torch.equal(chosen, best[:, 0])
            tokens = chosen
        kept = torch.arange(len(tokens))[-3:].flip(0)
        tokens = tokens[kept]
        states = [state.index_select(kept) for state in states]


def test_layer_norm_uses_the_epsilon(source):
    """Of rows that vary as they should, an epsilon of 0.00001 changes no digit."""
    model = made()
    for each in model.modules():
        if isinstance(each, torch.nn.LayerNorm):
            each.eps = 0.5

    assert_same_steps(model, NativeDecoder(model), source, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_steps_ahead_stop_once_enough_rows_have_ended(source):
    fast = NativeDecoder(made())
    tokens = torch.tensor([1, 1, 1])
    asked = {"max_steps": MAX_STEPS_AHEAD, "forbidden": (0, 1)}
    _, ids, _ = fast.decode_greedily(
        tokens, fast.start(*source), end=-1, stop_at_finished=1, **asked
    )
    end = int(ids[4, 0])
    first = [(row == end).nonzero()[:, 0].tolist() for row in ids.T]
    steps = sorted(each[0] + 1 if each else MAX_STEPS_AHEAD for each in first)

    for enough in (1, 2, 3):
        _, found, state = fast.decode_greedily(
            tokens, fast.start(*source), end=end, stop_at_finished=enough, **asked
        )
        assert len(found) == state.position == steps[enough - 1]
        assert torch.equal(found, ids[: len(found)])


def test_steps_ahead_stay_within_learned_positions():
    model = made(positions="learned", max_positions=10)
    fast = NativeDecoder(model)
    asked = {"max_steps": 99, "end": -1, "stop_at_finished": 1, "forbidden": ()}
    _, ids, state = fast.decode_greedily(
        torch.tensor([1]), fast.start(*sources(3)), **asked
    )

    assert len(ids) == 10
    with pytest.raises(ModelError, match="no learned encoding for position 11"):
        fast.decode_greedily(ids[-1], state, **asked)


def test_nan_scores_are_noticed_in_steps_ahead():
    model = made()
    with torch.no_grad():
        model.target_embedding.vectors[9] = math.nan
    fast = NativeDecoder(model)

    with pytest.raises(NumericsError, match="NaN or infinite"):
        fast.decode_greedily(
            torch.tensor([9]),
            fast.start(*sources(3)),
            max_steps=5,
            end=2,
            stop_at_finished=1,
            forbidden=(),
        )
