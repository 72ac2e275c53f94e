"""Minimal pairs: two sentences in which a pronoun stands for either of two nouns.

    The animal didn't cross the street because it was too tired.    the animal
    The animal didn't cross the street because it was too wide.     the street

Both have the same words but those that decide. So what a head prefers by the place or
the word of a noun is the same in both, and cancels in their mean.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.demo_corpus.lexicon import NOUNS
from headwise.demo_corpus.splits import demo_corpus
from headwise.sample_data.coreference import Coreference

Span = tuple[int, int]
"""Characters of a text: the first, and that after the last."""

QUESTION = " What is it?"
"""Follows a sentence whose "it" a dialogue model is to name."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with a pronoun, and the two nouns that it could stand for."""

    text: str
    """As the model reads it."""

    pronoun: Span
    antecedent: Span
    """A noun with the word before it, an article as a rule."""

    distractor: Span

    right: str = ""
    """The output that is right, or a beginning of it; none where it is unknown."""

    wrong: str = ""
    """The output that would be right if the pronoun stood for the distractor."""

    in_output: tuple[Span, Span] | None = None
    """Antecedent and distractor in ``right``, before the pronoun."""


Pair = tuple[Sentence, Sentence]
"""Two sentences; the antecedent of one is the distractor of the other."""

Groups = dict[tuple[str, ...], list[Sentence]]
"""What sentences share -> the sentences."""


def noun_phrase(text: str, noun: str) -> Span:
    """Return where ``noun`` stands first, with the word before it.

    Raises ``ValueError`` where it does not occur.
    """
    pattern = rf"(?:\b\w+(?:\s+|['’]))?(?<!\w){re.escape(noun)}(?!\w)"
    if match := re.search(pattern, text, re.IGNORECASE):
        return match.span()
    raise ValueError(f"{noun!r} is not in {text!r}")


def pronoun_after(text: str, pronoun: str, start: int) -> Span:
    """Return where ``pronoun`` stands first at ``start`` or later."""
    match = re.compile(rf"\b{pronoun}\b", re.IGNORECASE).search(text, start)
    if match:
        return match.span()
    raise ValueError(f"{pronoun!r} is not in {text[start:]!r}")


