"""Which tokens may follow in a linearized tree: the grammar of constrained decoding.

After each prefix, ``TreeGrammar`` says which tokens may follow so that the tree can
still be completed over exactly the words of the sentence, with at most ``max_unary``
brackets around the same words. States are small immutable values that share their
stacks: each hypothesis of a beam keeps its own. A step takes constant time.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from headwise.errors import UsageError
from headwise.wording import count_of

OPEN, CLOSE = "(", ")"
"""First character of a bracket's tokens, as in ``(NP`` and ``)NP``."""

_NO_CHILD = -1


class AllowedTokens(NamedTuple):
    """Kinds of tokens that may follow a prefix."""

    open: bool
    """``(LABEL``, whatever the label."""

    word: bool
    """The next word, or the symbol in its place."""

    close: str | None
    """The label of ``)LABEL``: that of the innermost open bracket; None if none may."""

    end: bool
    """The end of the sequence."""


class OpenBracket(NamedTuple):
    """An open bracket, on top of those around it."""

    label: str
    depth: int
    """Open brackets, with this one."""

    run: int
    """Of these, the innermost ones that began at the same word as this one."""

    words_around: int
    """Further words that the other open brackets need, to keep within ``max_unary``."""

    parent: OpenBracket | None


class BracketState(NamedTuple):
    """What of a prefix decides which tokens may follow."""

    words_left: int
    innermost: OpenBracket | None
    """The innermost open bracket; None before the first and after the last token."""

    unary: int
    """-1 if the innermost bracket is empty; n if its only child is a phrase whose n
    outermost brackets are around the same words; else 0."""

    @property
    def is_complete(self) -> bool:
        """Whether the prefix is a tree over all words."""
        return self.innermost is None and self.unary != _NO_CHILD

    @property
    def min_tokens_left(self) -> int:
        """Fewest tokens that complete the tree."""
        if self.innermost is not None:
            return self.words_left + self.innermost.depth
        if self.is_complete:
            return 0
        return 1 if self.words_left == 1 else self.words_left + 2


class TreeGrammar:
    """Well-formed linearized trees; ``max_unary=None`` does not bound unary chains."""

    def __init__(self, max_unary: int | None = None) -> None:
        if max_unary is not None and max_unary < 1:
            raise UsageError(f"max_unary must be 1 or more, or None, not {max_unary}")
        self.max_unary = max_unary
        self._most = sys.maxsize if max_unary is None else max_unary

    def start(self, num_words: int) -> BracketState:
        """Return the state before the first token of a tree over that many words."""
        if num_words < 1:
            raise UsageError(f"a tree needs at least 1 word, not {num_words}")
        return BracketState(num_words, None, _NO_CHILD)

    def allowed(self, state: BracketState) -> AllowedTokens:
        """Return which tokens may follow."""
        left, bracket, unary = state
        if bracket is None:
            is_start = not state.is_complete
            return AllowedTokens(is_start, is_start and left == 1, None, not is_start)
        # Brackets that began at the same word need a further word after each
        # `max_unary` of them, or they would be a longer unary chain.
        after_word = bracket.words_around + self._groups(bracket.run) - 1
        if unary == _NO_CHILD:
            after_open = bracket.words_around + self._groups(bracket.run + 1)
        else:
            after_open = after_word + 1
        covers = bracket.parent is not None or left == 0
        may_close = covers and _NO_CHILD < unary < self._most
        return AllowedTokens(
            after_open <= left,
            after_word < left,
            bracket.label if may_close else None,
            False,
        )

    def advance(self, state: BracketState, token: str) -> BracketState:
        """Return the state after ``token``; ``UsageError`` if it may not follow."""
        allowed = self.allowed(state)
        left, bracket, unary = state
        if token.startswith(OPEN) and allowed.open:
            return BracketState(left, self._push(bracket, unary, token[1:]), _NO_CHILD)
        if token.startswith(CLOSE) and token[1:] == allowed.close:
            assert bracket is not None
            # Closed as the first child, it may be the only one.
            is_first = bracket.run > 1 or bracket.parent is None
            return BracketState(left, bracket.parent, unary + 1 if is_first else 0)
        if not token.startswith((OPEN, CLOSE)) and allowed.word:
            return BracketState(left - 1, bracket, 0)
        raise UsageError(
            f"{token!r} may not follow; expected {describe(state, allowed)}"
        )

    def _push(self, bracket: OpenBracket | None, unary: int, label: str) -> OpenBracket:
        if bracket is None:
            return OpenBracket(label, 1, 1, 0, None)
        if unary == _NO_CHILD:
            run, words_around = bracket.run + 1, bracket.words_around
        else:
            run, words_around = 1, bracket.words_around + self._groups(bracket.run) - 1
        return OpenBracket(label, bracket.depth + 1, run, words_around, bracket)

    def _groups(self, run: int) -> int:
        """Return into how many unary chains ``run`` brackets must be divided."""
        return -(-run // self._most)


def describe(state: BracketState, allowed: AllowedTokens) -> str:
    """Return in words which tokens may follow."""
    kinds = []
    if allowed.open:
        kinds.append("'(' with a label")
    if allowed.word:
        kinds.append(f"a word ({count_of(state.words_left, 'word')} left)")
    if allowed.close is not None:
        kinds.append(f"'){allowed.close}'")
    if allowed.end:
        kinds.append("the end")
    return " or ".join(kinds)
