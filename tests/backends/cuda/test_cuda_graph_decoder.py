"""Writing in room of a fixed size: the model's own scores, whatever stood there before.

On a CPU everything is done as on a GPU, but nothing is recorded.
"""

from __future__ import annotations

import math

import pytest
import torch
from tests.model.writing import VARIANTS, assert_same_steps, made, sources

from headwise.backends.cuda import cuda_graphs
from headwise.backends.cuda.cuda_graph_decoder import FixedDecoder
from headwise.backends.pytorch.decoder import SteppingDecoder
from headwise.decoding.greedy import greedy_search
from headwise.decoding.topk import best_token
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


def poisoned(decoder: FixedDecoder) -> FixedDecoder:
    """Leave no number in any room that is made: none may ever be read."""
    make = decoder.rooms._make

    def worse(size: cuda_graphs.Size) -> cuda_graphs.Room:
        room = make(size)
        for each in (room.own, room.source, room.padding, room.past, room.logits):
            each.fill_(math.nan)
        return room

    decoder.rooms._make = worse
    return decoder


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("changed", VARIANTS.values(), ids=VARIANTS)
@torch.inference_mode()
def test_the_scores_are_those_of_the_model(changed, device):
    model = made(device=device, **changed)
    source = sources(7, 4, 7, device=device)

    fast = poisoned(FixedDecoder(model))
    assert_same_steps(model, fast, source, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@torch.inference_mode()
def test_what_is_written_ahead_is_what_greedy_steps_find(precision, device):
    model = made(device=device)
    ahead, steps = FixedDecoder(model, precision), FixedDecoder(model, precision)
    source = sources(5, 9, 1, device=device)
    tokens = torch.tensor([1, 1, 1], device=device)
    forbidden = (0, 1, 7)

    state, expected, given = steps.start(*source), [], tokens
    for _ in range(45):
        logits, state = steps.step(given, state)
        log_p, given = best_token(logits, forbidden=forbidden)
        expected.append((log_p, given))

    state, found = ahead.start(*source), []
    while len(found) < len(expected):
        log_p, ids, state = ahead.write_ahead(
            tokens,
            state,
            most=len(expected) - len(found),
            end=5,
            enough=1,
            forbidden=forbidden,
        )
        assert 1 <= len(ids) <= cuda_graphs.AHEAD
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
        "trace": True,
        "device": device,
    }
    found = [
        greedy_search(each, each.start(*source), **asked)
        for each in (SteppingDecoder(model), FixedDecoder(model))
    ]

    for one, other in zip(*found, strict=True):
        assert one.tokens == other.tokens
        assert one.finished == other.finished
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.token_log_probabilities == pytest.approx(
            other.token_log_probabilities, abs=1e-5
        )


@torch.inference_mode()
def test_a_room_is_used_again_and_remembers_nothing():
    model = made()
    fast = FixedDecoder(model)
    tokens = torch.tensor([1, 1, 1])
    first = fast.start(*sources(7, 4, 7))
    expected, first = fast.step(tokens, first)
    room = first.lent.room
    room.own.fill_(math.nan)
    del first

    again = fast.start(*sources(7, 4, 7))

    assert again.lent.room is room
    assert torch.equal(fast.step(tokens, again)[0], expected)


@torch.inference_mode()
def test_states_of_the_same_size_do_not_share_a_room():
    fast = FixedDecoder(made())
    tokens = torch.tensor([1, 1, 1])
    one, other = fast.start(*sources(7, 4, 7)), fast.start(*sources(2, 3, 1))
    expected, _ = fast.step(tokens, fast.start(*sources(7, 4, 7)))

    fast.step(tokens, other)

    assert torch.equal(fast.step(tokens, one)[0], expected)


@pytest.mark.parametrize(("name", "most"), [("KEPT", 2), ("KEPT_BYTES", 200_000)])
@torch.inference_mode()
def test_only_so_many_empty_rooms_are_kept(monkeypatch, name, most):
    """For 4 and 8 sources they take 64 and 128 KiB."""
    monkeypatch.setattr(cuda_graphs, name, most)
    fast = FixedDecoder(made())

    states = [fast.start(*sources(*range(1, rows + 1))) for rows in (1, 2, 3, 5)]
    while states:
        del states[0]

    assert [each.size.sources for each in fast.rooms._free] == [4, 8]


@torch.inference_mode()
def test_leaving_samples_need_few_sizes():
    """Each size is recorded by itself, which is dear."""
    fast = FixedDecoder(made())
    state = fast.start(*sources(7, 4)).rows(torch.arange(2).repeat_interleave(40))
    sizes = set()
    while len(state.source_of):
        sizes.add(state.lent.room.size)
        state = state.rows(torch.arange(len(state.source_of) - 1))

    assert len(sizes) < 20


@torch.inference_mode()
def test_a_room_that_does_not_fit_makes_those_that_are_free_go():
    fast = FixedDecoder(made())
    fast.start(*sources(3))
    make, tries = fast.rooms._make, []

    def full(size: cuda_graphs.Size) -> cuda_graphs.Room:
        tries.append(len(fast.rooms._free))
        if fast.rooms._free:
            raise torch.OutOfMemoryError("no memory")
        return make(size)

    fast.rooms._make = full
    fast.start(*sources(3, 2, 1))

    assert tries == [1, 0]


def test_positions_that_were_not_learned_are_refused():
    model = made(positions="learned", max_positions=10)
    fast = FixedDecoder(model)
    tokens = torch.tensor([1])

    with pytest.raises(ModelError, match="position 11 was asked for"):
        fast.start(*sources(11))

    state = fast.start(*sources(10))
    for _ in range(10):
        _, state = fast.step(tokens, state)
    with pytest.raises(ModelError, match="position 11 was asked for"):
        fast.step(tokens, state)


def test_scores_that_are_no_numbers_are_an_error():
    model = made()
    with torch.no_grad():
        model.target_embedding.vectors[5] = math.nan
    fast = FixedDecoder(model)

    with pytest.raises(NumericsError, match="not numbers"):
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
    fast = FixedDecoder(model)
    assert fast.still_of(model)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert not fast.still_of(model)
