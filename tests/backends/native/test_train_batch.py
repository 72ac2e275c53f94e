"""A batch for the C training kernels is shared by threads, with the same result."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from tests.backends.native import (
    test_consistency,
    test_train_decoder_only,
    test_train_encoder,
)
from tests.backends.native.one_stack import (
    decoder_only,
    encoder_only,
    text_batch,
    texts,
)
from tests.backends.native.test_consistency import passes_that_differ
from tests.backends.native.test_training import (
    assert_close,
    batch_of,
    native_loss,
    natively,
    readable,
    trained,
)
from tests.torch_threads import torch_threads

from headwise.backends.native.train_batch import (
    MIN_TOKENS_PER_THREAD,
    Sentences,
    run_in_threads,
)
from headwise.backends.native.training import NativeTraining
from headwise.consistency import Consistency

pytestmark = pytest.mark.usefixtures("uses_native_backend")

MANY = [40, 9, 1, 64] * 10


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    """Let torch have so many threads."""
    with torch_threads(request.param):
        yield request.param


def test_each_thread_has_about_as_many_tokens(threads):
    tokens = texts(MANY)
    batch = Sentences(source=tokens)

    parts = batch.parts()

    assert len(parts) == threads
    assert sum(part.sentences for part in parts) == len(MANY)
    first = 0
    for part in parts:
        size = int(tokens.lengths[first : first + part.sentences].sum())
        assert abs(size - sum(MANY) / threads) <= max(MANY)
        assert part.source.starts == batch.struct.source.starts + 8 * first
        assert part.seed == batch.struct.seed + first
        first += part.sentences


def test_tokens_of_both_sides_count(threads):
    """The first sentences are short on one side, and the last on the other."""
    source, target = texts([2] * 20 + [60] * 20), texts([60] * 20 + [2] * 20)
    parts = Sentences(source=source, decoder_input=target).parts()

    assert len(parts) == threads
    assert all(abs(part.sentences - 40 / threads) <= 1 for part in parts)


@pytest.mark.parametrize("lengths", [[1], [MIN_TOKENS_PER_THREAD * 2 - 1], [300, 300]])
def test_a_thread_has_a_sentence_and_enough_tokens(lengths):
    with torch_threads(4):
        parts = Sentences(decoder_input=texts(lengths)).parts()

    assert len(parts) == len(lengths)
    assert all(part.source.starts is None for part in parts)


def test_a_decoder_alone_has_the_same_gradients_with_any_number(threads):
    model, batch = decoder_only(), text_batch(MANY)
    expected, theirs = test_train_decoder_only.by_autograd(model, batch)

    loss, gradients = natively(model, batch)

    assert loss == pytest.approx(expected, rel=1e-5)
    assert_close(gradients, theirs, model)
    again = natively(model, batch)[1]
    assert all(torch.equal(a, b) for a, b in zip(gradients, again, strict=True))


def test_an_encoder_alone_has_the_same_gradients_with_any_number(threads):
    model, tokens = encoder_only(), texts(MANY)
    expected, theirs = test_train_encoder.by_autograd(model, tokens)

    out, gradients = test_train_encoder.natively(model, tokens)

    test_train_encoder.assert_same_vectors(out, expected)
    assert_close(gradients, theirs, model)


@pytest.mark.parametrize("norm", ["post", "deep"])
def test_an_encoder_decoder_has_the_same_gradients_with_any_number(threads, norm):
    model, batch = trained(norm=norm), batch_of(101, (MANY, MANY[::-1]))
    expected, theirs = readable(model, batch)

    loss, gradients = natively(model, batch, scale=0.5)

    assert loss == pytest.approx(expected, rel=1e-5)
    assert_close([2 * each for each in gradients], theirs, model)
    again = natively(model, batch, scale=0.5)[1]
    assert all(torch.equal(a, b) for a, b in zip(gradients, again, strict=True))


def test_both_passes_of_a_pair_are_in_one_thread(threads):
    model, batch = trained(), passes_that_differ(batch_of(101, (MANY, MANY)))
    form = Consistency.r_drop(5.0)
    expected = test_consistency.readable(model, batch, form)

    found = test_consistency.run(NativeTraining(), model, batch, form)

    test_consistency.assert_equal(found, expected, model)


def test_a_second_backward_pass_adds_the_threads_once(threads):
    model, batch = trained(), batch_of(101, (MANY, MANY))
    _, expected = natively(model, batch)
    model.zero_grad()
    loss = native_loss(model, batch, 0.1)

    loss.backward(retain_graph=True)
    loss.backward()

    pairs = zip(model.parameters(), expected, strict=True)
    assert all(torch.equal(weight.grad, 2 * each) for weight, each in pairs)


def test_dropout_differs_from_thread_to_thread():
    """Two equal halves of a batch have masks of their own."""
    model, half = encoder_only(dropout=0.5), texts([32] * 8)
    both = half.rows(torch.arange(8).repeat(2))
    with torch_threads(2):
        out, _ = test_train_encoder.natively(model, both)

    one, other = out.chunk(2)
    assert not torch.allclose(one, other)


def test_calls_run_at_a_time_and_in_order():
    assert run_in_threads([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


TASKS = Path("/proc/self/task")


@pytest.mark.skipif(not TASKS.is_dir(), reason="the system does not list threads")
def test_openmp_threads_leave_the_cores_to_the_calls(threads):
    def count_threads(at_most=0):
        deadline = time.monotonic() + 10
        while (found := len(list(TASKS.iterdir()))) > at_most:
            if time.monotonic() > deadline or not at_most:
                break
            time.sleep(0.01)
        return found

    run_in_threads([int, int])  # the thread of the second call stays
    without = count_threads()
    torch.ones(10**6).add_(1)

    run_in_threads([int, int])

    assert count_threads(at_most=without) <= without
