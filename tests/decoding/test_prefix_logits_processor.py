"""Forced prefixes by hand: which tokens are allowed, and with which scores."""

import math

import pytest
import torch

from headwise.decoding.forced_prefix import NO_PREFIX, Prefix, can_spell
from headwise.decoding.prefix_logits_processor import force_prefixes
from headwise.decoding.rule_context import RuleContext

PIECES = ["", "▁the", "▁ca", "t", "▁cat", "s", "", "."]
END = 6
LOW = -math.inf


def allowed(prefix, generated):
    """Return the tokens that the rule leaves a score above -inf."""
    rule = force_prefixes([prefix], PIECES, END)
    log_p = torch.full((1, len(PIECES)), -1.0)
    tokens = torch.tensor([generated], dtype=torch.long)
    scores = rule(log_p.clone(), RuleContext(tokens, torch.tensor([0]), log_p))
    return (scores[0] > LOW).nonzero()[:, 0].tolist()


def test_the_tokens_of_complete_words_are_forced():
    prefix = Prefix((1,), "▁ca")

    assert allowed(prefix, []) == [1]
    assert allowed(prefix, [1]) == [2, 4]  # ▁ca, or ▁cat which starts with it


def test_every_token_is_allowed_after_the_prefix():
    assert allowed(Prefix((1,), "▁ca"), [1, 2]) == list(range(len(PIECES)))
    assert allowed(NO_PREFIX, []) == list(range(len(PIECES)))


def test_no_letter_follows_a_closed_prefix():
    """After "the cat " neither t nor s may follow, but a new word, a dot or END."""
    prefix = Prefix((1,), "▁cat", closed=True)

    assert allowed(prefix, [1]) == [2, 4]
    assert allowed(prefix, [1, 2]) == [3]
    assert allowed(prefix, [1, 4]) == [1, 2, 4, END, 7]


def test_forced_tokens_keep_the_score_of_the_model():
    """Another rule has forbidden the token: the prefix wins."""
    rule = force_prefixes([Prefix((1,))], PIECES, END)
    log_p = torch.full((1, len(PIECES)), -1.0)
    no_tokens = torch.empty(1, 0, dtype=torch.long)

    scores = rule(
        torch.full_like(log_p, LOW), RuleContext(no_tokens, torch.tensor([0]), log_p)
    )

    assert scores[0].tolist() == [LOW, -1.0, *[LOW] * 6]


@pytest.mark.parametrize(
    ("piece", "closed", "expected"),
    [
        ("▁c", False, True),
        ("▁cat", False, True),
        ("▁cats", False, True),
        ("▁cats", True, False),
        ("▁cat.", True, True),
        ("▁dog", False, False),
        ("", False, False),
    ],
)
def test_a_piece_can_spell_a_part_of_a_text_or_all_of_it(piece, closed, expected):
    assert can_spell(piece, "▁cat", closed) == expected
