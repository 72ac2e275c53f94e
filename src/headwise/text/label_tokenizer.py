"""Label tokenizer: each line is one label, and each label one token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from headwise.errors import DataError
from headwise.text.normalization import one_line
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import SPECIALS, Vocabulary
from headwise.text.vocabulary_tokenizer import NOT_TEXT, VocabularyTokenizer
from headwise.wording import count_of

MAX_LABELS = 10_000
"""Most different labels that are accepted: beyond, it is probably text."""

MAX_RARE_LABELS = 100
"""Most labels that are accepted if there are not twice as many examples."""

NUM_SHOWN = 10
"""Labels that a message lists at most."""


class UnknownLabelError(DataError):
    """A label, or tag, that no training example has."""


class LabelTokenizer(VocabularyTokenizer):
    """Whole lines are tokens; a label that was not in the training text is refused.

    Labels are compared without white space around them, and each run of white space
    inside counts as one space. Their order is that of their code points.
    """

    @classmethod
    def train(
        cls, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> LabelTokenizer:
        """Collect the labels of ``lines``; ``vocab_size`` does not limit them.

        Raises ``DataError`` if there is only one label, or far too many, as where the
        columns are swapped.
        """
        counts: Counter[str] = Counter()
        for line in lines:
            if label := _label(line):
                counts[label] += 1
            if len(counts) > MAX_LABELS:
                raise DataError(
                    f"there are more than {MAX_LABELS:,} different labels, such as "
                    f"{_shown(list(counts)[-3:])}; is this the column of the labels?"
                )
        if len(counts) > MAX_RARE_LABELS and counts.total() < 2 * len(counts):
            raise DataError(
                f"{counts.total():,} examples have {len(counts):,} different labels, "
                f"such as {_shown(list(counts)[:3])}; is this the column of the "
                "labels? --columns 2 1 swaps them"
            )
        if len(counts) == 1:
            ((label, count),) = counts.items()
            raise DataError(
                f"the only label of {count_of(count, 'example')} for training is "
                f"{label!r}; to learn to tell labels apart takes two or more"
            )
        # A label may be called like a special symbol, which stands for itself.
        labels = sorted(counts.keys() - {*SPECIALS})
        return cls(Vocabulary([*SPECIALS, *labels]), settings)

    @classmethod
    def open(cls, file: Path, settings: TextSettings) -> LabelTokenizer:
        """Read labels written by ``save``; symbols of the text are none of them."""
        return cls(Vocabulary.open(file), settings)

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels; the token of label k is ``len(SPECIALS) + k``."""
        return self.vocabulary.pieces[len(SPECIALS) :]

    def encode(self, text: str) -> list[int]:
        """Return the one token of a label, none for a blank line.

        Raises ``UnknownLabelError`` for another label.
        """
        label = _label(text)
        if not label:
            return []
        if label in SPECIALS:
            raise UnknownLabelError(
                f"the label {label!r} is the name of a special symbol, so it needs "
                f"another one; the labels are: {_shown(self.labels) or 'none'}"
            )
        if label not in self.vocabulary:
            raise UnknownLabelError(
                f"the label {label!r} is not among those of the training examples: "
                f"{_shown(self.labels)}"
            )
        return [self.vocabulary.id(label)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the labels of ``ids``, with a space between them."""
        return " ".join(self.pieces([each for each in ids if each not in NOT_TEXT]))


def _label(text: str) -> str:
    return " ".join(one_line(text).split())


def _shown(labels: Sequence[str]) -> str:
    """Return the first labels as a list for a message."""
    shown = ", ".join(repr(label[:40]) for label in labels[:NUM_SHOWN])
    more = len(labels) - NUM_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown
