import gzip

import pytest

from headwise.data.treebank import read_trees
from headwise.errors import DataError
from headwise.text.linearized_trees import linearize, parse_linearized
from headwise.text.tree_normalization import normalize_tree
from headwise.text.trees import parse_tree

TREES = "( (S (NP-SBJ (NN a))\n  (VP (VB b))) )\n(TOP (NP (NN c)))\n"


@pytest.mark.parametrize("compress", [lambda data: data, gzip.compress])
def test_trees_are_read_from_plain_and_gzip_files(tmp_path, compress):
    file = tmp_path / "train.mrg"
    file.write_bytes(compress(TREES.encode()))

    assert [str(tree) for tree in read_trees(file)] == [
        "(S (NP-SBJ (NN a)) (VP (VB b)))",
        "(TOP (NP (NN c)))",
    ]


def test_changes_to_lines_are_noted(tmp_path):
    file = tmp_path / "train.mrg"
    file.write_bytes(TREES.replace("\n", "\r\n").encode())
    notes = []

    assert len(list(read_trees(file, note=notes.append))) == 2
    assert "ended in \\r\\n" in notes[0]


def test_a_fault_is_named_with_its_file_and_place(tmp_path):
    file = tmp_path / "train.mrg"
    file.write_text("(S (NN a))\n(S (NN b)", encoding="utf-8")

    with pytest.raises(DataError) as caught:
        list(read_trees(file))

    assert str(caught.value) == (
        f"the file {file} ends while (S of line 2, column 1 is open; each '(' needs "
        "its ')'"
    )


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        list(read_trees(tmp_path / "none.mrg"))


TREEBANKS = {
    "treebank-craft": {
        "train.mrg.gz": 18_951,
        "dev.mrg.gz": 2_780,
        "test.mrg.gz": 9_099,
    },
    "treebank-gum": {
        "train.ptb.gz": 10_224,
        "dev.ptb.gz": 1_575,
        "test.ptb.gz": 1_464,
        "test2.ptb.gz": 1_334,
    },
}
"""Files of real treebanks, and how many trees each has."""


@pytest.mark.parametrize(
    ("treebank", "file"),
    [(treebank, file) for treebank, files in TREEBANKS.items() for file in files],
)
def test_every_tree_of_a_real_treebank_is_read_written_and_linearized(
    corpora, treebank, file
):
    # A word of treebank-craft has a space in it.
    found = list(read_trees(corpora / treebank / file, join_words="_"))

    assert len(found) == TREEBANKS[treebank][file]
    for tree in found:
        assert parse_tree(str(tree), keep_outer=True) == tree
        normal = normalize_tree(tree)
        if normal is not None:
            again = parse_linearized(linearize(normal), normal.words, tags=normal.tags)
            assert again == normal
