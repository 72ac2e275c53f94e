"""Synthetic pairs: real lines, and what a model translates them to.

Back-translation (Sennrich et al. 2016) makes sources of text of the target language, by
a model of the reverse direction; outputs that are drawn at random teach more than those
of a beam (Edunov et al. 2018). Forward translation makes targets of text of the source
language, by a teacher: sequence-level distillation (Kim and Rush 2016). With
references, the output nearest to one of them is the target: sequence-level
interpolation (Section 3.3 there). What would teach wrong things is left out, with a
reason: see :data:`REASONS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.decoding.warnings import kind_of
from headwise.inference.translator import Translator
from headwise.metrics.sentence_scores import pairwise_chrf
from headwise.settings import merged
from headwise.tasks.translation.results import Candidate, Translated
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
    "no reference": "the reference of the line is blank",
    "repeated": "the line stood before, where all of its references counted",
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
    translator: Translator,
    lines: Sequence[str],
    search: Mapping[str, Any],
    references: MutableMapping[str, list[str]] | None = None,
) -> list[SyntheticPair]:
    """Return a pair for each of ``lines``, in order; some are left out, with a reason.

    ``search`` overrides decoding settings of ``translator``, which translates from the
    language of ``lines``. The output is the best one, or, with the ``references`` of
    each line, that of the ``num_best`` which is nearest to one of them. They are taken
    out of ``references``, and a line that is not in it (any more) is left out.
    """
    reasons = _reasons_of_lines(translator, lines)
    of_lines: list[list[str] | None] = [None] * len(lines)
    if references is not None:
        of_lines = [references.pop(line, None) for line in lines]
        reasons = [
            reason or ("repeated" if own is None else "" if own else "no reference")
            for reason, own in zip(reasons, of_lines, strict=True)
        ]
    chosen = [line for line, reason in zip(lines, reasons, strict=True) if not reason]
    found = translator.lines(chosen, **merged(KEEP_LOOPS, search))
    return [
        SyntheticPair(line, "", reason) if reason else _pair(next(found), own)
        for line, own, reason in zip(lines, of_lines, reasons, strict=True)
    ]


def nearest(candidates: Sequence[Candidate], references: Sequence[str]) -> Candidate:
    """Return the candidate with the highest sentence-level chrF to any reference.

    Of equal ones it is the first, which the model prefers. Kim and Rush (2016) compare
    by smoothed BLEU, which tells little of a sentence of few words.
    """
    texts = [each.text for each in candidates]
    rows = pairwise_chrf([*texts, *references])
    scores = [max(row[len(texts) :]) for row in rows[: len(texts)]]
    return candidates[scores.index(max(scores))]


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


def _pair(found: Translated, references: Sequence[str] | None) -> SyntheticPair:
    best = found.candidates[0]
    chosen = best if references is None else nearest(found.candidates, references)
    output = one_line(chosen.text)
    kinds = [kind for kind in map(kind_of, found.warnings) if kind in REASONS]
    if chosen is not best:
        kinds = []  # warnings are about the best output
    if not output.strip():
        kinds = ["empty"]
    return SyntheticPair(found.source, output, kinds[0] if kinds else "")
