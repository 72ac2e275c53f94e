"""Read files of constituency trees, plain or gzip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headwise.data.corpus_reader import Note, read_lines
from headwise.text.trees import Tree, parse_trees


def read_trees(
    path: Path, *, join_words: str | None = None, note: Note = lambda _: None
) -> Iterator[Tree]:
    """Yield the trees of a file in the brackets of the Penn Treebank.

    Trees are as in the file, with traces and function tags; an outermost bracket
    without label is left out. Several words in a bracket, which some treebanks have by
    mistake, are one word with ``join_words`` between them, or an error if that is None.
    ``note`` gets a message for each kind of change to lines.

    Raises ``DataError`` with file and line for what is not UTF-8, or not a tree.
    """
    lines = read_lines(path, note)
    return parse_trees(lines, name=str(path), join_words=join_words)
