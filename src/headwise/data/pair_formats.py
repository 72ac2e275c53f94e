"""What the two sides of a pair are, and how a pair becomes two rows of tokens.

A task names the format of its data. Each row of tokens may be followed by END, which a
prepared corpus does not store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headwise.errors import DataError
from headwise.text.dialogue import ASSISTANT, split_turns
from headwise.text.trees import parse_tree, split_words, unescape_brackets
from headwise.text.vocabulary import END, PAD, UNKNOWN
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.text.tokenizer import TokenizerPair

SHARE_OF_TEXTS, SHARE_OF_LABELS = 50, 10
"""``dev_share`` of texts, of which each says much, and of single labels or numbers."""


class PairFormat(Protocol):
    """Turns raw pairs into rows of tokens."""

    @property
    def name(self) -> str:
        """The name in :data:`PAIR_FORMATS`."""
        ...

    @property
    def noun(self) -> str:
        """What a corpus is counted in, for messages: pair, line or picture."""
        ...

    @property
    def example_noun(self) -> str:
        """What the examples are that training takes: pair, window or picture."""
        ...

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether END follows the source row, and the target row."""
        ...

    @property
    def reads_pictures(self) -> bool:
        """Whether the source is a picture, whose patches are the rows of tokens."""
        ...

    @property
    def cuts_long_sources(self) -> bool:
        """Whether a long source becomes several pairs, each with the whole target."""
        ...

    @property
    def dev_share(self) -> int:
        """One in so many sources is held out for validation by default."""
        ...

    def encode(
        self, tokenizers: TokenizerPair, source: str, target: str
    ) -> tuple[list[int], list[int]]:
        """Return both rows of a pair; an empty row if a side has no text.

        Raises ``DataError`` for a pair that cannot be used, without its place.
        """
        ...


class TextPairs:
    """Text and text, such as a sentence and its translation, or a word and a label.

    A picture is a text too: a data URL (:mod:`headwise.text.pixels`).
    """

    def __init__(
        self,
        name: str,
        *,
        ends: tuple[bool, bool],
        noun: str = "pair",
        reads_pictures: bool = False,
        cuts_long_sources: bool = False,
        dev_share: int = SHARE_OF_TEXTS,
    ) -> None:
        self.name = name
        self.ends = ends
        self.noun = self.example_noun = noun
        self.reads_pictures = reads_pictures
        self.cuts_long_sources = cuts_long_sources
        self.dev_share = dev_share

    def encode(
        self, tokenizers: TokenizerPair, source: str, target: str
    ) -> tuple[list[int], list[int]]:
        """Tokenize each side by itself."""
        return tokenizers.source.encode(source), tokenizers.target.encode(target)


class TaggedWords:
    """Words and a tag for each, both with spaces between them.

    The target row has as many tokens as the source row: the tag of a word at its first
    token, ``PAD`` at its others.
    """

    name = "tagged words"
    noun = example_noun = "pair"
    ends = (True, False)
    reads_pictures = False
    cuts_long_sources = False
    dev_share = SHARE_OF_TEXTS

    def encode(
        self, tokenizers: TokenizerPair, source: str, target: str
    ) -> tuple[list[int], list[int]]:
        """Tokenize word by word; raise ``DataError`` unless each has one tag."""
        words, tags = source.split(), tokenizers.target.encode(target)
        if words and tags and len(words) != len(tags):
            raise DataError(
                f"there are {count_of(len(words), 'word')} and "
                f"{count_of(len(tags), 'tag')}; each word, up to a space, needs one"
            )
        source_row: list[int] = []
        target_row: list[int] = []
        for tokens, tag in zip(word_tokens(tokenizers, words), tags, strict=False):
            source_row += tokens
            target_row += [tag, *[PAD] * (len(tokens) - 1)]
        return source_row, target_row


def word_tokens(tokenizers: TokenizerPair, words: list[str]) -> list[list[int]]:
    """Return the tokens of each word, at least one: unknown if it has none."""
    return [tokenizers.source.encode(word) or [UNKNOWN] for word in words]


