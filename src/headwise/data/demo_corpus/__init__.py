"""An English-French corpus of our own, made by a grammar: unlimited, exact, fair.

Every sentence has one right translation, which agreement, elision, word order and the
reference of "it" decide. The held-out part shows combinations of words that training
never does, though it has no word that training lacks.

    corpus = demo_corpus(num_train=60_000, num_held_out=1_000, seed=1)
    corpus.held_out[0].english, corpus.held_out[0].french

The grammar makes more than a thousand million distinct pairs; ``generate`` yields as
many as are asked for.
"""

from headwise.data.demo_corpus.baseline import dictionary_baseline, pronoun_accuracy
from headwise.data.demo_corpus.pairs import Pair, PronounCase
from headwise.data.demo_corpus.splits import (
    NUM_DEV,
    NUM_HELD_OUT,
    NUM_TRAIN,
    DemoCorpus,
    demo_corpus,
    generate,
    is_held_out,
    write,
)

EXAMPLES = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "The letters that Alice wrote were long.",
    "Is this school old?",
    "What is the lawyer going to buy?",
    "There isn't a beautiful bird in the garden.",
)
"""Sentences to show translated. The first two differ in one word, and so in *il*."""

__all__ = [
    "EXAMPLES",
    "NUM_DEV",
    "NUM_HELD_OUT",
    "NUM_TRAIN",
    "DemoCorpus",
    "Pair",
    "PronounCase",
    "demo_corpus",
    "dictionary_baseline",
    "generate",
    "is_held_out",
    "pronoun_accuracy",
    "write",
]
