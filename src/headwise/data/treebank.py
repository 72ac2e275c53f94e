"""Read files of constituency trees, plain or gzip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headwise.data.corpus_reader import Note, read_lines
from headwise.text.trees import Tree, parse_trees


def read_trees(path: Path, *, note: Note = lambda _: None) -> Iterator[Tree]:
    """Yield the trees of a file in the brackets of the Penn Treebank.

    Trees are as in the file, with traces and function tags; an outermost bracket
    without label is left out. ``note`` gets a message for each kind of change to lines.
    Raises ``DataError`` with file and line for what is not UTF-8, or not a tree.
    """
    return parse_trees(read_lines(path, note), name=str(path))
