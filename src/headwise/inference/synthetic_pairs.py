"""Synthetic pairs: real lines, and what a model translates them to.

Back-translation (Sennrich et al. 2016) makes sources of text of the target language, by
a model of the reverse direction; outputs that are drawn at random teach more than those
of a beam (Edunov et al. 2018). Forward translation makes targets of text of the source
language, by a teacher: sequence-level distillation (Kim and Rush 2016). What would
teach wrong things is left out, with a reason: see :data:`REASONS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.decoding.warnings import kind_of
from headwise.inference.translator import Translator
from headwise.settings import merged
from headwise.tasks.translation.results import Translated
from headwise.text.normalization import one_line

BLOCK_LINES = 2000
"""Lines that are translated together, and after which a run can be resumed."""

BLOCK_CHARACTERS = 500_000
"""Characters at which such a block ends earlier."""

REASONS = {
    "blank": "the line is blank",
    "not UTF-8": "the line has bytes that are not UTF-8, or U+FFFD in their place",
    "carriage return": "the line has a carriage return inside",
    "too long": "the line is longer than the model was trained for",
    "empty": "the output is empty",
    "unfinished": "the output reached its length limit",
    "loop": "the output repeats itself",
    "long": "the output is far longer than the line",
    "short": "the output is far shorter than the line",
    "copied": "the output is mostly a copy of the line",
}
"""Why a line gives no pair."""

KEEP_LOOPS = {"warnings": {"loop_no_repeat_ngram": 0}}
"""Settings by which loops stay loops, which are left out, instead of new searches."""


@dataclass(frozen=True, slots=True)
class SyntheticPair:
    """A real line, and its translation by a model, the other side of the pair."""

    line: str
    output: str
    reason: str = ""
    """Key of ``REASONS`` if the pair is left out; otherwise empty."""


def blocks_of(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield lines in blocks, whose ends depend on the lines of the block only."""
    block: list[str] = []
    characters = 0
    for line in lines:
        block.append(line)
        characters += len(line)
        if len(block) >= BLOCK_LINES or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def make_pairs(
    translator: Translator, lines: Sequence[str], search: Mapping[str, Any]
) -> list[SyntheticPair]:
    """Return a pair for each of ``lines``, in order; some are left out, with a reason.

    ``search`` overrides decoding settings of ``translator``, which translates from the
    language of ``lines``.
    """
    table = merged(KEEP_LOOPS, search)
    reasons = _reasons_of_lines(translator, lines)
    chosen = [line for line, reason in zip(lines, reasons, strict=True) if not reason]
    found = translator.lines(chosen, **table)
    return [
        SyntheticPair(line, "", reason) if reason else _pair(next(found))
        for line, reason in zip(lines, reasons, strict=True)
    ]


def _reasons_of_lines(translator: Translator, lines: Sequence[str]) -> list[str]:
    """Return why each line is not translated; empty texts for those that are."""
    longest = translator.opened.facts.longest_source
    lengths = map(len, translator.opened.texts.encode(lines))
    return [
        _reason_of_line(line, length, longest)
        for line, length in zip(lines, lengths, strict=True)
    ]


def _reason_of_line(line: str, num_tokens: int, longest: int) -> str:
    if not line.strip():
        return "blank"
    if "\ufffd" in line:
        return "not UTF-8"
    if "\r" in line:
        return "carriage return"
    return "too long" if num_tokens > longest else ""


def _pair(found: Translated) -> SyntheticPair:
    output = one_line(found.text)
    kinds = [kind for kind in map(kind_of, found.warnings) if kind in REASONS]
    if not output.strip():
        kinds = ["empty"]
    return SyntheticPair(found.source, output, kinds[0] if kinds else "")
