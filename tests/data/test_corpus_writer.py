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
