"""The native decoder of a decoder alone (GPT): the scores of DecoderOnly.step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.backends.native.one_stack import VOCABULARY, decoder_only
from tests.decoding.test_with_decoder_only import (
    END,
    PAD,
    PROMPTS,
    SETTINGS,
    START,
    padded,
)
from tests.decoding.test_with_decoder_only import model as search_model
from tests.model.decoder_equality import PICKS
from tests.model.one_stack_choices import OF_BACKENDS

from headwise.backends.native.decoder_only import NativeDecoderOnly
from headwise.backends.native.steps import MAX_STEPS_AHEAD
from headwise.decoding.search import SearchRequest, search
from headwise.errors import ModelError, UsageError

pytestmark = pytest.mark.usefixtures("uses_native_backend")

__all__ = ["search_model"]

WINDOWS = pytest.mark.parametrize("window", [None, 1, 3, 40])
NEAR = {"rtol": 1e-4, "atol": 1e-4}
FIRST = torch.tensor([1, 1, 1])
NONE = torch.zeros(3, 0).long(), torch.zeros(3, 0).bool()


def prompts(*lengths):
    """Return padded prompts of these lengths, and the mask of their tokens."""
    chance = torch.Generator().manual_seed(4)
    shape = len(lengths), max(lengths)
    tokens = torch.randint(4, VOCABULARY, shape, generator=chance)
    is_real = torch.arange(shape[1]) < torch.tensor(lengths)[:, None]
    return tokens * is_real, is_real


def assert_same_steps(model, fast, prompt, steps=40, near=NEAR):
    """Compare scores over more steps than the first capacity, with reordered rows."""
    states, tokens = [model.start(*prompt), fast.start(*prompt)], FIRST
    for place in range(steps):
        (expected, slow), (scores, quick) = (
            each.step(tokens, state)
            for each, state in zip((model, fast), states, strict=True)
        )
        torch.testing.assert_close(scores, expected, **near)
        states, tokens = [slow, quick], (tokens * 7 + place) % 90 + 4
        if place in PICKS:
            kept = torch.tensor(PICKS[place])
            tokens = tokens[kept]
            states = [state.index_select(kept) for state in states]


@OF_BACKENDS
@torch.inference_mode()
def test_the_scores_are_those_of_the_model(choice):
    model = decoder_only(**choice).eval()

    assert_same_steps(model, NativeDecoderOnly(model), NONE)
    assert_same_steps(model, NativeDecoderOnly(model), prompts(9, 1, 5))


@WINDOWS
@pytest.mark.parametrize("lengths", [(9, 1, 5), (0, 6, 0), (50, 48, 37)])
@torch.inference_mode()
def test_a_window_is_that_of_the_model(window, lengths):
    model = decoder_only(window=window).eval()

    assert_same_steps(model, NativeDecoderOnly(model), prompts(*lengths))


@WINDOWS
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@torch.inference_mode()
def test_a_prompt_gives_the_same_bits_as_its_tokens_one_by_one(window, precision):
    """Prompts go through in groups, of which the long one is more than one."""
    model = decoder_only(window=window).eval()
    fast = NativeDecoderOnly(model, precision)
    prompt, is_real = prompts(9, 450, 1)

    scores, state = fast.step(FIRST, fast.start(prompt, is_real))
    later, _ = fast.step(torch.tensor([5, 6, 7]), state)

    for row, length in enumerate(is_real.sum(1)):
        alone = fast.start(*(each[:1] for each in NONE))
        for token in [1, *prompt[row, :length].tolist()]:
            expected, alone = fast.step(torch.tensor([token]), alone)
        assert torch.equal(scores[row], expected[0])
        expected, _ = fast.step(torch.tensor([5 + row]), alone)
        assert torch.equal(later[row], expected[0])


@WINDOWS
@torch.inference_mode()
def test_a_text_is_the_same_bits_in_any_batch(window):
    fast = NativeDecoderOnly(decoder_only(window=window).eval())
    prompt, is_real = prompts(9, 2, 0, 31, 9)
    together = fast.start(prompt, is_real).index_select(torch.tensor([3, 1, 0, 4, 2]))
    order = [3, 1, 0, 4, 2]
    apart = [fast.start(prompt[n : n + 1], is_real[n : n + 1]) for n in order]
    tokens = torch.tensor([1, 1, 1, 1, 1])
    for _ in range(5):
        scores, together = fast.step(tokens, together)
        for row in range(5):
            alone, apart[row] = fast.step(tokens[row : row + 1], apart[row])
            assert torch.equal(scores[row], alone[0])
        tokens = scores.argmax(1)


@torch.inference_mode()
def test_learned_positions_end_with_the_last_one():
    """Padding has no position: the longest text decides."""
    model = decoder_only(positions="learned", max_positions=12).eval()
    fast = NativeDecoderOnly(model)
    state = fast.start(*prompts(10, 3, 3))
    _, state = fast.step(FIRST, state)
    _, state = fast.step(FIRST, state)  # the twelfth of the first row

    with pytest.raises(ModelError, match="no learned encoding for position 13"):
        fast.step(FIRST, state)
    short = state.index_select(torch.tensor([1, 2]))
    for _ in range(7):
        _, short = fast.step(FIRST[:2], short)
    with pytest.raises(ModelError, match="no learned encoding for position 13"):
        fast.step(FIRST[:2], short)


@torch.inference_mode()
def test_bfloat16_is_near():
    model = decoder_only().eval()
    near = {"rtol": 0.1, "atol": 0.1}

    fast = NativeDecoderOnly(model, "bf16")
    assert_same_steps(model, fast, prompts(9, 1, 5), 14, near)


@torch.inference_mode()
def test_holes_in_a_prompt_are_no_tokens():
    model = decoder_only().eval()
    prompt = torch.tensor([[9, 0, 8], [0, 0, 0], [0, 7, 0]])

    assert_same_steps(model, NativeDecoderOnly(model), (prompt, prompt > 0), 3)


@torch.inference_mode()
def test_the_best_tokens_of_a_step_are_those_of_its_scores():
    fast = NativeDecoderOnly(decoder_only().eval())
    prompt = prompts(9, 1, 5)
    scores, _ = fast.step(FIRST, fast.start(*prompt))

    log_p, tokens, _ = fast.step_topk(FIRST, fast.start(*prompt), 4, ())

    expected = scores.log_softmax(1).topk(4)
    assert torch.equal(tokens, expected.indices)
    torch.testing.assert_close(log_p, expected.values, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_steps_ahead_equal_single_steps():
    fast = NativeDecoderOnly(decoder_only(window=7).eval())
    states, tokens = [fast.start(*prompts(9, 1, 5)) for _ in range(2)], FIRST
    for most in (3, 99, 2):
        log_p, ids, states[0] = fast.decode_greedily(
            tokens,
            states[0],
            max_steps=most,
            end=-1,
            stop_at_finished=1,
            forbidden=(0,),
        )
        assert len(ids) == min(most, MAX_STEPS_AHEAD)
        for ahead, best in zip(log_p, ids, strict=True):
            one, found, states[1] = fast.step_topk(tokens, states[1], 1, (0,))
            assert torch.equal(ahead, one[:, 0])
            assert torch.equal(best, found[:, 0])
            tokens = best


@torch.inference_mode()
def test_decoding_can_branch_from_an_older_state():
    fast = NativeDecoderOnly(decoder_only().eval())
    begun = fast.start(*prompts(9, 1, 5))

    once, state = fast.step(FIRST, begun)
    other, _ = fast.step(FIRST + 1, begun)
    again, _ = fast.step(FIRST, begun)

    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert torch.equal(fast.step(FIRST, state)[0], fast.step(FIRST, state)[0])


@pytest.mark.parametrize("name", SETTINGS)
def test_searches_find_the_same_words(search_model, name):
    settings = replace(SETTINGS[name], max_length_factor=1.0, max_length_offset=4)
    request = SearchRequest(
        source_lengths=[5, 4, 3, 6], start=START, end=END, forbidden=(PAD, START)
    )
    fast = NativeDecoderOnly(search_model)

    found, expected = (
        search(each, each.start(*padded(PROMPTS)), settings, request)
        for each in (fast, search_model)
    )

    for ours, theirs in zip(found, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.score for each in ours] == pytest.approx(
            [each.score for each in theirs], rel=1e-4
        )


@torch.inference_mode()
def test_what_is_no_token_is_refused():
    fast = NativeDecoderOnly(decoder_only().eval())
    state = fast.start(*prompts(9, 1, 5))

    with pytest.raises(UsageError, match="tokens must be 0 to 100"):
        fast.start(torch.tensor([[5, 101]]), torch.tensor([[True, True]]))
    with pytest.raises(UsageError, match="tokens must be 0 to 100"):
        fast.step(torch.tensor([1, 101, 1]), state)
    with pytest.raises(UsageError, match="each of the 3 rows"):
        fast.step(torch.tensor([1, 1]), state)