class Trees:
    """The words of a sentence, with spaces between them, and their tree in brackets.

    The source row is tokenized word by word; the target row is the linearized tree.
    """

    name = "trees"
    noun = example_noun = "pair"
    ends = (True, True)
    reads_pictures = False
    cuts_long_sources = False
    dev_share = SHARE_OF_TEXTS

    def encode(
        self, tokenizers: TokenizerPair, source: str, target: str
    ) -> tuple[list[int], list[int]]:
        """Tokenize both; raise ``DataError`` for a tree over other words."""
        words = split_words(source)
        if words and target.strip():
            check_words(words, parse_tree(target).words)
        source_row = [t for tokens in word_tokens(tokenizers, words) for t in tokens]
        return source_row, tokenizers.target.encode(target)


def check_words(words: list[str], of_tree: list[str]) -> None:
    """Raise ``DataError`` unless a tree has these words, brackets escaped or not."""
    if len(words) != len(of_tree):
        raise DataError(
            f"the sentence has {count_of(len(words), 'word')} and its tree "
            f"{len(of_tree):,}; they must be the same"
        )
    for number, (word, other) in enumerate(zip(words, of_tree, strict=True), start=1):
        if unescape_brackets(word) != unescape_brackets(other):
            raise DataError(
                f"word {number:,} is {word!r} in the sentence and {other!r} in its "
                "tree; they must be the same"
            )


class Documents:
    """Text alone: the target row of a document is its tokens and END."""

    name = "documents"
    noun = "line"
    example_noun = "window"
    ends = (False, False)
    reads_pictures = False
    cuts_long_sources = False
    dev_share = SHARE_OF_TEXTS

    def encode(
        self, tokenizers: TokenizerPair, source: str, target: str
    ) -> tuple[list[int], list[int]]:
        """Tokenize a whole document."""
        return [], [*tokenizers.target.encode(target), END]


class Dialogues:
    """The turns of a dialogue up to an answer, and the answer.

    The source row has the symbol of its role before each turn, END after each earlier
    answer, and the symbol of the assistant at its end; the target row is the answer.
    """

    name = "dialogues"
    noun = example_noun = "pair"
    ends = (False, True)
    reads_pictures = False
    cuts_long_sources = False
    dev_share = SHARE_OF_TEXTS

    def encode(
        self, tokenizers: TokenizerPair, source: str, target: str
    ) -> tuple[list[int], list[int]]:
        """Tokenize turn by turn."""
        if not source.strip():
            return [], tokenizers.target.encode(target)
        return prompt_tokens(tokenizers, source), tokenizers.target.encode(target)


def prompt_tokens(tokenizers: TokenizerPair, text: str) -> list[int]:
    """Return the tokens of the turns of a text, which an answer follows."""
    tokens: list[int] = []
    for role, turn in split_turns(text):
        tokens += [role_token(tokenizers, role), *tokenizers.target.encode(turn)]
        if role == ASSISTANT:
            tokens.append(END)
    return [*tokens, role_token(tokenizers, ASSISTANT)]


def role_token(tokenizers: TokenizerPair, role: str) -> int:
    """Return the token of the symbol of a role; ``text.symbols`` has all of them."""
    *_, token = tokenizers.target.encode(f"<{role}>")
    return token


TRANSLATION = TextPairs("text pairs", ends=(True, True))
LABELLED_TEXT = TextPairs(
    "labelled text",
    ends=(True, False),
    cuts_long_sources=True,
    dev_share=SHARE_OF_LABELS,
)
NUMBERED_TEXT = TextPairs(
    "text with numbers",
    ends=(True, False),
    cuts_long_sources=True,
    dev_share=SHARE_OF_LABELS,
)
TAGGED_WORDS = TaggedWords()
PICTURES = TextPairs(
    "labelled pictures",
    ends=(False, False),
    noun="picture",
    reads_pictures=True,
    dev_share=SHARE_OF_LABELS,
)
CAPTIONS = TextPairs(
    "captioned pictures", ends=(False, True), noun="picture", reads_pictures=True
)
DOCUMENTS = Documents()
TREES = Trees()
DIALOGUES = Dialogues()

TEXT_PAIRS = (TRANSLATION, LABELLED_TEXT, NUMBERED_TEXT)
"""Formats of which a side is the tokens of its text and nothing else."""

PAIR_FORMATS: dict[str, PairFormat] = {
    each.name: each
    for each in (
        *(TRANSLATION, LABELLED_TEXT, NUMBERED_TEXT, TAGGED_WORDS, DOCUMENTS, TREES),
        *(PICTURES, CAPTIONS, DIALOGUES),
    )
}
"""Every format by its name, as in ``prepared.json``."""
