"""Tokenizers of source and target: train, save and open.

A tokenizer folder has ``tokenizer.json`` (settings; size and SHA-256 of each file) and
one file per vocabulary: ``spm.model`` or ``vocabulary.json`` for both sides, or one for
each, prefixed ``source.`` and ``target.``. With placeholders there is
``known_words.json`` too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from headwise.errors import ModelError, SettingsError
from headwise.settings import as_table, read
from headwise.storage import read_json, resource_error, sha256, write_json
from headwise.text.character_tokenizer import CharacterTokenizer
from headwise.text.known_words import FILE as KNOWN_WORDS
from headwise.text.known_words import KnownWords
from headwise.text.label_tokenizer import LabelTokenizer
from headwise.text.number_tokenizer import NumberTokenizer
from headwise.text.patch_tokenizer import PatchTokenizer
from headwise.text.sentencepiece_tokenizer import (
    SentencePieceTokenizer,
    train_bpe,
    train_unigram,
)
from headwise.text.settings import TARGET_ONLY, TextSettings, TokenizerName
from headwise.text.space_tokenizer import SpaceTokenizer
from headwise.text.tree_tokenizer import TreeTokenizer
from headwise.text.word_tokenizer import WordTokenizer

DESCRIPTION = "tokenizer.json"
FORMAT = 1

Pairs = Iterable[tuple[str, str]]


class Tokenizer(Protocol):
    """Converts text to ids and back. ``encode`` never returns pad, start or end."""

    notes: tuple[str, ...]
    """Messages from training; empty for an opened tokenizer."""

    @property
    def size(self) -> int:
        """Size of the vocabulary, special symbols included."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, without start and end."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids`` as one line, without pad, start and end."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the piece of each id."""

    def save(self, file: Path) -> None:
        """Write a file for ``TOKENIZERS[kind].open``."""


class Train(Protocol):
    """Trains a tokenizer on lines of text."""

    def __call__(
        self, lines: Iterable[str], *, vocab_size: int, settings: TextSettings
    ) -> Tokenizer:
        """Return a tokenizer with at most ``vocab_size`` entries."""


@dataclass(frozen=True)
class TokenizerKind:
    """A kind of tokenizer: how to train and open it, and its file name."""

    train: Train
    open: Callable[[Path, TextSettings], Tokenizer]
    file: str


TOKENIZERS: dict[TokenizerName, TokenizerKind] = {
    "bpe": TokenizerKind(train_bpe, SentencePieceTokenizer.open, "spm.model"),
    "unigram": TokenizerKind(train_unigram, SentencePieceTokenizer.open, "spm.model"),
    "words": TokenizerKind(WordTokenizer.train, WordTokenizer.open, "vocabulary.json"),
    "characters": TokenizerKind(
        CharacterTokenizer.train, CharacterTokenizer.open, "vocabulary.json"
    ),
    "spaces": TokenizerKind(
        SpaceTokenizer.train, SpaceTokenizer.open, "vocabulary.json"
    ),
    "numbers": TokenizerKind(
        NumberTokenizer.train, NumberTokenizer.open, "numbers.json"
    ),
    "labels": TokenizerKind(LabelTokenizer.train, LabelTokenizer.open, "labels.json"),
    "patches": TokenizerKind(PatchTokenizer.train, PatchTokenizer.open, "patches.json"),
    "trees": TokenizerKind(TreeTokenizer.train, TreeTokenizer.open, "brackets.json"),
}


def train_tokenizer(
    kind: TokenizerName,
    lines: Iterable[str],
    *,
    vocab_size: int,
    settings: TextSettings,
) -> Tokenizer:
    """Train one tokenizer; the same lines give the same tokenizer."""
    return TOKENIZERS[kind].train(lines, vocab_size=vocab_size, settings=settings)


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of both sides; with a joint vocabulary, the same one twice."""

    source: Tokenizer
    target: Tokenizer
    settings: TextSettings
    known_words: KnownWords | None = None
    """Words of the training sources; None without placeholders, or of a model that was
    prepared before they were kept."""

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.settings.joint

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages from training."""
        if self.joint:
            return self.source.notes
        return (
            *(f"source tokenizer: {note}" for note in self.source.notes),
            *(f"target tokenizer: {note}" for note in self.target.notes),
        )

    def save(self, folder: Path) -> None:
        """Write both tokenizers and their settings into ``folder``."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, tokenizer in self._by_file().items():
                tokenizer.save(folder / name)
            if self.known_words is not None:
                self.known_words.save(folder / KNOWN_WORDS)
        except OSError as error:
            raise resource_error(error, folder) from error
        files = {
            name: {"size": tokenizer.size, "sha256": sha256(folder / name)}
            for name, tokenizer in self._by_file().items()
        }
        if self.known_words is not None:
            size, path = len(self.known_words.words), folder / KNOWN_WORDS
            files[KNOWN_WORDS] = {"size": size, "sha256": sha256(path)}
        write_json(
            folder / DESCRIPTION,
            {"format": FORMAT, "settings": as_table(self.settings), "files": files},
        )

    def _by_file(self) -> dict[str, Tokenizer]:
        source, target = _file_names(self.settings)
        return {source: self.source, target: self.target}


@dataclass(frozen=True)
class GivenTokenizers:
    """Tokenizers that need not be trained: those of models to start from."""

    source: Tokenizer | None = None
    target: Tokenizer | None = None
    known_words: KnownWords | None = None
    """Words that such a model has learned to translate already."""

    def digests(self) -> dict[str, str]:
        """Return a hash of each tokenizer that is given, by its side."""
        sides = {"source": self.source, "target": self.target}
        return {
            side: digest(tokenizer)
            for side, tokenizer in sides.items()
            if tokenizer is not None
        }


def digest(tokenizer: Tokenizer) -> str:
    """Return the SHA-256 of the file of a tokenizer."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer"
        tokenizer.save(path)
        return sha256(path)


