"""Pairs of text from files: two that are line-aligned, a TSV, or JSON Lines; or .gz.

Reading is strict, since a shifted line spoils every pair after it and says nothing: one
side that ends early, bytes that are not UTF-8, a missing column or key each end it with
the file and line. One line is held in memory at a time.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from headwise.data.settings import CorpusSettings, Layout
from headwise.errors import DataError
from headwise.text.encodings import open_text
from headwise.text.lines import Line, LineTally, split_lines
from headwise.text.normalization import one_line
from headwise.wording import count_of

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RawPair:
    """Two texts that say the same, and where they stand."""

    line: int
    """Line of the file or files, counted from 1."""

    source: str
    target: str

    @property
    def is_empty(self) -> bool:
        """A side holds nothing but white space."""
        return not (self.source.strip() and self.target.strip())


def read_pairs(
    corpus: CorpusSettings, *, note: Note = lambda _: None
) -> Iterator[RawPair]:
    """Yield the pairs of ``corpus`` in their order, empty ones too.

    After the last pair, ``note`` is given one sentence for each thing that was changed
    on the way, such as line ends of another system.
    """
    yield from READERS[corpus.layout](corpus, note)


def count_pairs(corpus: CorpusSettings) -> int:
    """Count the pairs of ``corpus``, empty ones too, by the lines of its source."""
    return sum(1 for _ in read_lines(Path(corpus.source), lambda _: None))


def read_lines(path: Path, note: Note) -> Iterator[Line]:
    """Yield the lines of ``path``, plain or gzip; then tell ``note`` what changed."""
    check_file(path)
    tally = LineTally()
    try:
        with path.open("rb") as file:
            for line in split_lines(open_text(file, str(path)), name=str(path)):
                tally.add(line)
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} is a damaged .gz file: {error}; only "
            f"{count_of(tally.lines, 'line')} can be read: copy it again"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    if not tally.lines:
        raise DataError(f"{path} holds no lines; a corpus needs at least one")
    for each in tally.notes(str(path)):
        note(each)


def check_file(path: Path) -> None:
    """Raise a ``DataError`` unless ``path`` is a file, to be read more than once."""
    if not path.exists():
        raise DataError(
            f"{path} does not exist (looked for at {path.absolute()}); check the name"
        )
    if path.is_dir():
        raise DataError(f"{path} is a folder; name the text file in it")
    if not path.is_file():
        raise DataError(
            f"{path} is a pipe or device, and a corpus is read several times; write it "
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
            f"{num_targets:,}; line N of one must say what line N of the other says. "
            "Lines end at \\n alone: a tool that splits elsewhere, or drops blank "
            "lines, shifts them"
        )


def _read_tsv(corpus: CorpusSettings, note: Note) -> Iterator[RawPair]:
    path = Path(corpus.source)
    last = max(corpus.source_column, corpus.target_column)
    for line in read_lines(path, note):
        cells = line.text.split("\t")
        if not line.text.strip():
            cells = [""] * last
        elif len(cells) < last:
            raise DataError(
                f"{path}, line {line.number:,}: {count_of(len(cells), 'column')}, "
                f"though column {last} is asked for; it reads {_shown(line.text)}. "
                "Columns are set apart by one TAB and counted from 1 (source_column, "
                "target_column)"
            )
        yield RawPair(
            line.number,
            cells[corpus.source_column - 1],
            cells[corpus.target_column - 1],
        )


def _read_jsonl(corpus: CorpusSettings, note: Note) -> Iterator[RawPair]:
    path = Path(corpus.source)
    num_broken = 0
    for line in read_lines(path, note):
        if not line.text.strip():
            yield RawPair(line.number, "", "")
            continue
        where = f"{path}, line {line.number:,}"
        table = _parsed(line.text, where)
        source = _text(table, corpus.source_field, where)
        target = _text(table, corpus.target_field, where)
        pair = RawPair(line.number, one_line(source), one_line(target))
        num_broken += (source, target) != (pair.source, pair.target)
        yield pair
    if num_broken:
        note(f"{path}: line ends inside texts became spaces (lines: {num_broken:,})")


READERS: dict[Layout, Callable[[CorpusSettings, Note], Iterator[RawPair]]] = {
    "lines": _read_lines,
    "tsv": _read_tsv,
    "jsonl": _read_jsonl,
}


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        table = json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, where))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: not JSON ({error}); it reads {_shown(text)}. Each line must be "
            "one object"
        ) from None
    if not isinstance(table, dict):
        raise DataError(
            f"{where}: {_shown(text)} is JSON but no object; each line must be one, "
            'such as {"source": "...", "target": "..."}'
        )
    return table


def _once(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    """Make an object of its keys and values; of one key there is one value."""
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in table if keys.count(key) > 1)
        raise DataError(
            f"{where}: the key {_json(twice)} stands {keys.count(twice)} times in one "
            "object, and which text is meant nobody can know; leave one of them"
        )
    return table


NESTED = "translation"
"""Key of an object that holds both texts, as collections of data sets have it."""


def _text(table: dict[str, Any], field: str, where: str) -> str:
    nested = table.get(NESTED)
    place = table
    if field not in table and isinstance(nested, dict):
        place = nested
    if field not in place:
        raise DataError(
            f"{where}: the key {_json(field)} is missing; {_keys(place)}"
            f"{_hint(place)}. source_field and target_field say which are read"
        )
    text = place[field]
    if not isinstance(text, str):
        raise DataError(
            f"{where}: {_json(field)} is {_json(text)}, and a text in quotes is wanted"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise DataError(
            f"{where}: {_json(field)} holds {half!a}, half of a character, which is no "
            "text; write both halves, or the character itself"
        ) from None
    return text


def _keys(table: dict[str, Any]) -> str:
    """Say which keys there are."""
    keys = [_json(key) for key in table]
    if not keys:
        return "the object has no key"
    if len(keys) == 1:
        return f"the only one is {keys[0]}"
    return f"there are {', '.join(keys)}"


def _json(value: Any) -> str:
    """Write a value as JSON does, cut short."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _hint(table: dict[str, Any]) -> str:
    """Say how texts under their languages are asked for, where these look like it."""
    codes = [key for key in table if re.fullmatch("[a-z]{2,3}", key)]
    if len(codes) < 2:
        return ""
    one, other = codes[:2]
    return (
        f"; if they are languages, name the source and the target, such as "
        f"--languages {one} {other}"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
