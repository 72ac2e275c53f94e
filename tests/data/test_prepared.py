"""Prepared corpora are verified when opened, and memory-mapped."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from headwise import storage
from headwise.data.example_stores import WeightedRange
from headwise.data.prepare import prepare
from headwise.data.prepared import PreparedCorpus, SplitFacts
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.errors import DataError
from headwise.storage.manifests import manifest_sha256
from headwise.text.settings import TextSettings


@pytest.fixture
def folder(tmp_path) -> Path:
    """Prepare five pairs, three of them to learn from."""
    (tmp_path / "a.tsv").write_text("a b\tA\nc\tC D\na\tA B\n")
    (tmp_path / "dev.tsv").write_text("b a\tB A \u2028 A\nc\tC\x85\n")
    data = DataSettings(
        corpora=(CorpusSettings(source=str(tmp_path / "a.tsv")),),
        dev=CorpusSettings(source=str(tmp_path / "dev.tsv")),
    )
    text = TextSettings(tokenizer="words", vocab_size=50)
    return prepare(data, text, tmp_path / "prepared", seed=1).folder


def manifest_made_anew(folder: Path) -> None:
    """Make the manifest agree with the files, as somebody might by hand."""
    manifest = json.loads((folder / storage.MANIFEST).read_text())
    for name, facts in manifest["files"].items():
        facts["bytes"] = (folder / name).stat().st_size
        facts["sha256"] = storage.sha256(folder / name)
    manifest["sha256"] = manifest_sha256(manifest)
    (folder / storage.MANIFEST).write_text(json.dumps(manifest))


def test_pairs_are_rows_of_tokens_without_specials(store):
    pairs = store([([5, 6], [7]), ([8], [9, 10, 11])])

    assert len(pairs) == 2
    assert [pairs.source(index).tolist() for index in range(2)] == [[5, 6], [8]]
    assert [pairs.target(index).tolist() for index in range(2)] == [[7], [9, 10, 11]]
    assert [each.tolist() for each in pairs.lengths()] == [[2, 1], [1, 3]]
    assert [each.tolist() for each in pairs.lengths(1, 2)] == [[1], [3]]
    assert pairs.ranges == (WeightedRange(0, 2, 1.0),)


def test_rows_are_memory_mapped(store):
    pairs = store([([5, 6], [7])])

    assert not pairs.source(0).flags.owndata
    pairs.release_pages()
    assert pairs.source(0).tolist() == [5, 6]


def test_a_corpus_opens_with_its_facts_and_its_text(folder):
    corpus = PreparedCorpus.open(folder)

    assert (len(corpus.train), len(corpus.dev)) == (3, 2)
    assert corpus.facts.train == SplitFacts(
        pairs=3,
        source_tokens=4,
        target_tokens=5,
        longest_source=2,
        longest_target=2,
        several_sentences=0,
    )
    assert corpus.facts.train.mean_source == pytest.approx(4 / 3)
    assert corpus.facts.train.mean_target == pytest.approx(5 / 3)
    assert corpus.dev_text == (["b a", "c"], ["B A \u2028 A", "C\x85"])
    tokens = corpus.train.target(1).tolist()
    assert corpus.tokenizers.target.decode(tokens) == "C D"
    assert corpus.fields["settings"]["data"]["max_tokens"] == 256


def test_the_arrays_are_plain_npy_files_of_two_bytes_a_token(folder):
    tokens = np.load(folder / "train.tokens.npy", mmap_mode="r", allow_pickle=False)

    assert tokens.dtype == np.uint16
    assert len(tokens) == 9


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("name", ["train.tokens.npy", "tokenizer/vocabulary.json"])
def test_a_folder_with_a_file_cut_or_gone_is_refused(folder, thorough, name):
    whole = (folder / name).read_bytes()
    for damage in (lambda p: p.write_bytes(whole[:-1]), lambda p: p.unlink()):
        damage(folder / name)
        with pytest.raises(DataError, match=name):
            PreparedCorpus.open(folder, thorough=thorough)


def test_a_changed_byte_is_found_by_a_thorough_check(folder):
    path = folder / "dev.tokens.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")

    with pytest.raises(DataError, match=r"dev\.tokens\.npy"):
        PreparedCorpus.open(folder, thorough=True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "not of format 1"),
        ('{"format": 2}', "not of format 1"),
        ('{"format": 1}', "fingerprint is missing"),
        ('{"format": 1, "facts": 5}', "cannot be used"),
        ("{", "cannot be read as JSON"),
    ],
)
def test_invalid_corpus_facts_are_refused(folder, content, said):
    (folder / "prepared.json").write_text(content)
    manifest_made_anew(folder)

    with pytest.raises(DataError, match=said):
        PreparedCorpus.open(folder)


def test_arrays_that_do_not_belong_together_are_refused(folder):
    (folder / "dev.tokens.npy").write_bytes((folder / "train.tokens.npy").read_bytes())
    manifest_made_anew(folder)

    with pytest.raises(DataError, match="does not fit"):
        _ = PreparedCorpus.open(folder).dev


def test_a_folder_of_something_else_is_no_prepared_corpus(tmp_path):
    with pytest.raises(DataError, match="not a prepared corpus"):
        PreparedCorpus.open(tmp_path)


def replace_by_another(folder: Path) -> None:
    """Prepare one more pair and other validation text in the place of ``folder``."""
    (folder.parent / "b.tsv").write_text("d e f\tD\nc\tC D\na\tA\nb\tB\n")
    (folder.parent / "other.tsv").write_text("f\tF\n")
    data = DataSettings(
        corpora=(CorpusSettings(source=str(folder.parent / "b.tsv")),),
        dev=CorpusSettings(source=str(folder.parent / "other.tsv")),
    )
    prepare(data, TextSettings(tokenizer="words", vocab_size=50), folder, seed=1)


def test_an_open_corpus_stays_the_same_when_its_folder_is_replaced(folder):
    corpus = PreparedCorpus.open(folder)
    corpus.open_files()
    before = corpus.dev.target(0).tolist()

    replace_by_another(folder)

    assert PreparedCorpus.open(folder).dev_text == (["f"], ["F"])
    assert corpus.dev_text == (["b a", "c"], ["B A \u2028 A", "C\x85"])
    assert corpus.dev.target(0).tolist() == before
    assert len(corpus.train) == 3
    assert corpus.tokenizers.target.decode(before) == "B A A"


@pytest.mark.parametrize("change", [replace_by_another, shutil.rmtree])
def test_files_of_two_corpora_are_not_opened_together(folder, change):
    """The counts are those of the first, and the files would be of the second."""
    corpus = PreparedCorpus.open(folder)
    assert len(corpus.train) == 3

    change(folder)

    with pytest.raises(DataError, match=r"prepared was prepared again.*start again"):
        corpus.open_files()
