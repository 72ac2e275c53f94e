"""Trees as sequences of tokens, for sequence-to-sequence parsing (Section 6.3).

The form is that of Vinyals et al., "Grammar as a Foreign Language" (2015):

    (S (NP XX XX )NP (VP XX )VP )S

Closing brackets repeat their label, preterminals are left out, and each word is one
symbol, since the words are known from the source sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from headwise.errors import DataError, UsageError
from headwise.text.tree_grammar import CLOSE, OPEN, TreeGrammar, describe
from headwise.text.trees import Tree
from headwise.wording import count_of

WORD = "XX"
"""The symbol for a word, and the tag of a word whose tag is unknown."""

Leaves = Literal["symbol", "word", "tag"]
"""What stands for a word: ``XX``, the word itself, or its part-of-speech tag."""


def linearize(tree: Tree, *, leaves: Leaves = "symbol") -> list[str]:
    """Return the tokens of ``tree``."""
    _check_leaves(leaves)
    tokens = []
    for event, node in tree.walk():
        if event == "open":
            tokens.append(OPEN + node.label)
        elif event == "close":
            tokens.append(CLOSE + node.label)
        else:
            tokens.append(
                {"symbol": WORD, "word": node.word, "tag": node.label}[leaves]
            )
    return tokens


def parse_linearized(
    tokens: Sequence[str],
    words: Sequence[str],
    *,
    leaves: Leaves = "symbol",
    tags: Sequence[str] | None = None,
) -> Tree:
    """Return the tree over ``words`` that ``tokens`` are the linearization of.

    ``words`` have brackets escaped, as words of trees do. Tags are those of the tokens
    if ``leaves="tag"``, else ``tags``, or ``XX`` without them.

    Raises ``DataError`` with the number of the token, counted from 1, and what was
    expected, if the tokens are no tree over exactly these words.
    """
    _check_leaves(leaves)
    if tags is not None and len(tags) != len(words):
        raise UsageError(
            f"each word needs a tag: there are {count_of(len(words), 'word')} and "
            f"{count_of(len(tags), 'tag')}"
        )
    grammar = TreeGrammar()
    state = grammar.start(len(words))
    levels: list[list[Tree]] = [[]]  # finished children of each open bracket
    for number, token in enumerate(tokens, start=1):
        position = len(words) - state.words_left
        try:
            state = grammar.advance(state, token)
        except UsageError as error:
            raise DataError(f"token {number:,}: {error}") from None
        if token.startswith(OPEN):
            levels.append([])
        elif token.startswith(CLOSE):
            children = levels.pop()
            levels[-1].append(Tree(token[1:], tuple(children)))
        else:
            expected = {"symbol": WORD, "word": words[position], "tag": token}[leaves]
            if token != expected:
                raise DataError(
                    f"token {number:,}: {token!r} is no bracket; expected {expected!r} "
                    f"for word {position + 1:,} of {len(words):,}"
                )
            tag = token if leaves == "tag" else tags[position] if tags else WORD
            levels[-1].append(Tree(tag, words[position]))
    if not state.is_complete:
        raise DataError(
            f"the sequence ends after {count_of(len(tokens), 'token')}; expected "
            f"{describe(state, grammar.allowed(state))}"
        )
    (tree,) = levels[0]
    return tree


def _check_leaves(leaves: str) -> None:
    if leaves not in get_args(Leaves):
        raise UsageError(f"leaves must be one of {get_args(Leaves)}, not {leaves!r}")
