"""Prepare text alone, for language models: documents as one row of tokens.

Two passes: the first checks and counts every line, the second writes tokens. The end of
each corpus is held out for validation, unless there is a validation corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from headwise.data.corpus_reader import Note, read_documents
from headwise.data.npy_files import NpyWriter
from headwise.data.pair_formats import DOCUMENTS
from headwise.data.prepared import CorpusFacts, PreparedFacts, SplitFacts
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.errors import DataError
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import GivenTokenizers, TokenizerPair, train_tokenizers
from headwise.text.vocabulary import END
from headwise.wording import count_of

HELD_OUT_SHARE = 20
"""One in so many lines, at the end of each corpus, is held out by default."""

NUM_PROMPTS = 200
"""Validation lines that are kept as text, for samples."""

PROMPT_CHARACTERS = 200
"""Characters of such a line, at most: of a long one the first words are kept."""


def write_documents(
    data: DataSettings,
    text: TextSettings,
    draft: Path,
    given: GivenTokenizers,
    *,
    seed: int,
    name: str,
    say: Note,
) -> PreparedFacts:
    """Write the documents of ``data`` into ``draft``; return the counts."""
    lines = [_count(each, say) for each in data.corpora]
    kept = [_num_kept(each, data) for each in lines]
    tokenizers = train_tokenizers(
        lambda: (
            ("", line)
            for corpus, count in zip(data.corpora, kept, strict=True)
            for line, _ in _first(corpus, count)
        ),
        text,
        seed=seed,
        given=given,
    )
    for each in tokenizers.notes:
        say(each)
    tokenizers.save(draft / "tokenizer")
    train, dev = _write_tokens(data, tokenizers, draft, kept)
    if min(train[-1], dev[-1]) < 2:
        raise DataError(
            f"there are {train[-1]:,} tokens for training and {dev[-1]:,} for "
            "validation; each needs two or more: give more text, or a validation set "
            "(data.dev)"
        )
    corpora = tuple(
        _corpus_facts(corpus, count, of_train, train[number])
        for number, (corpus, count, of_train) in enumerate(
            zip(data.corpora, lines, kept, strict=True)
        )
    )
    for corpus in corpora:
        say(
            f"{corpus.source}: {count_of(corpus.read, 'line')} read: {corpus.train:,} "
            f"for training, {corpus.dev:,} for validation"
        )
    return PreparedFacts(
        fingerprint=name,
        seed=seed,
        max_tokens=data.max_tokens,
        source_vocabulary=tokenizers.source.size,
        target_vocabulary=tokenizers.target.size,
        joint=tokenizers.joint,
        pair_format=DOCUMENTS.name,
        train=_split_facts(train[-1], data.max_tokens),
        dev=_split_facts(dev[-1], data.max_tokens),
        corpora=corpora,
    )


def _count(corpus: CorpusSettings, say: Note) -> int:
    count = sum(1 for _ in read_documents(corpus, note=say))
    if not count:
        raise DataError(f"{corpus.source} has no text: all of its lines are blank")
    return count


def _num_kept(lines: int, data: DataSettings) -> int:
    """Return how many lines of a corpus are for training; the others come after."""
    if data.dev is not None:
        return lines
    wanted = data.dev_pairs or max(1, lines // HELD_OUT_SHARE)
    if wanted >= lines:
        raise DataError(
            f"no training data would be left with {wanted:,} of "
            f"{count_of(lines, 'line')} held out for validation; hold out fewer "
            "(data.dev_pairs), or give a validation set (data.dev)"
        )
    return lines - wanted


def _first(corpus: CorpusSettings, count: int) -> Iterator[tuple[str, bool]]:
    for number, line in enumerate(read_documents(corpus)):
        if number == count:
            return
        yield line


def _write_tokens(
    data: DataSettings, tokenizers: TokenizerPair, draft: Path, kept: list[int]
) -> tuple[list[int], list[int]]:
    """Write all tokens; return where each corpus begins in train and in dev."""
    dtype = np.uint16 if tokenizers.target.size <= 2**16 else np.uint32
    bounds: dict[str, list[int]] = {"train": [0], "dev": [0]}
    prompts: list[str] = []
    with (
        NpyWriter(draft / "train.tokens.npy", dtype) as train,
        NpyWriter(draft / "dev.tokens.npy", dtype) as dev,
    ):
        for corpus, count in zip(data.corpora, kept, strict=True):
            for number, (line, ends) in enumerate(read_documents(corpus)):
                writer = train if number < count else dev
                _append(writer, tokenizers, line, ends)
                if writer is dev:
                    prompts.append(line)
            bounds["train"].append(train.size)
            bounds["dev"].append(dev.size)
        if data.dev is not None:
            for line, ends in read_documents(data.dev):
                _append(dev, tokenizers, line, ends)
                prompts.append(line)
            bounds["dev"].append(dev.size)
    for split, values in bounds.items():
        with NpyWriter(draft / f"{split}.offsets.npy", np.int64) as offsets:
            offsets.append(values)
    _write_prompts(draft, prompts)
    return bounds["train"], bounds["dev"]


def _append(
    writer: NpyWriter, tokenizers: TokenizerPair, line: str, ends: bool
) -> None:
    writer.append(tokenizers.target.encode(line) + ([END] if ends else []))


def _write_prompts(draft: Path, lines: list[str]) -> None:
    """Write some validation lines, evenly spaced, each with the one after it."""
    pieces = (piece.strip() for line in lines for piece in line.split("\n"))
    usable = [_first_words(piece) for piece in pieces if piece]
    every = max(1, len(usable) // NUM_PROMPTS)
    pairs = list(pairwise(usable))[::every][:NUM_PROMPTS]
    for name, side in (("source", 0), ("target", 1)):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (draft / f"dev.{name}.txt").write_text(text, encoding="utf-8", newline="")
    (draft / "dropped.tsv").write_text(
        "file\tline\treason\tsource_tokens\ttarget_tokens\n", encoding="utf-8"
    )


def _first_words(line: str) -> str:
    if len(line) <= PROMPT_CHARACTERS:
        return line
    return line[:PROMPT_CHARACTERS].rsplit(" ", 1)[0]


def _split_facts(tokens: int, window: int) -> SplitFacts:
    return SplitFacts(
        pairs=-(-tokens // window),
        source_tokens=0,
        target_tokens=tokens,
        longest_source=0,
        longest_target=min(window, tokens),
    )


def _corpus_facts(
    corpus: CorpusSettings, read: int, train: int, first: int
) -> CorpusFacts:
    return CorpusFacts(
        source=corpus.source,
        target=None,
        weight=corpus.weight,
        first_pair=first,
        read=read,
        train=train,
        dev=read - train,
        empty=0,
        too_long=0,
        held_out=0,
    )
