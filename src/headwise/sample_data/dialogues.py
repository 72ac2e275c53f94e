"""Conversations of a user with an assistant, whose every answer follows by rules.

    user       Hello, my name is Anna.
    assistant  Hello, Anna. What can I do for you?
    user       What is 3 plus 4?
    assistant  3 plus 4 is 7.
    user       And plus 2?
    assistant  7 plus 2 is 9.
    user       Do you remember my name?
    assistant  Your name is Anna.

An answer needs arithmetic on small numbers, a fact, or what the user said earlier. In
the test part two things that users say about themselves occur together that never do so
in training; questions and facts are all in training.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Literal

from headwise.sample_data.dialogue_words import (
    ASK_FACTS,
    ASK_NOTES,
    GREETINGS,
    NOTES,
    TELL_NAME,
    THANKS,
    fact,
)
from headwise.sample_data.splits import Sizes, Splits, is_held_out, split

LARGEST_NUMBER = 9
LARGEST_RESULT = 20

MOST_EXCHANGES = 5
"""Questions between what is said at the beginning and the thanks at the end."""

SIZES = Sizes(8_000, 200, 400)
ONE_IN = 6
"""One in so many pairs of what a user says about themselves is for the test."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side says."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Turns of user and assistant, who speaks last."""

    turns: tuple[Turn, ...]
    notes: tuple[str, ...]
    """What the user said about themselves, such as "colour green"."""

    def up_to(self, answers: int) -> Dialogue:
        """Return the turns up to this answer, counted from 1."""
        return Dialogue(self.turns[: 2 * answers], self.notes)

    def to_json(self) -> str:
        """Return {"turns": [{"role": ..., "text": ...}, ...]} in one line."""
        turns = [{"role": turn.role, "text": turn.text} for turn in self.turns]
        return json.dumps({"turns": turns}, ensure_ascii=False)


@dataclass(slots=True)
class _Conversation:
    """A conversation while it is drawn."""

    rng: Random
    turns: list[Turn] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    """Questions that need not be asked again."""

    result: int | None = None
    """Of the arithmetic in the turn before."""

    def add(self, question: str, answer: str, *, result: int | None = None) -> None:
        self.turns += [Turn("user", question), Turn("assistant", answer)]
        self.result = result


def dialogues(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[Dialogue]:
    """Generate conversations of 4 to 18 turns."""
    return split(
        _dialogue,
        key=lambda each: each.turns,
        for_test=_for_test,
        sizes=sizes,
        seed=seed,
    )


def _for_test(dialogue: Dialogue) -> bool:
    pairs = combinations(sorted(dialogue.notes), 2)
    return any(is_held_out(*pair, one_in=ONE_IN) for pair in pairs)


def _dialogue(rng: Random, number: int) -> list[Dialogue]:
    talk = _Conversation(rng)
    _begin(talk)
    for kind in rng.sample(sorted(NOTES), rng.choice((0, 1, 1, 2))):
        _tell(talk, kind)
    for _ in range(rng.randint(1, MOST_EXCHANGES)):
        rng.choice(EXCHANGES)(talk)
    if rng.random() < 0.4:
        to_whom = f", {talk.notes['name']}" if "name" in talk.notes else ""
        talk.add(rng.choice(THANKS), f"You are welcome{to_whom}.")
    notes = tuple(f"{kind} {value}" for kind, value in talk.notes.items())
    return [Dialogue(tuple(talk.turns), notes)]


def _begin(talk: _Conversation) -> None:
    """Greet, and perhaps say one's name."""
    rng = talk.rng
    greeting = rng.choice(GREETINGS)
    if rng.random() < 0.3:
        talk.add(f"{greeting}!", "Hello. What can I do for you?")
        return
    names, _, _ = TELL_NAME
    name = talk.notes["name"] = rng.choice(names)
    said = rng.choice(TELL_NAME[1]).format(name)
    talk.add(f"{greeting}, {said}", TELL_NAME[2].format(name))


def _tell(talk: _Conversation, kind: str) -> None:
    """Say something about oneself that may be asked for later."""
    values, says, answer = NOTES[kind]
    value = talk.notes[kind] = talk.rng.choice(values)
    reply = answer.format(value)
    talk.add(talk.rng.choice(says).format(value), reply[0].upper() + reply[1:])


def _recall(talk: _Conversation) -> None:
    """Ask for what was said earlier, or for what never was."""
    kinds = sorted(ASK_NOTES.keys() - talk.asked)
    known = [kind for kind in kinds if kind in talk.notes]
    if not kinds:
        return
    kind = talk.rng.choice(known if known and talk.rng.random() < 0.8 else kinds)
    talk.asked.add(kind)
    questions, answer, unknown = ASK_NOTES[kind]
    value = talk.notes.get(kind)
    reply = unknown if value is None else answer.format(value)
    talk.add(talk.rng.choice(questions), reply)


def _ask_fact(talk: _Conversation) -> None:
    kind = talk.rng.choice(sorted(ASK_FACTS))
    facts, questions, answer = ASK_FACTS[kind]
    subject = talk.rng.choice(sorted(facts))
    if subject in talk.asked:
        return
    talk.asked.add(subject)
    talk.add(*(fact(t, subject, facts) for t in (talk.rng.choice(questions), answer)))


def _calculate(talk: _Conversation) -> None:
    """Ask for a sum or a difference, or go on from the last result."""
    rng = talk.rng
    goes_on = talk.result is not None and rng.random() < 0.6
    first = talk.result if goes_on else rng.randint(0, LARGEST_NUMBER)
    assert first is not None
    word, result, second = rng.choice(list(_operations(first)))
    if goes_on:
        question = rng.choice(("And {} {}?", "And what is that {} {}?"))
        asked = question.format(word, second)
    else:
        question = rng.choice(("What is {} {} {}?", "How much is {} {} {}?"))
        asked = question.format(first, word, second)
    talk.add(asked, f"{first} {word} {second} is {result}.", result=result)


def _operations(first: int) -> Iterator[tuple[str, int, int]]:
    """Yield operations on ``first`` with small results: word, result, number."""
    for second in range(1, LARGEST_NUMBER + 1):
        if first + second <= LARGEST_RESULT:
            yield "plus", first + second, second
        if first >= second:
            yield "minus", first - second, second


EXCHANGES: tuple[Callable[[_Conversation], None], ...] = (
    *(_recall, _recall),
    _ask_fact,
    *(_calculate, _calculate),
)
