"""Writing a prepared corpus: a token takes as many bytes as the vocabulary needs."""

from types import SimpleNamespace

import numpy as np
import pytest

from headwise.data.corpus_writer import CorpusWriter
from headwise.data.example_stores import PairStore
from headwise.data.settings import CorpusSettings
from headwise.data.validation_split import HeldOutSources


@pytest.mark.parametrize(
    ("size", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.uint32)]
)
def test_the_largest_token_id_is_stored(tmp_path, size, dtype):
    (tmp_path / "a.tsv").write_text("a\tb\n")
    small = SimpleNamespace(size=10, encode=lambda _: [9])
    large = SimpleNamespace(size=size, encode=lambda _: [4, size - 1])
    tokenizers = SimpleNamespace(source=small, target=large)

    with CorpusWriter(tmp_path, tokenizers, max_tokens=5) as writer:
        writer.write(
            CorpusSettings(source=str(tmp_path / "a.tsv")), HeldOutSources(seed=1)
        )

    pairs = PairStore(tmp_path / "train.tokens.npy", tmp_path / "train.offsets.npy")
    assert pairs.source(0).tolist() == [9]
    assert pairs.target(0).tolist() == [4, size - 1]
    assert pairs.target(0).dtype == dtype


def test_a_pair_that_placeholders_make_too_long_is_written_as_it_is(tmp_path):
    """Here each character is a token, and <copy> is longer than the name."""
    (tmp_path / "a.tsv").write_text("Ann sees\tAnn sieht\n")
    characters = SimpleNamespace(size=128, encode=lambda text: [*map(ord, text)])
    tokenizers = SimpleNamespace(source=characters, target=characters)

    with CorpusWriter(tmp_path, tokenizers, max_tokens=10, placeholders=1.0) as writer:
        writer.write(
            CorpusSettings(source=str(tmp_path / "a.tsv")), HeldOutSources(seed=1)
        )

    pairs = PairStore(tmp_path / "train.tokens.npy", tmp_path / "train.offsets.npy")
    assert bytes(pairs.source(0).tolist()) == b"Ann sees"
    assert bytes(pairs.target(0).tolist()) == b"Ann sieht"
