"""One step of a beam by hand."""

import math

import pytest
import torch

from headwise.decoding.beam_step import extend_hypotheses, select_alive
from headwise.decoding.incremental_decoder import TopK

NOTHING = torch.empty(1, 2, 0, dtype=torch.long)


def test_the_best_sums_of_parent_and_token_win():
    """Parents have ln 0.6 and ln 0.4; 0.4 * 0.9 > 0.6 * 0.5 > 0.6 * 0.3."""
    totals = torch.tensor([[0.6, 0.4]]).log()
    probabilities = torch.tensor([[0.5, 0.3, 0.2], [0.05, 0.05, 0.9]])

    found = extend_hypotheses(
        totals, probabilities.log(), 3, forbidden=(), generated=NOTHING
    )

    assert found.parents.tolist() == [[1, 0, 0]]
    assert found.tokens.tolist() == [[2, 0, 1]]
    assert found.totals[0].exp().tolist() == pytest.approx([0.36, 0.30, 0.18])


def test_the_top_k_of_a_decoder_gives_what_its_logits_give():
    totals = torch.tensor([[-1.0, -2.0]])
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 1.0, 0.0]])
    log_p, tokens = logits.log_softmax(-1).topk(2)

    by_logits = extend_hypotheses(totals, logits, 2, forbidden=(), generated=NOTHING)
    by_topk = extend_hypotheses(
        totals, TopK(log_p, tokens), 2, forbidden=(), generated=NOTHING
    )

    assert torch.equal(by_topk.tokens, by_logits.tokens)
    assert torch.equal(by_topk.parents, by_logits.parents)
    torch.testing.assert_close(by_topk.totals, by_logits.totals)


def test_a_small_vocabulary_leaves_continuations_of_minus_infinity():
    totals = torch.zeros(1, 1)

    found = extend_hypotheses(
        totals, torch.zeros(1, 2), 4, forbidden=(), generated=NOTHING[:, :1]
    )

    assert found.totals.shape == (1, 4)
    assert found.totals[0, 2:].tolist() == [-math.inf, -math.inf]


def test_finished_continuations_leave_the_beam_which_is_filled_up():
    found = extend_hypotheses(
        torch.zeros(1, 1),
        torch.tensor([[3.0, 2.0, 1.0]]),
        3,
        forbidden=(),
        generated=NOTHING[:, :1],
    )
    is_end = torch.tensor([[True, False, True]])

    alive = select_alive(found, is_end, 2)

    assert alive.tokens.tolist() == [[1, 1]]
    assert alive.totals[0, 1] == -math.inf


def test_tokens_are_appended_to_their_parents():
    found = extend_hypotheses(
        torch.tensor([[0.0, -1.0]]),
        torch.tensor([[0.0, 9.0], [0.0, 9.0]]),
        2,
        forbidden=(),
        generated=NOTHING,
    )
    before = torch.tensor([[[7], [8]]])

    assert found.append_to(before, found.tokens).tolist() == [[[7, 1], [8, 1]]]
