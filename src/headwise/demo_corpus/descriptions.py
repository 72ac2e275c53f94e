"""Statements with "be": possession, existence, comparison, relative clauses."""

from __future__ import annotations

from random import Random

from headwise.demo_corpus import english
from headwise.demo_corpus.clauses import (
    Clause,
    Manner,
    being,
    random_manner,
    statement,
    that_is_done,
    who_does,
)
from headwise.demo_corpus.lexicon import (
    ADJECTIVES,
    COMPARATIVES,
    FITTING,
    NAMES,
    OPPOSED,
    TRANSITIVE,
    UNOWNED,
    WITHOUT_DEGREE,
)
from headwise.demo_corpus.pairs import Pair, closed
from headwise.demo_corpus.phrases import (
    BY_CATEGORY,
    POSSESSIVES,
    Phrase,
    name,
    noun_phrase,
    random_adjective,
    random_determiner,
    random_object,
    random_subject,
)
from headwise.demo_corpus.random_phrases import (
    BEINGS,
    SEEN,
    THINGS,
    judged,
    placed_at,
    pronoun_for,
    random_actor,
    random_head,
    random_topic,
    verbs_of,
)


def possession(rng: Random) -> Pair | None:
    """Say "The doctor's car is red."."""
    person = rng.choice(BY_CATEGORY["person"])
    owner = noun_phrase(person, random_determiner(rng, person))
    noun = rng.choice(BY_CATEGORY[rng.choice(("animal", *THINGS))])
    plural = not noun.is_mass and rng.random() < 0.3
    thing = noun_phrase(noun, "the", plural=plural, owner=owner)
    return closed("possession", judged(rng, thing))


def presentation(rng: Random) -> Pair | None:
    """Say "This is my dog." or ask "Are these Paul's books?"."""
    category = rng.choice((*BEINGS, *THINGS))
    noun = rng.choice(BY_CATEGORY[category])
    if noun.is_mass or noun.english in UNOWNED:
        return None
    plural = rng.random() < 0.3
    owner = name(rng.choice(tuple(NAMES))) if rng.random() < 0.4 else None
    adjective = random_adjective(rng, category, 0.4)
    determiner = rng.choice(POSSESSIVES)
    thing = noun_phrase(
        noun, determiner, plural=plural, adjective=adjective, owner=owner
    )
    this = "these" if plural else "this"
    combinations = (*thing.combinations, (this, determiner, thing.word))
    if owner is not None:
        combinations = (*thing.combinations, (this, owner.word, thing.word))
    be = english.be("present", 3, plural)
    est = "sont" if plural else "est"
    draw = rng.random()
    if draw < 0.25:
        asked = f"{be} {this} {thing.english}", f"est-ce que ce {est} {thing.french}"
        return closed("presentation", Clause(*asked, combinations), "?")
    if draw < 0.45:
        said = (
            f"{this} {english.negated(be)} {thing.english}",
            f"ce ne {est} pas {thing.french}",
        )
    else:
        said = f"{this} {be} {thing.english}", f"ce {est} {thing.french}"
    return closed("presentation", Clause(*said, combinations))


def existence(rng: Random) -> Pair | None:
    """Say "There are four chairs in the kitchen.".

    What there isn't mostly has an adjective, which "de" hears instead of the noun: "pas
    d'oiseau", but "pas de bel oiseau".
    """
    noun = rng.choice(BY_CATEGORY[rng.choice((*BEINGS, "thing", "vehicle"))])
    plural = rng.random() < 0.4
    number = rng.choice(("two", "three", "four", "five", "six", "seven", "eight"))
    negated = not plural and rng.random() < 0.5
    adjective = random_adjective(rng, noun.category, 0.7 if negated else 0.4)
    thing = noun_phrase(
        noun,
        number if plural else "a",
        plural=plural,
        adjective=adjective,
        negated=negated,
    )
    clause = there_is(thing, rng.choice(("present", "past")), negated=negated)
    return closed("existence", placed_at(rng, clause, ("there", thing.word)))


def there_is(thing: Phrase, tense: str, *, negated: bool) -> Clause:
    """Say that there is something, or (with a phrase built for it) that there isn't."""
    be = english.be(tense, 3, thing.features.plural)
    a = "a" if tense == "present" else "avait"
    if negated:
        said = (
            f"there {english.negated(be)} {thing.english}",
            f"il ne y {a} pas {thing.french}",
        )
    else:
        said = f"there {be} {thing.english}", f"il y {a} {thing.french}"
    return Clause(*said, thing.combinations)


