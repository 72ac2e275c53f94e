"""Translate a test set and score it: steps that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.cli.argument_checks import check_files
from headwise.cli.options import say
from headwise.errors import DataError
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.inference.translator import Translator
    from headwise.metrics.score import Score


def translate_lines(
    translator: Translator, sources: Sequence[str], **search: Any
) -> list[str]:
    """Translate lines; print each kind of warning once."""
    from headwise.decoding.warnings import merge_warnings

    outputs: list[str] = []
    warned: list[Sequence[str]] = []
    for each in translator.lines(sources, **{"scores": False, **search}):
        outputs.append(each.text)
        warned.append(each.warnings)
    for warning in merge_warnings(warned, "lines"):
        say(warning)
    return outputs


def translate_and_score(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str],
    *,
    language: str | None = None,
    **search: Any,
) -> tuple[list[Score], list[str]]:
    """Translate ``sources``; return the score of each metric, and the translations."""
    from headwise.metrics.registry import measure

    outputs = translate_lines(translator, sources, **search)
    scores = [measure(name, outputs, references, language=language) for name in metrics]
    return scores, outputs


def read_parallel(source: Path, reference: Path) -> tuple[list[str], list[str]]:
    """Read two line-aligned text files, plain or .gz.

    Raises ``DataError`` for bytes that are not UTF-8, or different numbers of lines.
    """
    from headwise.data.corpus_reader import read_lines
    from headwise.data.identical_sides import IdenticalSides

    check_files(source, reference)
    sources, references = (
        [line.text for line in read_lines(path, say)] for path in (source, reference)
    )
    if len(sources) != len(references):
        raise DataError(
            f"{source} has {count_of(len(sources), 'line')} and {reference} has "
            f"{len(references):,}; line N of both must belong together"
        )
    same = IdenticalSides()
    for pair in zip(sources, references, strict=True):
        same.add(*pair)
    for note in same.notes(source, reference):
        say(note)
    return sources, references
