"""Tree tokenizer: a constituency tree in brackets is linearized, without its words."""

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


class TreeTokenizer(VocabularyTokenizer):
    """Tokens are ``(LABEL``, ``)LABEL``, and ``XX`` for each word.

    Words and their tags have no tokens: words are known from the source sentence. The
    brackets of a label that was not in the training trees are unknown tokens.
    """

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> TreeTokenizer:
        """Collect the labels of the trees in ``lines``, one tree a line.

        Both brackets of a label get an entry, or none does: the rarest labels have
        none if ``vocab_size`` is too small for all.
        """
        counts: Counter[str] = Counter()
        is_empty = True
        for line in lines:
            if line.strip():
                is_empty = False
                tokens = linearize(parse_tree(line))
                counts.update(each[1:] for each in tokens if each.startswith(OPEN))
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
        return cls(Vocabulary([*SPECIALS, WORD, *brackets]), settings, notes)

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
        return [self.vocabulary.id(token) for token in linearize(parse_tree(text))]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the tree in brackets, with ``XX`` for each word and its tag.

        Tokens that are no tree are returned as they are, without pad, start and end.
        """
        tokens = self.pieces([each for each in ids if each not in NOT_TEXT])
        try:
            return str(parse_linearized(tokens, [WORD] * tokens.count(WORD)))
        except HeadwiseError:
            return " ".join(tokens)
