"""Decoding over static buffers: the scores of Transformer.step, whatever they held.

On a CPU everything is done as on a GPU, but no graph is captured.
"""

from __future__ import annotations

import math

import pytest
import torch
from tests.model.decoder_equality import VARIANTS, assert_same_steps, made, sources

from headwise.backends.cuda import static_buffers
from headwise.backends.cuda.cuda_graph_decoder import CudaGraphDecoder
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.decoding.greedy import greedy_search
from headwise.decoding.topk import top1_token
from headwise.errors import ModelError, NumericsError

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(
            not torch.cuda.is_available(), reason="there is no GPU"
        ),
    ),
]


def poisoned(decoder: CudaGraphDecoder) -> CudaGraphDecoder:
    """Fill new buffers with NaN: what was not written may not be read."""
    make = decoder.pool._make

    def worse(size: static_buffers.BufferSize) -> static_buffers.StaticBuffers:
        buffers = make(size)
        caches = buffers.self_kv, buffers.cross_kv
        for each in (*caches, buffers.cross_mask, buffers.self_mask, buffers.logits):
            each.fill_(math.nan)
        return buffers

    decoder.pool._make = worse
    return decoder


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("changed", VARIANTS.values(), ids=VARIANTS)
@torch.inference_mode()
def test_the_scores_are_those_of_the_model(changed, device):
    model = made(device=device, **changed)
    source = sources(7, 4, 7, device=device)

    fast = poisoned(CudaGraphDecoder(model))
    assert_same_steps(model, fast, source, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@torch.inference_mode()
def test_steps_ahead_equal_single_greedy_steps(precision, device):
    model = made(device=device)
    ahead, steps = (CudaGraphDecoder(model, precision) for _ in range(2))
    source = sources(5, 9, 1, device=device)
    tokens = torch.tensor([1, 1, 1], device=device)
    forbidden = (0, 1, 7)

    state, expected, given = steps.start(*source), [], tokens
    for _ in range(45):
        logits, state = steps.step(given, state)
        log_p, given = top1_token(logits, forbidden=forbidden)
        expected.append((log_p, given))

    state, found = ahead.start(*source), []
    while len(found) < len(expected):
        log_p, ids, state = ahead.decode_greedily(
            tokens,
            state,
            max_steps=len(expected) - len(found),
            end=5,
            stop_at_finished=1,
            forbidden=forbidden,
        )
        assert 1 <= len(ids) <= static_buffers.MAX_STEPS_AHEAD
        found += zip(log_p, ids, strict=True)
        tokens = ids[-1]

    for (log_p, ids), (other, same) in zip(found, expected, strict=True):
        assert torch.equal(ids, same)
        torch.testing.assert_close(log_p, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_a_greedy_search_finds_the_same_as_step_by_step(device):
    """Rows end at different steps, at END or at their limit, and leave together."""
    model = made(device=device)
    source = sources(*range(1, 12), device=device)
    asked = {
        "num_rows": 11,
        "start": 1,
        "end": 5,
        "max_lengths": [3, 40, 17, 1, 9, 40, 8, 16, 24, 7, 33],
        "forbidden": (0, 1),
        "token_scores": True,
        "device": device,
    }
    found = [
        greedy_search(each, each.start(*source), **asked)
        for each in (TorchDecoder(model), CudaGraphDecoder(model))
    ]

    for one, other in zip(*found, strict=True):
        assert one.tokens == other.tokens
        assert one.finished == other.finished
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.token_log_probabilities == pytest.approx(
            other.token_log_probabilities, abs=1e-5
        )


@torch.inference_mode()
def test_buffers_are_reused_and_their_kv_cache_is_empty():
    model = made()
    fast = CudaGraphDecoder(model)
    tokens = torch.tensor([1, 1, 1])
    first = fast.start(*sources(7, 4, 7))
    expected, first = fast.step(tokens, first)
    buffers = first.lease.buffers
    buffers.self_kv.fill_(math.nan)
    del first

    again = fast.start(*sources(7, 4, 7))

    assert again.lease.buffers is buffers
    assert torch.equal(fast.step(tokens, again)[0], expected)


@torch.inference_mode()
def test_states_of_the_same_size_do_not_share_buffers():
    fast = CudaGraphDecoder(made())
    tokens = torch.tensor([1, 1, 1])
    one, other = fast.start(*sources(7, 4, 7)), fast.start(*sources(2, 3, 1))
    expected, _ = fast.step(tokens, fast.start(*sources(7, 4, 7)))

    fast.step(tokens, other)

    assert torch.equal(fast.step(tokens, one)[0], expected)


@pytest.mark.parametrize(
    ("name", "most"), [("MAX_FREE", 2), ("MAX_FREE_BYTES", 200_000)]
)
@torch.inference_mode()
def test_free_buffers_are_limited(monkeypatch, name, most):
    """For 4 and 8 sources they take 64 and 128 KiB."""
    monkeypatch.setattr(static_buffers, name, most)
    fast = CudaGraphDecoder(made())

    states = [fast.start(*sources(*range(1, rows + 1))) for rows in (1, 2, 3, 5)]
    while states:
        del states[0]

    assert [each.size.sources for each in fast.pool._free] == [4, 8]


@torch.inference_mode()
def test_leaving_samples_need_few_sizes():
    """Each size needs graphs of its own, which take long to capture."""
    fast = CudaGraphDecoder(made())
    state = fast.start(*sources(7, 4)).index_select(
        torch.arange(2).repeat_interleave(40)
    )
    sizes = set()
    while len(state.source_of):
        sizes.add(state.lease.buffers.size)
        state = state.index_select(torch.arange(len(state.source_of) - 1))

    assert len(sizes) < 20


@torch.inference_mode()
def test_running_out_of_memory_frees_unused_buffers():
    fast = CudaGraphDecoder(made())
    fast.start(*sources(3))
    make, tries = fast.pool._make, []

    def full(size: static_buffers.BufferSize) -> static_buffers.StaticBuffers:
        tries.append(len(fast.pool._free))
        if fast.pool._free:
            raise torch.OutOfMemoryError("no memory")
        return make(size)

    fast.pool._make = full
    fast.start(*sources(3, 2, 1))

    assert tries == [1, 0]


def test_positions_that_were_not_learned_are_refused():
    model = made(positions="learned", max_positions=10)
    fast = CudaGraphDecoder(model)
    tokens = torch.tensor([1])

    with pytest.raises(ModelError, match="no learned encoding for position 11"):
        fast.start(*sources(11))

    state = fast.start(*sources(10))
    for _ in range(10):
        _, state = fast.step(tokens, state)
    with pytest.raises(ModelError, match="no learned encoding for position 11"):
        fast.step(tokens, state)


def test_nan_scores_are_an_error():
    model = made()
    with torch.no_grad():
        model.target_embedding.vectors[5] = math.nan
    fast = CudaGraphDecoder(model)

    with pytest.raises(NumericsError, match="NaN or infinite"):
        greedy_search(
            fast,
            fast.start(*sources(3)),
            num_rows=1,
            start=5,
            end=2,
            max_lengths=[9],
        )


def test_changed_weights_are_noticed():
    model = made()
    fast = CudaGraphDecoder(model)
    assert fast.is_current(model)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert not fast.is_current(model)
