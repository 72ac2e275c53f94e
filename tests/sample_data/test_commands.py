"""Commands: every action is the one that was asked for."""

import pytest
from tests.sample_data.conftest import everything

from headwise.sample_data.commands import DIRECTIONS, TIMES, VERBS, commands
from headwise.sample_data.splits import Sizes

SIZES = Sizes(1_500, 100, 200)


@pytest.fixture(scope="module")
def examples():
    return commands(SIZES, seed=1)


def by_hand(text):
    """Read a command word by word."""
    if " after " in text:
        first, second = text.split(" after ")
        return by_hand(second) + by_hand(first)
    if " then " in text:
        first, second = text.split(" then ")
        return by_hand(first) + by_hand(second)
    verb, *adverbs = text.split()
    times = {"twice": 2, "three": 3, "four": 4}
    count = max([times.get(each, 1) for each in adverbs], default=1)
    turns = [each.upper() for each in adverbs if each in DIRECTIONS]
    return [*turns, verb.upper()] * count


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("lift", ["LIFT"]),
        ("push left twice", ["LEFT", "PUSH"] * 2),
        ("drop after wait", ["WAIT", "DROP"]),
        ("drop then wait three times", ["DROP", "WAIT", "WAIT", "WAIT"]),
    ],
)
def test_the_rules_by_hand(text, actions):
    assert by_hand(text) == actions


def test_actions_follow_from_the_command(examples):
    for each in everything(examples):
        assert each.label.split() == by_hand(each.text)


def test_the_words_of_the_test_part_are_all_in_training(examples):
    known = {word for each in examples.train for word in each.text.split()}
    words = {word for each in examples.test for word in each.text.split()}

    assert words <= known
    assert known >= {*VERBS, *filter(None, DIRECTIONS), "twice", "then", "after"}
    assert max(TIMES.values()) == 4
