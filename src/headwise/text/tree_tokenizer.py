"""Tree tokenizer: a constituency tree in brackets is linearized, words included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from headwise.errors import DataError, HeadwiseError
from headwise.text.linearized_trees import WORD, linearize, parse_linearized
from headwise.text.settings import TextSettings
from headwise.text.tree_grammar import CLOSE, OPEN
from headwise.text.trees import parse_tree
from headwise.text.vocabulary import SPECIALS, Vocabulary
from headwise.text.vocabulary_tokenizer import NOT_TEXT, VocabularyTokenizer

MIN_COUNT = 2
"""Words that occur less often in the training trees have no token of their own."""


class TreeTokenizer(VocabularyTokenizer):
    """Tokens are ``(LABEL``, ``)LABEL``, and the words, or ``XX`` for a rare one.

    What a decoder has written so far then says which word comes next; with one symbol
    for all words it would have to count them. Tags have no tokens. The brackets of a
    label that was not in the training trees are unknown tokens.
    """

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> TreeTokenizer:
        """Count labels and words of the trees in ``lines``, one tree a line.

        Both brackets of a label get an entry, or none does: the rarest labels have
        none if ``vocab_size`` is too small for all.
        """
        counts: Counter[str] = Counter()
        words: Counter[str] = Counter()
        is_empty = True
        for line in lines:
            if line.strip():
                is_empty = False
                tree = parse_tree(line)
                words.update(tree.words)
                counts.update(
                    each[1:] for each in linearize(tree) if each.startswith(OPEN)
                )
        if is_empty:
            raise DataError(
                "a tokenizer cannot be trained: there is no tree in the training text"
            )
        most = max(0, vocab_size - len(SPECIALS) - 1) // 2
        ranked = sorted(counts, key=lambda label: (-counts[label], label))
        brackets = [side + label for label in ranked[:most] for side in (OPEN, CLOSE)]
        notes = []
        if left_out := ranked[most:]:
            notes.append(
                f"labels too rare to get an entry: {len(left_out):,} "
                f"(vocab_size={vocab_size:,})"
            )
        # Words that occur once are left to XX, which must be learned from something.
        usual = [
            word
            for word in sorted(words, key=lambda word: (-words[word], word))
            if words[word] >= MIN_COUNT and word not in (*SPECIALS, WORD)
        ]
        room = max(0, vocab_size - len(SPECIALS) - 1 - len(brackets))
        pieces = [*SPECIALS, WORD, *brackets, *usual[:room]]
        return cls(Vocabulary(pieces), settings, notes)

    @classmethod
    def open(cls, file: Path, settings: TextSettings) -> TreeTokenizer:
        """Read brackets written by ``save``; symbols of the text are none of them."""
        return cls(Vocabulary.open(file), settings)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a tree in brackets; none for a blank text.

        Raises ``DataError`` for a text that is not one tree.
        """
        if not text.strip():
            return []
        return [
            self.vocabulary.id(token)
            if token.startswith((OPEN, CLOSE))
            else self.word_id(token)
            for token in linearize(parse_tree(text), leaves="word")
        ]

    def word_id(self, word: str) -> int:
        """Return the id of a word, brackets escaped, or of ``XX`` for a rare one."""
        known = word in self.vocabulary and word not in SPECIALS
        return self.vocabulary.id(word if known else WORD)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the tree in brackets, with ``XX`` for each tag and each rare word.

        Tokens that are no tree are returned as they are, without pad, start and end.
        """
        tokens = self.pieces([each for each in ids if each not in NOT_TEXT])
        try:
            words = [each for each in tokens if not each.startswith((OPEN, CLOSE))]
            return str(parse_linearized(tokens, words, leaves="word"))
        except HeadwiseError:
            return " ".join(tokens)
