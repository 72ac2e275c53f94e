"""Decoding without a KV cache: the scores of cached decoding."""

import pytest
import torch

from headwise.backends.pytorch.uncached_decoder import UncachedDecoder

PADDING = 0


def test_a_row_is_padded_behind_its_prefix(small, batch):
    source, target, is_real = batch
    reader = UncachedDecoder(small(), length=4, padding=PADDING)

    state = reader.start(source, is_real)
    _, state = reader.step(target[:, 0], state)
    _, state = reader.step(target[:, 1], state)

    assert torch.equal(state.target[:, :2], target[:, :2])
    assert (state.target[:, 2:] == PADDING).all()


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
def test_each_step_equals_the_cached_step(small, batch, norm):
    model = small(dtype=torch.float64, norm=norm)
    source, target, is_real = batch
    reader = UncachedDecoder(model, length=9, padding=PADDING)

    slow, fast = reader.start(source, is_real), model.start(source, is_real)
    for tokens in target.unbind(1):
        slow_scores, slow = reader.step(tokens, slow)
        fast_scores, fast = model.step(tokens, fast)

        torch.testing.assert_close(slow_scores, fast_scores, rtol=0, atol=1e-12)


def test_reordered_rows_equal_the_cached_ones(small, batch):
    model = small(dtype=torch.float64)
    source, target, is_real = batch
    reader, index = (
        UncachedDecoder(model, length=9, padding=PADDING),
        torch.tensor([2, 0]),
    )

    states = [reader.start(source, is_real), model.start(source, is_real)]
    scores = []
    for writer, state in zip((reader, model), states, strict=True):
        _, after = writer.step(target[:, 0], state)
        seen, _ = writer.step(target[index, 1], after.index_select(index))
        scores.append(seen)

    torch.testing.assert_close(*scores, rtol=0, atol=1e-12)


def test_the_padded_length_does_not_matter(small, batch):
    source, target, is_real = batch
    model, scores = small(dtype=torch.float64), []

    for length in (1, 20):
        reader = UncachedDecoder(model, length=length, padding=PADDING)
        scores.append(reader.step(target[:, 0], reader.start(source, is_real))[0])

    torch.testing.assert_close(*scores, rtol=0, atol=1e-12)


def test_uncached_decoding_gives_the_same_tokens(small, batch):
    """Each takes its own most probable word and goes on from there."""
    model = small()
    source, target, is_real = batch
    reader = UncachedDecoder(model, length=12, padding=PADDING)

    texts = []
    for writer in (reader, model):
        tokens, state, text = target[:, 0], writer.start(source, is_real), []
        for _ in range(12):
            scores, state = writer.step(tokens, state)
            tokens = scores.argmax(dim=-1)
            text.append(tokens)
        texts.append(torch.stack(text, dim=1))

    assert torch.equal(*texts)
    assert len(texts[0].unique()) > 1


def test_a_state_can_be_stepped_on_again(small, batch):
    """Unlike the newest state of a KV cache, which is written in place."""
    source, target, is_real = batch
    reader = UncachedDecoder(small(), length=4, padding=PADDING)
    state = reader.start(source, is_real)

    first, _ = reader.step(target[:, 0], state)
    reader.step(target[:, 1], state)
    again, _ = reader.step(target[:, 0], state)

    assert torch.equal(first, again)
    assert (state.target == PADDING).all()
