"""The right-branching baseline of constituency parsing."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.errors import UsageError
from headwise.text.trees import Tree


def right_branching(
    words: Sequence[str], tags: Sequence[str] | None = None, *, label: str = "S"
) -> Tree:
    """Return the tree whose brackets all end at the last word: (S a (S b (S c d))).

    All phrases have the same label; words without ``tags`` have the tag ``XX``. English
    branches to the right, so that a parser has to be better than this.
    """
    if not words:
        raise UsageError("a tree needs at least 1 word, not 0")
    leaves = [
        Tree(tag, word)
        for tag, word in zip(tags or ["XX"] * len(words), words, strict=True)
    ]
    tree = Tree(label, tuple(leaves[-2:]))
    for leaf in reversed(leaves[:-2]):
        tree = Tree(label, (leaf, tree))
    return tree
