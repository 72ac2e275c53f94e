"""Short reviews, positive or negative: with negations, and concessions.

"The room was not clean." has a good word in a bad sentence, and in "Although the waiter
was rude, the soup was delicious." the main clause decides. No test review has a pair of
aspect and adjective that training has.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from headwise.sample_data.splits import LabelledText, Sizes, Splits, is_held_out, split

POSITIVE, NEGATIVE = "positive", "negative"
SIZES = Sizes(4_000, 200, 400)
ONE_IN = 8
"""One in so many pairs of aspect and adjective is for the test."""

CONCESSION = 0.3
"""Share of reviews with a clause against their label."""

Adjectives = tuple[tuple[str, ...], tuple[str, ...]]
"""Good ones, bad ones."""

FOR_ALL: Adjectives = (
    ("great", "excellent", "wonderful", "nice", "perfect"),
    ("terrible", "awful", "disappointing", "bad", "horrible"),
)
PEOPLE: Adjectives = (
    ("friendly", "helpful", "polite", "attentive"),
    ("rude", "unfriendly", "impatient", "careless"),
)
FOOD: Adjectives = (
    ("delicious", "fresh", "tasty", "well seasoned"),
    ("bland", "stale", "burnt", "tasteless"),
)
ROOMS: Adjectives = (
    ("clean", "quiet", "comfortable", "bright"),
    ("dirty", "noisy", "shabby", "dark"),
)
STORIES: Adjectives = (
    ("gripping", "funny", "clever", "original"),
    ("boring", "dull", "predictable", "silly"),
)
GOODS: Adjectives = (
    ("sturdy", "reliable", "handy", "well made"),
    ("flimsy", "unreliable", "useless", "badly made"),
)


@dataclass(frozen=True, slots=True)
class Topic:
    """What a review may be about."""

    openings: tuple[str, ...]
    """Sentences that say nothing of good or bad."""

    aspects: dict[str, Adjectives]
    verdicts: tuple[tuple[str, ...], tuple[str, ...]]
    """Sentences that end a good review, and a bad one."""


TOPICS = (
    Topic(
        (
            "We ate there on Sunday.",
            "I went there with two friends.",
            "We had a table by the window.",
        ),
        {
            **dict.fromkeys(("waiter", "waitress", "cook"), PEOPLE),
            **dict.fromkeys(("soup", "fish", "pizza", "bread", "salad"), FOOD),
            "dining room": ROOMS,
        },
        (
            ("We will come back.", "We would eat there again.", "We enjoyed it."),
            (
                "We will not come back.",
                "We would never eat there again.",
                "We did not enjoy it.",
            ),
        ),
    ),
    Topic(
        (
            "We stayed for two nights.",
            "I was there on business.",
            "We arrived late in the evening.",
        ),
        {
            **dict.fromkeys(("receptionist", "porter", "owner"), PEOPLE),
            **dict.fromkeys(("room", "bathroom", "lobby"), ROOMS),
            "breakfast": FOOD,
        },
        (
            ("I would stay there again.", "I can recommend it.", "I slept well."),
            (
                "I would not stay there again.",
                "I cannot recommend it.",
                "I did not sleep well.",
            ),
        ),
    ),
    Topic(
        (
            "I watched it on Friday.",
            "We saw it at the cinema.",
            "My sister chose the film.",
        ),
        dict.fromkeys(("plot", "ending", "script", "first half", "dialogue"), STORIES),
        (
            ("I would watch it again.", "I can recommend it.", "I enjoyed it."),
            (
                "I would never watch it again.",
                "I cannot recommend it.",
                "I did not enjoy it.",
            ),
        ),
    ),
    Topic(
        (
            "I bought it last month.",
            "It is a kettle for two litres.",
            "It was a gift for my mother.",
        ),
        {
            "seller": PEOPLE,
            **dict.fromkeys(("handle", "lid", "switch", "spout", "cord"), GOODS),
        },
        (
            ("I would buy it again.", "I am happy with it.", "It was worth the money."),
            (
                "I would not buy it again.",
                "I am not happy with it.",
                "It was not worth the money.",
            ),
        ),
    ),
)

SURE = ("really", "very", "so")
"""Before an adjective that can be more or less so."""

ABSOLUTE = {*FOR_ALL[0], *FOR_ALL[1], "delicious", "burnt", "original", "tasteless"}
ABSOLUTE |= {"well made", "badly made", "useless", "predictable"}
ABSOLUTE -= {"nice", "bad"}
"""Nobody says that something was very excellent, or not burnt at all."""


@dataclass(frozen=True, slots=True)
class Review:
    """A review, and which adjective it gives to what."""

    text: str
    label: str
    pairs: tuple[tuple[str, str], ...]
    """Aspect and adjective."""


def reviews(sizes: Sizes = SIZES, *, seed: int = 1) -> Splits[LabelledText]:
    """Generate reviews, as many positive ones as negative."""
    parts = split(
        _review, key=lambda r: r.text, for_test=_for_test, sizes=sizes, seed=seed
    )
    texts = (
        tuple(LabelledText(each.text, each.label) for each in part)
        for part in (parts.train, parts.dev, parts.test)
    )
    return Splits(*texts)


def _for_test(review: Review) -> bool:
    return any(is_held_out(*pair, one_in=ONE_IN) for pair in review.pairs)


def _review(rng: Random, number: int) -> list[Review]:
    good = number % 2 == 0
    topic = rng.choice(TOPICS)
    count = rng.choice((1, 1, 2))
    aspects = rng.sample(sorted(topic.aspects), count + 1)
    clauses = [_clause(rng, topic, aspect, good) for aspect in aspects]
    pairs = [pair for _, pair in clauses]
    if rng.random() < CONCESSION:
        other, pairs[0] = _clause(rng, topic, aspects[0], not good)
        sentences = [_against(rng, other, clauses[1][0])]
        sentences += (_sentence(clause) for clause, _ in clauses[2:])
    else:
        pairs = pairs[1:]
        sentences = [_sentence(clause) for clause, _ in clauses[1:]]
        if count == 2 and rng.random() < 0.5:
            sentences = [_sentence(f"{clauses[1][0]} and {clauses[2][0]}")]
    if rng.random() < 0.4:
        sentences.insert(0, rng.choice(topic.openings))
    if rng.random() < 0.5:
        sentences.append(rng.choice(topic.verdicts[0 if good else 1]))
    label = POSITIVE if good else NEGATIVE
    return [Review(" ".join(sentences), label, tuple(pairs))]


def _clause(
    rng: Random, topic: Topic, aspect: str, good: bool
) -> tuple[str, tuple[str, str]]:
    """Return a clause on ``aspect``, and its pair of aspect and adjective."""
    negated = rng.random() < 0.4
    kind = 0 if good != negated else 1
    own = topic.aspects[aspect][kind]
    adjective = rng.choice((*own, *own, *FOR_ALL[kind]))
    is_absolute = adjective in ABSOLUTE
    if negated:
        verb = "was not" if rng.random() < 0.5 else "wasn't"
        after = " at all" if not is_absolute and rng.random() < 0.3 else ""
        said = f"{verb} {adjective}{after}"
    else:
        sure = f"{rng.choice(SURE)} " if not is_absolute and rng.random() < 0.4 else ""
        said = f"was {sure}{adjective}"
    return f"the {aspect} {said}", (aspect, adjective)


def _against(rng: Random, other: str, main: str) -> str:
    """Join a clause to a main clause that says the opposite, and decides."""
    although = rng.choice(("although", "even though"))
    if rng.random() < 0.5:
        return _sentence(f"{although} {other}, {main}")
    return _sentence(f"{main}, {although} {other}")


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."
