"""Read pairs: two line-aligned files, TSV, JSON Lines, a treebank, dialogues.

Any of them may be a .gz file.

Reading is strict, since one shifted line silently misaligns all pairs after it: a side
that ends early, invalid UTF-8, a missing column or field raise ``DataError`` with file
and line. One line is in memory at a time.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from headwise.data.json_lines import parse_object, text_of
from headwise.data.settings import CorpusSettings, Layout
from headwise.errors import DataError
from headwise.text.dialogue import read_turns, split_last_answer
from headwise.text.encodings import open_text
from headwise.text.lines import Line, LineTally, split_lines
from headwise.text.normalization import one_line
from headwise.text.tree_normalization import normalize_tree
from headwise.text.trees import numbered_trees, unescape_brackets
from headwise.wording import count_of, excerpt

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RawPair:
    """A source text, its translation, and their line."""

    line: int
    """Line number, counted from 1."""

    source: str
    target: str

    @property
    def is_empty(self) -> bool:
        """Whether a side has only white space."""
        return not (self.source.strip() and self.target.strip())


def read_pairs(
    corpus: CorpusSettings, *, note: Note = lambda _: None
) -> Iterator[RawPair]:
    """Yield the pairs of ``corpus`` in order, empty ones included.

    After the last pair, ``note`` is called with a message for each kind of change, such
    as converted line ends.
    """
    if corpus.layout not in READERS:
        raise DataError(
            f"{corpus.source} is read as text alone (format 'text'), which has no "
            "second side; give a target file, a TSV or JSON Lines"
        )
    yield from READERS[corpus.layout](corpus, note)


def read_documents(
    corpus: CorpusSettings, *, note: Note = lambda _: None
) -> Iterator[tuple[str, bool]]:
    """Yield each line of the documents of ``corpus``, and whether one ends there.

    A file of format text is one document, whose lines have their line ends; in JSON
    Lines (``source_field``) and TSV (``source_column``) each line is one. Blank
    documents are left out.
    """
    path = Path(corpus.source)
    if corpus.layout == "text":
        before: str | None = None
        for line in read_lines(path, note):
            if before is not None:
                yield before, False
            before = f"{line.text}\n"
        if before is not None:
            yield before, True
        return
    for line in read_lines(path, note):
        text = line.text
        if corpus.layout == "jsonl" and text.strip():
            where = f"{path}, line {line.number:,}"
            table = parse_object(text, where)
            text = text_of(table, corpus.source_field, where, alone=True)
        elif corpus.layout == "tsv":
            text = _cell(line, corpus.source_column, path)
        if text.strip():
            yield text, True


def _cell(line: Line, column: int, path: Path) -> str:
    cells = line.text.split("\t")
    if len(cells) < column:
        raise DataError(
            f"{path}, line {line.number:,} has {count_of(len(cells), 'column')}, but "
            f"column {column} is needed (source_column): {excerpt(line.text)}"
        )
    return cells[column - 1]


def count_pairs(corpus: CorpusSettings) -> int:
    """Return the number of lines of the source of ``corpus``, or of its trees."""
    if corpus.layout == "trees":
        return sum(1 for _ in read_pairs(corpus))
    return sum(1 for _ in read_lines(Path(corpus.source), lambda _: None))


def read_lines(path: Path, note: Note) -> Iterator[Line]:
    """Yield the lines of ``path``, plain or gzip; then report changes to ``note``."""
    check_file(path)
    tally = LineTally()
    try:
        with path.open("rb") as file:
            for line in split_lines(open_text(file, str(path)), name=str(path)):
                tally.add(line)
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is a corrupt .gz file: {error}; only "
            f"{count_of(tally.lines, 'line')} can be read: copy it again"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    if not tally.lines:
        raise DataError(f"{path} is empty; a corpus needs at least one line")
    for each in tally.notes(str(path)):
        note(each)


def check_file(path: Path) -> None:
    """Raise ``DataError`` unless ``path`` is a regular file."""
    if path == Path("-") and not path.exists():
        raise DataError(
            "standard input (-) cannot be read here: a corpus, or a test set, is read "
            "from files; write it to a file first, and name that"
        )
    if not path.exists():
        raise DataError(
            f"{path} does not exist (looked for {path.absolute()}); check the name"
        )
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a text file")
    if not path.is_file():
        raise DataError(
            f"{path} is a pipe or device, but a corpus is read several times; write it "
            "to a file first"
        )


def _read_lines(corpus: CorpusSettings, note: Note) -> Iterator[RawPair]:
    source, target = map(Path, corpus.files)
    num_sources = num_targets = 0
    for left, right in zip_longest(read_lines(source, note), read_lines(target, note)):
        num_sources += left is not None
        num_targets += right is not None
        if left and right:
            yield RawPair(left.number, left.text, right.text)
    if num_sources != num_targets:
        raise DataError(
            f"{source} has {count_of(num_sources, 'line')} and {target} has "
            f"{num_targets:,}; line N of both must belong together. Lines end at "
            "\\n only: a tool that splits elsewhere, or drops blank lines, misaligns "
            "them"
        )


def _read_tsv(corpus: CorpusSettings, note: Note) -> Iterator[RawPair]:
    path = Path(corpus.source)
    last = max(corpus.source_column, corpus.target_column)
    for line in read_lines(path, note):
        cells = line.text.split("\t")
        if line.number == 1 and is_header(cells):
            note(
                f"{path}, line 1 looks like a header ({excerpt(line.text)}), but is "
                f"read as an example; to leave it out: tail -n +2 {path}"
            )
        if not line.text.strip():
            cells = [""] * last
        elif len(cells) < last:
            raise DataError(
                f"{path}, line {line.number:,}: {count_of(len(cells), 'column')}, "
                f"but column {last} is needed: {excerpt(line.text)}. Columns are "
                "separated by one TAB and counted from 1 (source_column, "
                "target_column)"
            )
        yield RawPair(
            line.number,
            cells[corpus.source_column - 1],
            cells[corpus.target_column - 1],
        )


HEADER_NAMES = {
    *("text", "texts", "sentence", "sentences", "input", "output", "reference"),
    *("source", "target", "src", "tgt", "trg", "translation", "question", "answer"),
    *("label", "labels", "class", "category", "sentiment", "score", "rating"),
    *("grade", "value", "number", "tag", "tags", "word", "words", "phones"),
    *("pronunciation", "path", "caption", "en", "de", "fr", "es", "it", "nl", "pt"),
    *("ru", "zh", "ja", "cs", "pl", "sv", "uk"),
}
"""What tables call their columns."""


def is_header(cells: Sequence[str]) -> bool:
    """Return whether each of two cells or more is a usual name of a column."""
    return len(cells) > 1 and all(
        each.strip().lower() in HEADER_NAMES for each in cells
    )


def _read_jsonl(corpus: CorpusSettings, note: Note) -> Iterator[RawPair]:
    path = Path(corpus.source)
    num_broken = 0
    for line in read_lines(path, note):
        if not line.text.strip():
            yield RawPair(line.number, "", "")
            continue
        where = f"{path}, line {line.number:,}"
        table = parse_object(line.text, where)
        source = text_of(table, corpus.source_field, where)
        target = text_of(table, corpus.target_field, where)
        pair = RawPair(line.number, one_line(source), one_line(target))
        num_broken += (source, target) != (pair.source, pair.target)
        yield pair
    if num_broken:
        note(f"{path}: line ends inside texts became spaces (lines: {num_broken:,})")


def _read_trees(corpus: CorpusSettings, note: Note) -> Iterator[RawPair]:
    """Yield the words of each normalized tree, and the tree in brackets.

    A tree without words, as one of traces alone, is an empty pair.
    """
    path = Path(corpus.source)
    num_empty = 0
    for line, tree in numbered_trees(
        read_lines(path, note), name=str(path), join_words=corpus.join_words
    ):
        normal = normalize_tree(tree)
        if normal is None:
            num_empty += 1
            yield RawPair(line, "", "")
            continue
        words = " ".join(unescape_brackets(word) for word in normal.words)
        yield RawPair(line, words, str(normal))
    if num_empty:
        note(f"{path}: trees without a word, which are left out: {num_empty:,}")


def _read_dialogues(corpus: CorpusSettings, note: Note) -> Iterator[RawPair]:
    """Yield the turns of each dialogue up to its last answer, and that answer."""
    path = Path(corpus.source)
    for line in read_lines(path, note):
        if not line.text.strip():
            yield RawPair(line.number, "", "")
            continue
        where = f"{path}, line {line.number:,}"
        table = parse_object(line.text, where)
        try:
            turns, answer = split_last_answer(read_turns(table))
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        yield RawPair(line.number, turns, answer)


READERS: dict[Layout, Callable[[CorpusSettings, Note], Iterator[RawPair]]] = {
    "lines": _read_lines,
    "tsv": _read_tsv,
    "jsonl": _read_jsonl,
    "trees": _read_trees,
    "dialogues": _read_dialogues,
}