def comparison(rng: Random) -> Pair | None:
    """Say "The owl is more intelligent than the goose."."""
    category = rng.choice(("person", "animal", "building", "vehicle", "thing"))
    first = random_subject(rng, (category,), adjectives=0.0)
    second = random_subject(rng, (category,), adjectives=0.0)
    fitting = FITTING[category]
    if rng.random() < 0.3:
        fitting = tuple(word for word in fitting if word in COMPARATIVES)
    adjective = ADJECTIVES[rng.choice(fitting or FITTING[category])]
    if first.word == second.word or adjective.english in WITHOUT_DEGREE:
        return None
    draw, is_long = rng.random(), len(adjective.english) > 5
    if draw < 0.3:
        degree, than = ("as", "aussi"), "as"
    elif adjective.english in COMPARATIVES:
        degree, than = ("", "plus"), "than"
    elif is_long and draw < 0.7:
        degree, than = ("more", "plus"), "than"
    else:
        degree, than = ("less", "moins"), "than"
    clause = being(first, adjective, rng.choice(("present", "past")), degree=degree)
    if not degree[0]:
        bare, _, _ = clause.english.rpartition(" ")
        words = f"{bare} {COMPARATIVES[adjective.english]}"
        clause = Clause(words, clause.french, clause.combinations)
    compared = clause.followed_by(f"{than} {second.english}", f"que {second.french}")
    return closed("comparison", compared)


def contrast(rng: Random) -> Pair | None:
    """Say "The house isn't new but it is clean.": here "it" leaves no choice."""
    subject = random_topic(rng, anyone=())
    first, second = (rng.choice(FITTING[subject.category]) for _ in range(2))
    if first == second or any({first, second} <= set(group) for group in OPPOSED):
        return None
    tense = rng.choice(("present", "past"))
    negated = rng.random() < 0.5
    said = being(subject, ADJECTIVES[first], tense, negated=negated)
    added = being(pronoun_for(subject), ADJECTIVES[second], tense)
    joint = ("but", "mais") if negated else ("and", "et")
    return closed(
        "contrast",
        Clause(
            f"{said.english} {joint[0]} {added.english}",
            f"{said.french} {joint[1]} {added.french}",
            (*said.combinations, *added.combinations),
        ),
    )


def subject_relative(rng: Random) -> Pair | None:
    """Say "The girl who lost the key is sad."."""
    verb = rng.choice(TRANSITIVE)
    head = random_head(rng, verb.subjects)
    manner = random_manner(rng, verb, head, negations=0.0)
    thing = random_object(rng, verb.objects, adjectives=0.0)
    if thing.word == head.word:
        return None
    whole = who_does(head, verb, manner, thing)
    return closed("subject relative", judged(rng, whole))


_LEFT_TO_TELL = verbs_of("see find buy lose break wash write like")


def object_relative(rng: Random) -> Pair | None:
    """Say "The letters that Paul wrote are long.", where the participle agrees.

    Mostly in the past, which alone has a participle; and with many plurals, for it has
    four forms.
    """
    verb = rng.choice(_LEFT_TO_TELL)
    head = random_head(rng, verb.objects, plurals=0.45)
    subject = random_actor(rng, verb)
    manner = random_manner(rng, verb, subject, negations=0.1)
    if rng.random() < 0.6:
        manner = Manner("past", manner.negation)
    if head.word == subject.word:
        return None
    return closed(
        "object relative", judged(rng, that_is_done(head, subject, verb, manner))
    )


def seen_relative(rng: Random) -> Pair | None:
    """Say "Marie knows the man who sold the car."."""
    verb = rng.choice(SEEN)
    subject = random_actor(rng, verb)
    manner = random_manner(rng, verb, subject, negations=0.1)
    inner = rng.choice(TRANSITIVE)
    head = random_head(rng, ("person",))
    inner_manner = random_manner(rng, inner, head, negations=0.0)
    thing = random_object(rng, inner.objects, adjectives=0.0)
    if len({subject.word, head.word, thing.word}) < 3:
        return None
    seen = who_does(head, inner, inner_manner, thing)
    return closed("seen relative", statement(subject, verb, manner, seen))
