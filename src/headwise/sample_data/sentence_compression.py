"""Summaries of sentences, derived from their constituency trees.

What is left of a sentence without its modifiers is its shortest summary: prepositional
and adverb phrases, what stands in parentheses, clauses that modify a noun and clauses
of time, reason or condition are left out; subject, verb, objects and that-clauses stay.

    However , our results show that the gene of these mice is expressed in limbs .
    our results show that the gene is expressed .
"""

from __future__ import annotations

from collections.abc import Iterable

from headwise.text.trees import Tree, unescape_brackets

MODIFIERS = frozenset({"PP", "ADVP", "PRN", "SBAR", "RRC", "FRAG"})
"""Phrases that are left out."""

IN_NOUNS = frozenset({"S", "VP"})
"""Phrases that are left out inside of a noun phrase: reduced relative clauses."""

COMPLEMENTS = frozenset({"that", "whether"})
"""First words of a clause that is the object of a verb, which stays."""

OPENING, CLOSING = "([{", ")]}"
PAUSES = frozenset(",;:—–-")

LEAST_WORDS, LEAST_SUMMARY = 12, 4
MOST_KEPT = 0.7
"""Share of the words that a summary may have at most."""


def without_modifiers(tree: Tree) -> list[str]:
    """Return the words of a normalised tree that are left without its modifiers."""
    return tidied(_kept(tree, parent=""))


def compression(tree: Tree) -> str | None:
    """Return the sentence of a normalised tree without its modifiers.

    None if it was short, or hardly anything was left out, or left.
    """
    words = without_modifiers(tree)
    of_all = len(tree.words)
    if of_all < LEAST_WORDS or not LEAST_SUMMARY <= len(words) <= MOST_KEPT * of_all:
        return None
    return " ".join(words)


def pairs(trees: Iterable[Tree]) -> list[tuple[str, str]]:
    """Return the sentences that have a summary, each with it."""
    found = ((tree, compression(tree)) for tree in trees)
    return [
        (" ".join(map(unescape_brackets, tree.words)), summary)
        for tree, summary in found
        if summary is not None
    ]


def _kept(tree: Tree, *, parent: str) -> list[str]:
    if tree.is_preterminal:
        return [unescape_brackets(tree.word)]
    if _is_modifier(tree, parent):
        return []
    return [word for each in tree.subtrees for word in _kept(each, parent=tree.label)]


def _is_modifier(tree: Tree, parent: str) -> bool:
    if tree.label == "SBAR" and parent == "VP":
        return tree.words[0].lower() not in COMPLEMENTS
    return tree.label in MODIFIERS or (parent == "NP" and tree.label in IN_NOUNS)


def tidied(words: Iterable[str]) -> list[str]:
    """Return words without parentheses, and without punctuation that lost its phrase.

    That is a pause at the beginning, or before another one or the end.
    """
    depth, outside = 0, []
    for word in words:
        depth += word in OPENING
        if not depth:
            outside.append(word)
        depth = max(0, depth - (word in CLOSING))
    ends = [*outside, "."][1:]
    tidy: list[str] = []
    for word, after in zip(outside, ends, strict=True):
        lost = word in PAUSES and (not tidy or after in PAUSES or after in ".?!")
        if not lost:
            tidy.append(word)
    return tidy
