"""A native step of beam search is the step in PyTorch, to the last bit."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.decoding import beam as beam_module
from headwise.decoding.beam import make_beam_group
from headwise.decoding.beam_group import BeamGroup
from headwise.decoding.beam_progress import BeamOptions
from headwise.decoding.beam_step_native import NativeBeamGroup
from headwise.decoding.coverage import Coverage
from headwise.decoding.incremental_decoder import TopK
from headwise.decoding.length_penalty import power_penalty
from headwise.decoding.native_beam import FIRST_CAPACITY
from headwise.decoding.stopping import STOPPING
from headwise.errors import NumericsError

END = 2


def options(**changes) -> BeamOptions:
    given = {
        "end": END,
        "beam": 3,
        "num_best": 1,
        "penalty": lambda length: power_penalty(length, 0.6),
        "reward": 0.0,
        "stopping": STOPPING["first-k"],
        "patience": 2.0,
        "max_lengths": [5, 9],
        "forbidden": (),
        "rules": (),
        "coverage": None,
        "token_scores": False,
    }
    return BeamOptions(**{**given, **changes})


def drawn_topk(rows, k, vocabulary, seed, digits):
    """Draw the top-k of each row; few digits make ties, and END comes often."""
    chance = torch.Generator().manual_seed(seed)
    tokens = torch.rand(rows, vocabulary, generator=chance).argsort(1)[:, :k]
    log_p = -torch.rand(rows, k, generator=chance).mul(10**digits).round() / 10**digits
    log_p[torch.rand(rows, k, generator=chance) < 0.05] = -math.inf
    log_p[:, 0] = log_p[:, 0].clamp(min=-9.0)
    log_p, by_value = log_p.sort(dim=1, descending=True, stable=True)
    return TopK(log_p, tokens.gather(1, by_value))


@pytest.mark.usefixtures("needs_native_library")
@given(
    beam=st.integers(1, 6),
    limits=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    vocabulary=st.sampled_from([3, 7, 40]),
    stopping=st.sampled_from([*STOPPING.values()]),
    digits=st.integers(0, 5),
    seed=st.integers(0, 2**31),
)
def test_every_step_equals_pytorchs(beam, limits, vocabulary, stopping, digits, seed):
    asked = options(beam=beam, max_lengths=limits, stopping=stopping)
    ours = NativeBeamGroup(asked, len(limits), "cpu")
    theirs = BeamGroup(asked, len(limits), "cpu")
    k = min(asked.num_continuations, vocabulary)

    for step in range(max(limits)):
        topk = drawn_topk(theirs.num_rows, k, vocabulary, seed + step, digits)
        parents, expected = ours.advance(topk), theirs.advance(topk)
        assert torch.equal(parents, expected)
        assert torch.equal(ours.tokens, theirs.tokens)
        assert ours.sentences == theirs.sentences
        assert ours.completed == theirs.completed
        assert ours.num_rows == theirs.num_rows
        if not theirs.sentences:
            break

    assert not ours.sentences
    assert len(ours.advance(topk)) == 0


@pytest.mark.usefixtures("needs_native_library")
def test_hypotheses_may_be_longer_than_the_first_capacity():
    limit = 2 * FIRST_CAPACITY + 5
    asked = options(beam=2, max_lengths=[limit])
    group = NativeBeamGroup(asked, 1, "cpu")
    for step in range(limit):
        tokens = torch.arange(4).repeat(group.num_rows, 1) + 3 + step
        log_p = torch.tensor([-0.1, -2.0, -3.0, -4.0]).repeat(group.num_rows, 1)
        group.advance(TopK(log_p, tokens))

    (found,) = group.completed
    assert max(found, key=lambda each: each.score).tokens == tuple(range(3, 3 + limit))


@pytest.mark.usefixtures("needs_native_library")
def test_no_token_allowed_is_an_error():
    group = NativeBeamGroup(options(max_lengths=[4]), 1, "cpu")
    nothing = TopK(torch.full((1, 6), -math.inf), torch.arange(6)[None])

    with pytest.raises(NumericsError, match="every allowed token"):
        group.advance(nothing)


@pytest.mark.parametrize(
    "changes",
    [
        {"groups": 2},
        {"rules": (lambda scores, context: scores,)},
        {"coverage": object.__new__(Coverage)},
        {"token_scores": True},
        {"device": "meta"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_the_native_step_cannot_do_is_done_by_pytorch(monkeypatch, changes):
    monkeypatch.setattr(beam_module, "why_unavailable", lambda: None)
    chosen = {"groups": 1, "device": "cpu"} | changes
    groups, device = chosen.pop("groups"), chosen.pop("device")

    assert make_beam_group(options(), 1, "cpu") is NativeBeamGroup
    assert make_beam_group(options(**chosen), groups, device) is BeamGroup
    monkeypatch.setattr(beam_module, "why_unavailable", lambda: "no library")
    assert make_beam_group(options(), 1, "cpu") is BeamGroup
