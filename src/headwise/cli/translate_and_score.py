"""Compute the outputs for a test set and score them: steps of several commands."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.cli.argument_checks import check_files
from headwise.cli.corpus_tables import check_sources, table_for
from headwise.cli.options import say
from headwise.data.settings import layout_of
from headwise.errors import DataError, SettingsError, UsageError
from headwise.run_folder.paths import languages_of_model, model_path
from headwise.tasks import TASKS
from headwise.text.label_tokenizer import UnknownLabelError
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.inference.predictor import Predictor
    from headwise.inference.translator import Translator
    from headwise.metrics.score import Score
    from headwise.text.tokenizer import TokenizerPair


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


def predict_and_score(
    predictor: Predictor,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str],
) -> tuple[list[Score], list[str]]:
    """Predict outputs; return the score of each metric, and the outputs.

    Lines without a text or without a reference have an output but do not count.
    """
    from headwise.metrics.registry import measure

    outputs = [each.output for each in predictor.predictions_of_sources(sources)]
    pairs = [
        (output, reference)
        for source, output, reference in zip(sources, outputs, references, strict=True)
        if source.strip() and reference.strip()
    ]
    if left_out := len(sources) - len(pairs):
        say(
            f"{count_of(left_out, 'line')} without a text or without a reference left "
            "out of the scores"
        )
    found = [output for output, _ in pairs]
    wanted = [reference for _, reference in pairs]
    return [measure(name, found, wanted) for name in metrics], outputs


def check_references(
    tokenizers: TokenizerPair,
    task: str,
    sources: Sequence[str],
    references: Sequence[str],
    path: Path,
) -> None:
    """Raise ``DataError`` for a line of ``path`` that cannot be scored, with its place.

    Labels that no training example has are said: such lines are wrong in any case. If
    no line has another, or each lacks a side, it is an error.
    """
    if not any(
        a.strip() and b.strip() for a, b in zip(sources, references, strict=True)
    ):
        raise DataError(
            f"{path} has no line with both a text and a reference, so there is nothing "
            "to score"
        )
    pair_format = TASKS[task].pair_format
    unknown: list[tuple[int, UnknownLabelError]] = []
    for number, (source, reference) in enumerate(
        zip(sources, references, strict=True), start=1
    ):
        try:
            if pair_format.reads_pictures:
                tokenizers.target.encode(reference)
            else:
                pair_format.encode(tokenizers, source, reference)
        except UnknownLabelError as error:
            unknown.append((number, error))
        except DataError as error:
            raise DataError(f"{path}, line {number:,}: {error}") from None
    if not unknown:
        return
    number, first = unknown[0]
    if len(unknown) == len(references):
        raise DataError(
            f"{path}, line {number:,}: {first}; so it is in every line: is this the "
            "text, and are these the columns, that the model was made for?"
        )
    say(
        f"{path}: in {len(unknown):,} of {count_of(len(references), 'line')} the model "
        f"cannot be right; the first is line {number:,}: {first}"
    )


def read_parallel(
    source: Path,
    reference: Path | None,
    *,
    columns: tuple[int, int] | None = None,
    fields: tuple[str, str] | None = None,
    languages: tuple[str, str] | None = None,
    task: str = "translation",
    remedy: str = "give REFERENCE too",
) -> tuple[list[str], list[str]]:
    """Read two line-aligned text files, or one TSV or JSON Lines file, plain or .gz.

    ``columns`` are those of a TSV file, ``fields`` the keys of JSON Lines, by default
    ``languages``. For ``task`` parsing one file is a treebank: its sentences, and trees
    in brackets. For pictures SOURCE has both sides: data URLs and labels. ``remedy``
    says how to give a second file, where one is plain text.
    Raises ``DataError`` for bytes that are not UTF-8, or different numbers of lines.
    """
    from headwise.data.corpus_reader import read_lines, read_pairs
    from headwise.data.identical_sides import IdenticalSides
    from headwise.data.settings import CorpusSettings

    check_sources(task, source)
    check_files(reference)
    if TASKS[task].pair_format.reads_pictures:
        from headwise.data.pictures import read_labelled_pictures

        if reference is not None or columns is not None or fields is not None:
            raise UsageError(
                f"{source} has pictures and their labels; leave out REFERENCE, "
                "--columns and --fields"
            )
        return read_labelled_pictures(source)
    if reference is None:
        table = table_for(
            task, source, None, columns=columns, fields=fields, remedy=remedy
        )
        if fields is None and languages is not None:
            table["source_field"], table["target_field"] = languages
        try:
            corpus = CorpusSettings(**table)
        except SettingsError as error:
            reasons = "; ".join(error.problems)
            raise UsageError(f"{source} cannot be read alone: {reasons}") from None
        pairs = list(read_pairs(corpus, note=say))
        if corpus.layout == "trees":  # traces alone are no sentence
            pairs = [each for each in pairs if not each.is_empty]
        return [each.source for each in pairs], [each.target for each in pairs]
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


def keys_of_card(folder: Path, source: Path) -> tuple[str, str] | None:
    """Return the languages of the model if they are the keys of JSON Lines; say so.

    None, for the keys "source" and "target", if the first line has these, or lacks the
    languages.
    """
    languages = languages_of_model(model_path(folder))
    if layout_of(source.name) != "jsonl" or languages is None:
        return None
    if _first_line_has(source, ("source", "target")):
        return None
    if not _first_line_has(source, languages):
        return None
    say(
        f"{source} is read by its keys {' and '.join(languages)}, the languages of the "
        "model"
    )
    return languages


def _first_line_has(source: Path, fields: tuple[str, str]) -> bool:
    from headwise.data.corpus_reader import read_pairs
    from headwise.data.settings import CorpusSettings

    corpus = CorpusSettings(
        source=str(source), source_field=fields[0], target_field=fields[1]
    )
    with suppress(DataError):
        return any(pair.source or pair.target for pair in read_pairs(corpus))
    return False
