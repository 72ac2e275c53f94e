"""An English-French corpus of our own, made by a grammar: unlimited, exact, fair.

Every sentence has one right translation, which agreement, elision, word order and the
reference of "it" decide. The held-out part shows combinations of words that training
never does, though it has no word that training lacks.

    corpus = demo_corpus(num_train=60_000, num_held_out=1_000, seed=1)
    corpus.held_out[0].english, corpus.held_out[0].french

The grammar makes more than a thousand million distinct pairs; ``generate`` yields as
many as are asked for.
"""

from headwise.demo_corpus.baseline import (
    ExactMatches,
    dictionary_baseline,
    exact_matches,
    pronoun_accuracy,
)
from headwise.demo_corpus.examples import EXAMPLES
from headwise.demo_corpus.pairs import Pair, PronounCase
from headwise.demo_corpus.splits import (
    NUM_DEV,
    NUM_HELD_OUT,
    NUM_TRAIN,
    DemoCorpus,
    demo_corpus,
    generate,
    is_held_out,
    write,
)

__all__ = [
    "EXAMPLES",
    "NUM_DEV",
    "NUM_HELD_OUT",
    "NUM_TRAIN",
    "DemoCorpus",
    "ExactMatches",
    "Pair",
    "PronounCase",
    "demo_corpus",
    "dictionary_baseline",
    "exact_matches",
    "generate",
    "is_held_out",
    "pronoun_accuracy",
    "write",
]
