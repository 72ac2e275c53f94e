"""Word-by-word dictionary baseline, and scores of pronouns and exact matches.

The dictionary knows every word of the corpus, but no word order, no agreement and no
"it". Its score shows how much of the task is vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from headwise.demo_corpus import english, french
from headwise.demo_corpus.french import Features
from headwise.demo_corpus.lexicon import (
    ADJECTIVES,
    COMPARATIVES,
    GO,
    INTRANSITIVE,
    MANNER,
    NOUNS,
    NUMBERS,
    OFTEN,
    TRANSITIVE,
    WITH_HAVE,
)
from headwise.demo_corpus.pairs import Pair, PronounCase
from headwise.errors import UsageError

_FUNCTION_WORDS = {
    "the": "le", "a": "un", "an": "un", "some": "des", "any": "de", "this": "ce",
    "these": "ces", "my": "mon", "your": "votre", "his": "son", "our": "notre",
    "their": "leur", "i": "je", "you": "vous", "he": "il", "she": "elle", "it": "il",
    "we": "nous", "they": "ils", "him": "le", "her": "la", "them": "les", "me": "me",
    "us": "nous", "am": "suis", "is": "est", "are": "sont", "was": "était",
    "were": "étaient", "be": "être", "isn't": "n'est pas", "aren't": "ne sont pas",
    "wasn't": "n'était pas", "weren't": "n'étaient pas", "do": "", "does": "",
    "did": "", "don't": "ne pas", "doesn't": "ne pas", "didn't": "n'a pas",
    "will": "va", "won't": "ne va pas", "going": "va", "to": "à", "can": "peut",
    "can't": "ne peut pas", "must": "doit", "not": "pas", "never": "jamais",
    "want": "veut", "wants": "veut", "who": "qui", "what": "que", "where": "où",
    "when": "quand", "why": "pourquoi", "that": "que", "and": "et", "but": "mais",
    "because": "parce que", "in": "dans", "on": "sur", "behind": "derrière",
    "front": "devant",
    "of": "de", "near": "près de", "there": "il y a", "more": "plus", "less": "moins",
    "as": "aussi", "than": "que", "very": "très", "too": "trop", "for": "",
    "every": "tous", "day": "jours", "today": "aujourd'hui", "now": "maintenant",
    "yesterday": "hier", "morning": "matin", "tomorrow": "demain",
    "tonight": "ce soir",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExactMatches:
    """Number of translations equal to their reference."""

    right: int
    of: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.right / self.of


_WORD = re.compile(r"([A-Za-z]+(?:'t)?)('s)?")


def dictionary_baseline(english: str) -> str:
    """Translate word by word: each English word by its commonest French one.

    Names and anything else that the dictionary does not hold are copied.
    """
    dictionary = _dictionary()
    words = []
    for word, _ in _WORD.findall(english):
        words.append(dictionary.get(word.lower(), word))
    text = " ".join(word for word in words if word)
    mark = " ?" if english.rstrip().endswith("?") else "."
    return text[:1].upper() + text[1:] + mark


_CHOICE = re.compile(r"\bparce qu['’](il|elle)\b", re.IGNORECASE)


def pronoun_accuracy(cases: Sequence[PronounCase], outputs: Sequence[str]) -> float:
    """Return the share of outputs whose because-clause has the expected pronoun.

    ``outputs`` are the translations, in the order of ``cases``. An output without
    "parce qu'il" or "parce qu'elle" counts as wrong.
    """
    if len(cases) != len(outputs) or not cases:
        raise UsageError(
            f"{len(cases)} pronoun cases came with {len(outputs)} translations; there "
            "must be one for each case, and one case at least: translate each once"
        )
    chosen = (_CHOICE.search(output) for output in outputs)
    right = [
        choice is not None and choice[1].lower() == case.expected
        for case, choice in zip(cases, chosen, strict=True)
    ]
    return right.count(True) / len(right)


def exact_matches(
    pairs: Sequence[Pair], outputs: Sequence[str]
) -> dict[str, ExactMatches]:
    """Count the outputs that equal their reference, for each kind of sentence.

    Each English sentence of the grammar has one translation, so this tells right from
    wrong, where a mean over n-grams hides the one wrong ending.
    """
    if len(pairs) != len(outputs):
        raise UsageError(
            f"{len(pairs)} pairs came with {len(outputs)} translations; each needs one"
        )
    found: dict[str, list[bool]] = {}
    for pair, output in zip(pairs, outputs, strict=True):
        found.setdefault(pair.kind, []).append(output == pair.french)
    return {
        kind: ExactMatches(right.count(True), len(right))
        for kind, right in sorted(found.items())
    }


@cache
def _dictionary() -> dict[str, str]:
    words: dict[str, str] = {}
    for noun in NOUNS:
        words[noun.english] = noun.french
        words[english.plural_of(noun.english)] = french.plural_of(noun.french)
    for word, adjective in ADJECTIVES.items():
        words[word] = adjective.french
    for word, comparative in COMPARATIVES.items():
        words[comparative] = "plus " + ADJECTIVES[word].french
    for verb in (*TRANSITIVE, *INTRANSITIVE, GO):
        present = french.finite(verb.french, "present", Features())
        forms = {
            verb.past: french.participle(verb.french),
            verb.english: verb.french,
            english.third_person(verb.english): present,
            english.with_ing(verb.english): present,
        }
        words |= {form.split()[0]: in_french for form, in_french in forms.items()}
    return words | NUMBERS | OFTEN | MANNER | WITH_HAVE | _FUNCTION_WORDS