def train_tokenizers(
    pairs: Callable[[], Pairs],
    settings: TextSettings,
    *,
    seed: int,
    given: GivenTokenizers | None = None,
) -> TokenizerPair:
    """Train the tokenizers of both sides on the pairs of ``pairs()``.

    Those that are ``given`` are not trained; they must be of the kinds of ``settings``.
    If there are more than ``settings.sample_pairs``, a random sample is used, except
    for labels, numbers and trees: all of them are needed.
    """
    given = given or GivenTokenizers()
    source, target = given.source, given.target
    if settings.joint:
        source = target = target or source
    if source is not None and target is not None:
        return TokenizerPair(source, target, settings)
    sample = _sample(pairs(), settings.sample_pairs, seed)
    sources = (source for source, _ in sample)
    needs_all = settings.target_kind in TARGET_ONLY
    targets = (target for _, target in (pairs() if needs_all else sample))
    size = settings.vocab_size
    if settings.joint:
        tokenizer = train_tokenizer(
            settings.source_kind,
            chain(sources, targets),
            vocab_size=size,
            settings=settings,
        )
        return TokenizerPair(tokenizer, tokenizer, settings)
    source = source or train_tokenizer(
        settings.source_kind, sources, vocab_size=size, settings=settings
    )
    target = target or train_tokenizer(
        settings.target_kind,
        targets,
        vocab_size=settings.target_vocab_size or size,
        settings=settings,
    )
    return TokenizerPair(source, target, settings)


def open_tokenizers(folder: Path) -> TokenizerPair:
    """Open tokenizers written by ``save``; raise ``ModelError`` if damaged."""
    settings, files = _read_description(folder)
    names = _file_names(settings)
    words = None
    if KNOWN_WORDS in files:
        _check(folder / KNOWN_WORDS, files)
        words = KnownWords.open(folder / KNOWN_WORDS)
    source = _open(folder / names[0], settings.source_kind, settings, files)
    if settings.joint:
        return TokenizerPair(source, source, settings, words)
    target = _open(folder / names[1], settings.target_kind, settings, files)
    return TokenizerPair(source, target, settings, words)


def _read_description(folder: Path) -> tuple[TextSettings, dict[str, Any]]:
    path = folder / DESCRIPTION
    table = read_json(path)
    if not isinstance(table, dict) or "format" not in table:
        raise ModelError(f"{path} is not a description of tokenizers")
    if table["format"] != FORMAT:
        raise ModelError(
            f"{path} has format {table['format']!r}; this version reads format "
            f"{FORMAT}: use a newer headwise"
        )
    settings, files = table.get("settings"), table.get("files")
    if not isinstance(settings, dict) or not isinstance(files, dict):
        raise ModelError(f"{path} lacks the tables settings and files")
    try:
        return read(TextSettings, settings, "settings."), files
    except SettingsError as error:
        raise ModelError(f"{path} cannot be used:\n{error}") from None


def _open(
    path: Path, kind: TokenizerName, settings: TextSettings, files: dict[str, Any]
) -> Tokenizer:
    """Open one tokenizer after checking its SHA-256."""
    facts = _check(path, files)
    tokenizer = TOKENIZERS[kind].open(path, settings)
    if tokenizer.size != facts.get("size"):
        raise ModelError(
            f"{path} has {tokenizer.size:,} entries, but {DESCRIPTION} says "
            f"{facts.get('size')!r}"
        )
    return tokenizer


def _check(path: Path, files: dict[str, Any]) -> dict[str, Any]:
    """Return what is listed of a file; raise ``ModelError`` if it is another one."""
    facts = files.get(path.name)
    if not isinstance(facts, dict):
        raise ModelError(f"{path.with_name(DESCRIPTION)} does not list {path.name}")
    if not path.is_file():
        raise ModelError(f"{path} is missing; copy the folder again")
    if sha256(path) != facts.get("sha256"):
        raise ModelError(
            f"{path} is not the file listed in {DESCRIPTION} (SHA-256 differs); it was "
            "damaged or replaced: copy the folder again"
        )
    return facts


def _file_names(settings: TextSettings) -> tuple[str, str]:
    source = TOKENIZERS[settings.source_kind].file
    target = TOKENIZERS[settings.target_kind].file
    if settings.joint:
        return source, source
    return f"source.{source}", f"target.{target}"


def _sample(pairs: Pairs, most: int, seed: int) -> list[tuple[str, str]]:
    """Sample ``most`` pairs uniformly in one pass (reservoir sampling)."""
    generator = random.Random(seed)
    kept: list[tuple[str, str]] = []
    for number, pair in enumerate(pairs):
        if number < most:
            kept.append(pair)
            continue
        index = int(generator.random() * (number + 1))
        if index < most:
            kept[index] = pair
    return kept
