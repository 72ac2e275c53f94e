"""IWSLT 2014, German to English: talks, prepared as fairseq prepares them.

Its ``prepare-iwslt14.sh`` is what nearly all published scores rest on: tokenised by
Moses, lower-cased, pairs of 1 to 175 words a side with at most 1.5 times as many words
on one side as on the other, every 23rd of them for validation, and as test set five
sets of talks in a row. Moses is here that of sacremoses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headwise.data.public.archives import read_members
from headwise.data.public.checksums import stated
from headwise.data.public.corpus import Files, PublicCorpus, Say
from headwise.data.public.segments import read_segments, write_lines
from headwise.errors import DataError
from headwise.wording import count_of

NAME = "iwslt14/de-en.tgz"
URL = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
MIRROR = "https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz"

LANGUAGES = ("de", "en")

TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
"""The sets of which the test set consists, in this order."""

VALIDATION_EVERY = 23
MAX_WORDS = 175
MAX_RATIO = 1.5
NUM_TRAIN, NUM_VALID, NUM_TEST = 160_239, 7_283, 6_750
"""Pairs that fairseq's own script gets, with Moses in Perl."""

_NO_TEXT = ("<url>", "<talkid>", "<keywords>")
"""Lines with one of these are no text of a talk."""

_TAGS = re.compile(r"</?(title|description)>")

Pair = tuple[str, str]


def iwslt14_de_en() -> PublicCorpus:
    """Return the talks, tokenised and lower-cased."""

    def write(files: Files, folder: Path, say: Say) -> None:
        talks = {
            f"de-en/train.tags.de-en.{language}": folder / f"train.{language}.tags"
            for language in LANGUAGES
        }
        tests = {
            f"de-en/IWSLT14.{name}.de-en.{language}.xml": folder / f"{name}.{language}"
            for name in TESTS
            for language in LANGUAGES
        }
        read_members(files[NAME], talks | tests)
        say("tokenising, which takes a few minutes")
        tokenize = [moses(language) for language in LANGUAGES]
        sides = [talk_lines(path) for path in talks.values()]
        if len(sides[0]) != len(sides[1]):
            raise DataError(
                f"{files[NAME]}: the talks have {count_of(len(sides[0]), 'line')} of "
                f"German and {len(sides[1]):,} of English, and should have as many"
            )
        train, valid = split_pairs(clean_pairs(sides[0], sides[1], *tokenize))
        test = [
            [
                tokenizer(segment.replace("’", "'"))
                for name in TESTS
                for segment in read_segments(folder / f"{name}.{language}")
            ]
            for language, tokenizer in zip(LANGUAGES, tokenize, strict=True)
        ]
        for path in (*talks.values(), *tests.values()):
            path.unlink()
        parts = {"train": train, "valid": valid, "test": [*zip(*test, strict=True)]}
        for part, pairs in parts.items():
            for side, language in enumerate(LANGUAGES):
                write_lines(folder / f"{part}.{language}", (x[side] for x in pairs))
        counts = tuple(map(len, parts.values()))
        if counts != (NUM_TRAIN, NUM_VALID, NUM_TEST):
            say(
                "the counts of pairs for training, validation and test are "
                f"{', '.join(f'{count:,}' for count in counts)}; fairseq's script, "
                f"with Moses in Perl, has {NUM_TRAIN:,}, {NUM_VALID:,}, {NUM_TEST:,}"
            )

    return PublicCorpus(
        name="iwslt14-de-en",
        languages=LANGUAGES,
        num_pairs=NUM_TRAIN,
        license="CC BY-NC-ND (TED talks, by WIT3)",
        publisher="WIT3, copied by fairseq",
        homepage="https://wit3.fbk.eu",
        citation="Cettolo et al. 2012, 2014",
        downloads=(stated(NAME, URL, MIRROR),),
        write=write,
        split="fairseq's: every 23rd pair for validation; dev2010, dev2012 and tst2010 "
        "to tst2012 as the test",
    )


def talk_lines(path: Path) -> list[str]:
    """Return the lines of a file of talks that are text, without tags."""
    lines = path.read_bytes().decode("utf-8", "replace").removesuffix("\n").split("\n")
    return [
        _TAGS.sub("", line)
        for line in lines
        if not any(mark in line for mark in _NO_TEXT)
    ]


def moses(language: str) -> Callable[[str], str]:
    """Return a function that tokenises by Moses' rules, escapes, and lower-cases."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    return lambda text: str(tokenizer.tokenize(text, return_str=True)).lower()


def clean_pairs(
    sources: Iterable[str],
    targets: Iterable[str],
    tokenize_source: Callable[[str], str],
    tokenize_target: Callable[[str], str],
) -> Iterator[Pair]:
    """Yield the tokenised pairs of lengths that ``clean-corpus-n.perl`` keeps."""
    for source, target in zip(sources, targets, strict=True):
        pair = tokenize_source(source), tokenize_target(target)
        lengths = [len(side.split()) for side in pair]
        if min(lengths) < 1 or max(lengths) > MAX_WORDS:
            continue
        if max(lengths) > MAX_RATIO * min(lengths):
            continue
        yield pair


def split_pairs(pairs: Iterable[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Return the training pairs, and every 23rd for validation."""
    train: list[Pair] = []
    valid: list[Pair] = []
    for number, pair in enumerate(pairs, start=1):
        (train if number % VALIDATION_EVERY else valid).append(pair)
    return train, valid
