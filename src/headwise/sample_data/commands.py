"""Commands to a robot, and the actions that they ask for.

    lift twice              LIFT LIFT
    push left               LEFT PUSH
    drop after wait         WAIT DROP
    push left then lift     LEFT PUSH LIFT

The test part has verbs with adverbs that training has apart only, such as "push" and
"left three times".
"""

from __future__ import annotations

from random import Random

from headwise.sample_data.splits import LabelledText, Sizes, Splits, is_held_out, split

VERBS = ("lift", "drop", "push", "pull", "wait", "spin", "beep", "wave")
DIRECTIONS = ("", "left", "right", "back")
TIMES = {"": 1, "twice": 2, "three times": 3, "four times": 4}
JOINTS = ("", "then", "after")

SIZES = Sizes(3_000, 200, 400)
ONE_IN = 8
"""One in so many verbs with their adverbs is for the test."""


def commands(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[LabelledText]:
    """Generate commands of one or two actions; the label has what is to be done."""
    return split(
        _command, key=lambda each: each.text, for_test=_for_test, sizes=sizes, seed=seed
    )


def _command(rng: Random, number: int) -> list[LabelledText]:
    text, actions = _action(rng)
    joint = rng.choice(JOINTS)
    if joint:
        other, done = _action(rng)
        text = f"{text} {joint} {other}"
        actions = [*done, *actions] if joint == "after" else [*actions, *done]
    return [LabelledText(text, " ".join(actions))]


def _action(rng: Random) -> tuple[str, list[str]]:
    verb, direction = rng.choice(VERBS), rng.choice(DIRECTIONS)
    times = rng.choice([*TIMES])
    once = [each.upper() for each in (direction, verb) if each]
    return " ".join(filter(None, (verb, direction, times))), once * TIMES[times]


def _for_test(example: LabelledText) -> bool:
    text = example.text
    for joint in filter(None, JOINTS):
        text = text.replace(f" {joint} ", "|")
    found = (each.split(" ", 1) for each in text.split("|"))
    return any(
        is_held_out(verb, *adverbs, one_in=ONE_IN)
        for verb, *adverbs in found
        if adverbs
    )
