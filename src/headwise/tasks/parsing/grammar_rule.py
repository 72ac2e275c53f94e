"""The rule on scores that lets a search write well-formed trees only.

Letters used for sizes: R rows, one a hypothesis, V vocabulary, L tokens so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.decoding.rule_context import RuleContext
from headwise.errors import UsageError
from headwise.text.tree_grammar import CLOSE, OPEN, BracketState, TreeGrammar
from headwise.text.vocabulary import END, SPECIALS

TOKENS_AROUND = 3
"""Tokens of the shortest tree over several words besides these: a bracket and END."""


class GrammarRule:
    """Forbids each token after which there is no tree over exactly the words.

    A tree is also completed, with END after it, within the length limit of its
    sentence. One rule serves one search: it keeps the state of each hypothesis.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        *,
        words: Sequence[Sequence[int]],
        max_lengths: Sequence[int],
        max_unary: int,
    ) -> None:
        """Make the rule of a batch.

        ``pieces`` are those of all tokens; ``words`` are the tokens of the words of
        each sentence, one for each, and ``max_lengths``, which counts END, its limit.
        """
        for sentence, limit in zip(words, max_lengths, strict=True):
            count = len(sentence)
            if limit < count + TOKENS_AROUND:
                raise UsageError(
                    f"a tree over {count:,} words takes {count + TOKENS_AROUND:,} "
                    f"tokens or more, and the most is {limit:,}; a larger "
                    "decoding.max_length_offset would do"
                )
        self._grammar = TreeGrammar(max_unary)
        self._pieces = pieces
        self._words = words
        self._limits = max_lengths
        ids = {piece: token for token, piece in enumerate(pieces)}
        closing = {each[1:]: ids[each] for each in pieces if each.startswith(CLOSE)}
        self._closing = closing
        opening = [
            ids[each]
            for each in pieces
            if each.startswith(OPEN) and each[1:] in closing
        ]
        self._is_opening = torch.zeros(len(pieces), dtype=torch.bool)
        self._is_opening[opening] = True
        self._is_leaf = torch.tensor(
            [
                token >= len(SPECIALS) and not piece.startswith((OPEN, CLOSE))
                for token, piece in enumerate(pieces)
            ]
        )
        self._length = 0
        self._states: dict[tuple[int, bytes], BracketState | None] = {}
        self._previous: dict[tuple[int, bytes], BracketState | None] = {}

    def __call__(self, scores: Tensor, context: RuleContext) -> Tensor:
        """Return scores [R V] with -inf for what may not follow each row.

        The word that may follow gets the probability of all words: which one it is was
        never in question, only whether a word comes before the next bracket.
        """
        tokens = context.tokens.cpu()
        length = tokens.shape[1]
        if length != self._length:
            self._previous, self._states = self._states, {}
            self._length = length
        opens: list[int] = []
        leaves: list[tuple[int, int]] = []  # rows with the word that may follow
        rows: list[int] = []
        others: list[int] = []  # the allowed tokens of these rows besides opening ones
        sentences = context.sentences.tolist()
        for row, (sentence, prefix) in enumerate(
            zip(sentences, tokens.numpy(), strict=True)
        ):
            state = self._state(sentence, prefix)
            if state is None:  # of no search: a row that stands for a missing one
                rows.append(row)
                others.append(END)
                continue
            allowed = self._grammar.allowed(state)
            if allowed.open and self._has_room(state, self._limits[sentence] - length):
                opens.append(row)
            if allowed.word:
                leaves.append((row, self._words[sentence][-state.words_left]))
            for may_follow, token in (
                (allowed.close is not None, self._closing.get(allowed.close or "")),
                (allowed.end, END),
            ):
                if may_follow and token is not None:
                    rows.append(row)
                    others.append(token)
        is_allowed = torch.zeros(scores.shape, dtype=torch.bool)
        is_allowed[opens] = self._is_opening
        is_allowed[rows, others] = True
        ruled = scores.masked_fill(~is_allowed.to(scores.device), -math.inf)
        if leaves:
            where, words = torch.tensor(leaves, device=scores.device).T
            total = scores[where][:, self._is_leaf.to(scores.device)].logsumexp(dim=1)
            ruled[where, words] = total
        return ruled

    @staticmethod
    def _has_room(state: BracketState, tokens_left: int) -> bool:
        """Return whether a bracket may open: the tree and END must fit after it."""
        if state.innermost is None:  # the first bracket, which is counted already
            return True
        return state.min_tokens_left + 3 <= tokens_left  # two brackets more, and END

    def _state(self, sentence: int, prefix: NDArray[np.int64]) -> BracketState | None:
        """Return the state after a prefix; None if it is the start of no tree."""
        key = sentence, prefix.tobytes()
        if key not in self._states:
            before = sentence, prefix[:-1].tobytes()
            if len(prefix) and before in self._previous:
                state = self._advance(self._previous[before], prefix[-1])
            else:
                state = self._walk(sentence, prefix.tolist())
            self._states[key] = state
        return self._states[key]

    def _walk(self, sentence: int, tokens: Sequence[int]) -> BracketState | None:
        """Return the state after tokens that this rule has not seen one by one."""
        state: BracketState | None = self._grammar.start(len(self._words[sentence]))
        for token in tokens:
            state = self._advance(state, token)
        return state

    def _advance(self, state: BracketState | None, token: int) -> BracketState | None:
        if state is None:
            return None
        try:
            return self._grammar.advance(state, self._pieces[token])
        except UsageError:
            return None
