"""Synthetic pairs: real lines, and what a model translates them to.

Back-translation (Sennrich et al. 2016) makes sources of text of the target language, by
a model of the reverse direction; outputs that are drawn at random teach more than those
of a beam (Edunov et al. 2018). Forward translation makes targets of text of the source
language, by a teacher: sequence-level distillation (Kim and Rush 2016). With a
reference for each line, the one nearest to it of several outputs is the target:
sequence-level interpolation (Section 3.3 there). What would teach wrong things is left
out, with a reason: see :data:`REASONS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    references: Sequence[str] | None = None,
) -> list[SyntheticPair]:
    """Return a pair for each of ``lines``, in order; some are left out, with a reason.

    ``search`` overrides decoding settings of ``translator``, which translates from the
    language of ``lines``. The output is the best one, or, with ``references``, one for
    each line, that of the ``num_best`` which is nearest to its reference.
    """
    table = merged(KEEP_LOOPS, search)
    wanted = [None] * len(lines) if references is None else references
    reasons = _reasons_of_lines(translator, lines, wanted)
    rows = list(zip(lines, wanted, reasons, strict=True))
    chosen = [line for line, _, reason in rows if not reason]
    found = translator.lines(chosen, **table)
    return [
        SyntheticPair(line, "", reason) if reason else _pair(next(found), reference)
        for line, reference, reason in rows
    ]


def nearest(candidates: Sequence[Candidate], reference: str) -> Candidate:
    """Return the candidate nearest to a reference: highest sentence-level chrF.

    Of equal ones it is the first, which the model prefers. Kim and Rush (2016) compare
    by smoothed BLEU, which tells little of a sentence of few words.
    """
    texts = [each.text for each in candidates]
    scores = [row[-1] for row in pairwise_chrf([*texts, reference])[:-1]]
    return candidates[scores.index(max(scores))]


def _reasons_of_lines(
    translator: Translator, lines: Sequence[str], references: Sequence[str | None]
) -> list[str]:
    """Return why each line is not translated; empty texts for those that are."""
    longest = translator.opened.facts.longest_source
    lengths = map(len, translator.opened.texts.encode(lines))
    return [
        _reason_of_line(line, length, longest)
        or ("no reference" if reference is not None and not reference.strip() else "")
        for line, length, reference in zip(lines, lengths, references, strict=True)
    ]


def _reason_of_line(line: str, num_tokens: int, longest: int) -> str:
    if not line.strip():
        return "blank"
    if "\ufffd" in line:
        return "not UTF-8"
    if "\r" in line:
        return "carriage return"
    return "too long" if num_tokens > longest else ""


def _pair(found: Translated, reference: str | None) -> SyntheticPair:
    best = found.candidates[0]
    chosen = best if reference is None else nearest(found.candidates, reference)
    output = one_line(chosen.text)
    kinds = [kind for kind in map(kind_of, found.warnings) if kind in REASONS]
    if chosen is not best:
        kinds = []  # warnings are about the best output
    if not output.strip():
        kinds = ["empty"]
    return SyntheticPair(found.source, output, kinds[0] if kinds else "")
