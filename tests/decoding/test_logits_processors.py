"""Each rule (logits processor) on a row of scores that can be checked by eye."""

import math

import pytest
import torch

from headwise.decoding.banned_text import banned_text
from headwise.decoding.logits_processors import (
    RULES,
    RuleFacts,
    exact_count,
    min_length,
    no_repeat_ngrams,
    repetition_penalty,
    rules_for,
    suppress_tokens,
)
from headwise.decoding.rule_context import RuleContext
from headwise.decoding.settings import DecodingSettings

LOW = -math.inf


def after(rule, written, scores=(-1.0, -2.0, -3.0, -4.0)):
    """Return the scores of one row behind what is written."""
    row = torch.tensor([scores])
    tokens = torch.tensor([written], dtype=torch.long)
    return rule(row.clone(), RuleContext(tokens, torch.tensor([0]), row))[0].tolist()


def test_suppressed_tokens_are_forbidden():
    assert after(suppress_tokens([1, 3]), []) == [-1, LOW, -3, LOW]


def test_no_bigram_is_repeated():
    """Behind 0 1 0 the pair 0 1 has been; behind 0 1 1 the pair 1 1 has."""
    rule = no_repeat_ngrams(2)

    assert after(rule, [0]) == [-1, -2, -3, -4]
    assert after(rule, [0, 1, 0]) == [-1, LOW, -3, -4]
    assert after(rule, [0, 1, 1]) == [-1, LOW, -3, -4]
    assert after(rule, [0, 1, 0, 2, 0]) == [-1, LOW, LOW, -4]


def test_no_unigram_is_repeated():
    assert after(no_repeat_ngrams(1), [2, 2, 0]) == [LOW, -2, LOW, -4]


def test_the_ngram_rule_applies_from_the_first_complete_ngram():
    """Behind 2 the 2 has been; behind 1 1 the pair 1 1 has, and behind 1 2 nothing.

    Once it was not noticed when the rule began one token later.
    """
    assert after(no_repeat_ngrams(1), [2]) == [-1, -2, LOW, -4]
    assert after(no_repeat_ngrams(2), [1, 1]) == [-1, LOW, -3, -4]
    assert after(no_repeat_ngrams(2), [1, 2]) == [-1, -2, -3, -4]
    assert after(no_repeat_ngrams(3), [3, 3, 3]) == [-1, -2, -3, LOW]


def test_the_repetition_penalty_multiplies_the_log_probability():
    assert after(repetition_penalty(2.0), [1, 1, 3]) == [-1, -4, -3, -8]


def test_the_repetition_penalty_keeps_minus_infinity():
    scores = (LOW, 0.0, -1.0, -2.0)

    assert after(repetition_penalty(2.0), [0, 1], scores) == [LOW, 0, -1, -2]


def test_end_is_forbidden_before_the_minimum_length():
    """Token 3 is END; the sentences must have 0, 1 and 2 tokens, and each has 1."""
    rows = torch.zeros(3, 4)
    written = RuleContext(torch.tensor([[0], [0], [0]]), torch.tensor([2, 0, 1]), rows)
    found = min_length([0, 1, 2], 3)(rows.clone(), written)

    assert found[:, 3].tolist() == [LOW, 0, 0]
    assert (found[:, :3] == 0).all()


def test_without_settings_there_are_no_rules():
    facts = RuleFacts(end=3, unknown=2, min_lengths=[0, 0], prefixes=())

    assert rules_for(DecodingSettings(), facts) == []


def test_every_rule_answers_to_its_setting():
    """All names are settings, but for the two that come from facts."""
    known = set(DecodingSettings.__dataclass_fields__)

    assert set(RULES) - known == {"min_length", "prefix"}


PIECES = ["<pad>", "▁H", "und", "▁Hund", "e", "▁Hunde", ".", "▁Hund.", "▁(Hund", "▁ein"]
TEXTS = ["", *PIECES[1:]]


@pytest.mark.parametrize(
    ("written", "refused"),
    [
        ([], {3, 7, 8}),  # whole pieces that spell it, also with a mark beside it
        ([1], {2, 3, 7, 8}),  # H + und
        ([9, 1], {2, 3, 7, 8}),
        ([3], {3, 7, 8}),
        ([9], {3, 7, 8}),
    ],
)
def test_a_banned_word_is_forbidden_in_every_segmentation(written, refused):
    assert set(banned_text(["Hund"], TEXTS)(written)) == refused


def test_a_longer_word_is_another_word():
    forbidden = banned_text(["Hund"], TEXTS)

    assert PIECES.index("▁Hunde") not in forbidden([])


def test_a_phrase_is_forbidden_at_its_last_word_only():
    forbidden = banned_text(["ein  Hund"], TEXTS)

    assert forbidden([]) == []
    assert set(forbidden([9])) == {3, 7}
    assert set(forbidden([9, 1])) == {2}
    assert forbidden([3]) == []


def test_a_banned_word_is_allowed_inside_another_word():
    """und is a word of its own, and not one where H stands before it."""
    forbidden = banned_text(["und"], TEXTS)

    assert set(forbidden([])) == {2}
    assert forbidden([1]) == []


def test_a_token_is_written_as_often_as_wanted_and_then_the_end_comes():
    """2 is the token that is wanted twice, 0 is END."""
    rule = exact_count(2, [2], end=0)

    assert after(rule, [1]) == [LOW, -2, -3, -4]
    assert after(rule, [2, 1]) == [LOW, -2, -3, -4]
    assert after(rule, [2, 1, 2]) == [-1, -2, LOW, -4]
    assert after(exact_count(2, [0], end=0), []) == [-1, -2, LOW, -4]