def demo_pairs(number: int, seed: int) -> list[Pair]:
    """Return pairs of the corpus of ``headwise demo`` that no training text shows.

    Right and wrong outputs differ in the pronoun alone.
    """
    wanted = -(-number // 2) * 4
    corpus = demo_corpus(num_train=0, num_dev=0, num_held_out=5 * wanted, seed=seed)
    french = {noun.english: noun.french for noun in NOUNS}
    groups: Groups = defaultdict(list)
    for pair in corpus.held_out:
        if (case := pair.pronoun) is None:
            continue
        text = pair.english
        because = text.index(" because ")
        other = {"il": "elle", "elle": "il"}[case.expected]
        cut = pair.french.rindex(f"qu'{case.expected} ") + len("qu'")
        nouns = case.antecedent, case.distractor
        sentence = Sentence(
            text,
            pronoun_after(text, "it", because),
            noun_phrase(text, nouns[0]),
            noun_phrase(text, nouns[1]),
            pair.french[:cut] + case.expected,
            pair.french[:cut] + other,
            (
                noun_phrase(pair.french, french[nouns[0]]),
                noun_phrase(pair.french, french[nouns[1]]),
            ),
        )
        groups[text[:because], *sorted(nouns)].append(sentence)
    return as_pairs(groups, nouns=2)[:number]


def translated_probes(table: Path, probes: Path, language: str) -> list[Pair]:
    """Return the minimal pairs of the probes with translations into a language."""
    nouns, translated = {}, {}
    for row in rows(probes / "pronoun_minimal_pairs.tsv"):
        key = row["id"], row["variant"]
        nouns[key] = row["antecedent"], row["distractor"]
        translated[key] = bare_noun(row[f"{language}_antecedent"])
    groups: Groups = defaultdict(list)
    for row in rows(table):
        if row["language"] != language:
            continue
        key = row["id"], row["variant"]
        other = row["id"], {"a": "b", "b": "a"}[row["variant"]]
        text, right = row["source"], row["right"]
        in_output = tuple(noun_phrase(right, translated[each]) for each in (key, other))
        groups[(row["id"],)].append(
            Sentence(
                text,
                pronoun_after(text, "it", text.index(" because ")),
                noun_phrase(text, nouns[key][0]),
                noun_phrase(text, nouns[key][1]),
                right,
                row["wrong"],
                (in_output[0], in_output[1]),
            )
        )
    return as_pairs(groups)


def bare_noun(phrase: str) -> str:
    """Return the noun of "die Straße", "l'animal (m)" or "Tier"."""
    return re.split(r"[ '’]", phrase.removesuffix(" (m)").removesuffix(" (f)"))[-1]


def without_article(phrase: str) -> str:
    """Return "city councilmen" of "The city councilmen"."""
    return re.sub(r"^(?:the|an?) ", "", phrase.strip(), flags=re.IGNORECASE)


def winograd_pairs(probes: Path) -> list[Pair]:
    """Return the Winograd schemas that are twins, without outputs."""
    groups: Groups = defaultdict(list)
    for row in rows(probes / "wsc/wsc285.tsv"):
        before, pronoun = row["before"], row["pronoun"]
        nouns = [without_article(row[f"candidate_{each}"]) for each in "ab"]
        answer, other = nouns if row["correct"].strip(".") == "A" else nouns[::-1]
        text = f"{before} {pronoun} {row['after']}"
        start = len(before) + 1
        try:
            found = [noun_phrase(before, noun) for noun in (answer, other)]
        except ValueError:  # not named before the pronoun, or not in these words
            continue
        groups[before, pronoun].append(
            Sentence(text, (start, start + len(pronoun)), found[0], found[1])
        )
    return as_pairs(groups)


def winogender_pairs(probes: Path) -> list[Pair]:
    """Return the sentences of Winogender with "he", "his" and "him".

    Those with other pronouns are the same sentences, and would not be independent.
    """
    groups: Groups = defaultdict(list)
    for row in rows(probes / "winogender/all_sentences.tsv"):
        occupation, participant, answer, gender, *_ = row["sentid"].split(".")
        text = row["sentence"]
        if gender != "male":
            continue
        try:
            first = noun_phrase(text, occupation)
            second = noun_phrase(text, participant)
            pronoun = pronoun_after(text, "(?:he|his|him)", max(first[1], second[1]))
        except ValueError:  # "someone", or a pronoun before both nouns
            continue
        chosen = (first, second) if answer == "0" else (second, first)
        sentence = Sentence(text, pronoun, *chosen)
        groups[occupation, participant].append(sentence)
    return as_pairs(groups)


def as_labels(fours: Iterable[Coreference]) -> list[Pair]:
    """Return pairs of the sample as questions whose output is first or second."""
    return sample_pairs(
        fours,
        lambda each: f"{each.text} {' or '.join(each.candidates)}?",
        lambda each: each.label,
        lambda each: {"first": "second", "second": "first"}[each.label],
    )


def as_dialogues(fours: Iterable[Coreference]) -> list[Pair]:
    """Return pairs of the sample as questions whose output is the noun.

    The pronoun is that of ``QUESTION``: a decoder cannot see, at the first one, the
    adjective that decides.
    """
    return sample_pairs(
        fours,
        lambda each: each.text + QUESTION,
        lambda each: each.answer,
        other_candidate,
        ask=True,
    )


def in_question(sentence: Sentence) -> Sentence:
    """Return the sentence with the nouns of its question in the place of the first."""
    start = len(sentence.text) - len(re.split(r"[.]", sentence.text)[-1])
    question = sentence.text[start:]

    def moved(span: Span) -> Span:
        first, last = noun_phrase(question, sentence.text[slice(*span)].split()[-1])
        return start + first, start + last

    return replace(
        sentence,
        antecedent=moved(sentence.antecedent),
        distractor=moved(sentence.distractor),
    )


def sample_pairs(
    fours: Iterable[Coreference],
    text_of: Callable[[Coreference], str],
    right: Callable[[Coreference], str],
    wrong: Callable[[Coreference], str],
    *,
    ask: bool = False,
) -> list[Pair]:
    """Return the pairs of sentences that differ in the adjective alone."""
    groups: Groups = defaultdict(list)
    for each in fours:
        text = text_of(each)
        clause = each.text.rindex(" it ") if " it " in each.text else 0
        start = len(each.text) if ask else clause
        sentence = Sentence(
            text,
            pronoun_after(text, "it", start),
            noun_phrase(text, each.answer),
            noun_phrase(text, other_candidate(each)),
            right(each),
            wrong(each),
        )
        groups[(*each.template, *each.candidates)].append(sentence)
    return as_pairs(groups, nouns=2)


def other_candidate(example: Coreference) -> str:
    """Return the noun that the pronoun does not stand for."""
    one, other = example.candidates
    return other if example.answer == one else one


def as_pairs(groups: Groups, *, nouns: int = 0) -> list[Pair]:
    """Return, of each group, the first two sentences whose antecedents differ.

    Of groups with the same nouns, which are the last so many words of their keys, the
    first one alone counts: pairs should be independent.
    """
    pairs, seen = [], set()
    for key, (one, *others) in groups.items():
        other = next((x for x in others if x.antecedent == one.distractor), None)
        both = frozenset(key[-nouns:]) if nouns else key
        if other is not None and both not in seen:
            seen.add(both)
            pairs.append((one, other))
    return pairs


def rows(path: Path) -> Iterator[Mapping[str, str]]:
    """Yield the rows of a table by the names of its columns."""
    header, *lines = path.read_text(encoding="utf-8").split("\n")
    for line in lines:
        if line:
            yield dict(zip(header.split("\t"), line.split("\t"), strict=True))
