"""Conversations: an answerer that knows the rules alone gives the same answers."""

import json
import re
from itertools import pairwise

import pytest
from tests.sample_data.conftest import everything, words

from headwise.sample_data.dialogue_words import ASK_FACTS, ASK_NOTES, NOTES, TELL_NAME
from headwise.sample_data.dialogues import dialogues
from headwise.sample_data.splits import Sizes, is_held_out


@pytest.fixture(scope="module")
def corpus():
    return dialogues(Sizes(3_000, 100, 200), seed=1)


def pattern(template):
    return re.escape(template).replace(r"\{\}", "(.+)").replace(r"\{0\}", "(.+)")


class Answerer:
    """Answers from nothing but the text of the turns so far."""

    def __init__(self):
        self.known = {}
        self.last = None

    def answer(self, question):
        last, self.last = self.last, None
        if found := re.fullmatch(r"\D* (\d+) (plus|minus) (\d+)\?", question):
            return self.calculate(int(found[1]), found[2], int(found[3]))
        if found := re.fullmatch(r"And.* (plus|minus) (\d+)\?", question):
            return self.calculate(last, found[1], int(found[2]))
        for facts, questions, answer in ASK_FACTS.values():
            for template in questions:
                if found := re.fullmatch(pattern(template), question):
                    reply = answer.format(found[1], facts[found[1]])
                    return reply[0].upper() + reply[1:]
        for kind, (questions, answer, unknown) in ASK_NOTES.items():
            if question in questions:
                known = self.known.get(kind)
                return answer.format(known) if known else unknown
        for kind, (_, says, answer) in NOTES.items():
            for template in says:
                if found := re.fullmatch(pattern(template), question):
                    self.known[kind] = found[1]
                    reply = answer.format(found[1])
                    return reply[0].upper() + reply[1:]
        for template in TELL_NAME[1]:
            if found := re.fullmatch(f".*, {pattern(template)}", question):
                self.known["name"] = found[1]
                return TELL_NAME[2].format(found[1])
        if question.startswith("Thank"):
            name = self.known.get("name")
            return f"You are welcome, {name}." if name else "You are welcome."
        return "Hello. What can I do for you?"

    def calculate(self, first, word, second):
        self.last = first + second if word == "plus" else first - second
        return f"{first} {word} {second} is {self.last}."


def test_every_answer_follows_from_the_turns_before_it(corpus):
    for dialogue in everything(corpus):
        answerer = Answerer()
        turns = dialogue.turns
        for user, assistant in zip(turns[::2], turns[1::2], strict=True):
            assert answerer.answer(user.text) == assistant.text, turns
        kinds = {*(f"{kind} {value}" for kind, value in answerer.known.items())}
        assert kinds == set(dialogue.notes)


def test_user_and_assistant_take_turns_and_the_assistant_speaks_last(corpus):
    for dialogue in everything(corpus):
        roles = [turn.role for turn in dialogue.turns]
        assert roles[0] == "user"
        assert roles[-1] == "assistant"
        assert all(one != other for one, other in pairwise(roles))


def test_a_dialogue_as_a_line_of_json(corpus):
    dialogue = corpus.train[0]
    line = dialogue.to_json()
    assert "\n" not in line
    assert json.loads(line) == {
        "turns": [{"role": turn.role, "text": turn.text} for turn in dialogue.turns]
    }


def test_some_need_the_memory_and_some_say_that_nothing_was_said(corpus):
    answers = [turn.text for each in corpus.train for turn in each.turns[1::2]]
    recalled = sum(text.startswith("Your ") for text in answers)
    unknown = sum(text.startswith("You have not told me") for text in answers)
    assert recalled > 500
    assert unknown > 200


def pairs_held_out(dialogue):
    notes = sorted(dialogue.notes)
    pairs = [(a, b) for i, a in enumerate(notes) for b in notes[i + 1 :]]
    return [pair for pair in pairs if is_held_out(*pair, one_in=6)]


def test_what_is_said_together_in_the_test_part_is_never_so_in_training(corpus):
    assert all(pairs_held_out(dialogue) for dialogue in corpus.test)
    assert not any(pairs_held_out(each) for each in (*corpus.train, *corpus.dev))


def test_every_word_of_the_test_part_occurs_in_training(corpus):
    train, test = (
        {word for each in part for turn in each.turns for word in words(turn.text)}
        for part in (corpus.train, corpus.test)
    )
    assert test <= train


def test_no_dialogue_occurs_twice(corpus):
    assert len({dialogue.turns for dialogue in everything(corpus)}) == 3_300


def test_the_same_seed_gives_the_same_dialogues():
    sizes = Sizes(30, 5, 5)
    assert dialogues(sizes, seed=1) == dialogues(sizes, seed=1)
    assert dialogues(sizes, seed=1) != dialogues(sizes, seed=2)
