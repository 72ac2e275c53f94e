"""Text files: some validation lines are kept as text, for samples."""

import pytest

from headwise.data.pair_formats import DOCUMENTS
from headwise.data.prepare import prepare
from headwise.data.prepared import PreparedCorpus
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.errors import DataError
from headwise.text.settings import TextSettings

TEXT = TextSettings(tokenizer="characters", normalization="lossless", joint=True)


def test_of_a_long_line_the_first_words_are_kept_as_a_sample(tmp_path):
    """Samples are printed at each validation, and a document may be one line."""
    files = {"train": "one two\n" * 40, "dev": f"{'word ' * 100}\n{'x' * 300}\nend\n"}
    for name, text in files.items():
        (tmp_path / f"{name}.txt").write_text(text)
    train, dev = (
        CorpusSettings(source=str(tmp_path / f"{name}.txt"), format="text")
        for name in files
    )

    prepare(
        DataSettings(corpora=(train,), dev=dev),
        TEXT,
        tmp_path / "out",
        seed=1,
        pair_format=DOCUMENTS,
    )

    sources, targets = PreparedCorpus.open(tmp_path / "out").dev_text
    assert sources == ["word " * 39 + "word", "x" * 200]
    assert targets == ["x" * 200, "end"]


def test_one_token_is_too_little_to_train_with(tmp_path):
    """There is none after it to predict: of these lines the first is for training."""
    (tmp_path / "train.txt").write_text("\nword\n")
    train = CorpusSettings(source=str(tmp_path / "train.txt"), format="text")

    with pytest.raises(DataError, match="1 tokens for training and 6 for validation"):
        prepare(
            DataSettings(corpora=(train,)),
            TEXT,
            tmp_path / "out",
            seed=1,
            pair_format=DOCUMENTS,
        )
    assert not (tmp_path / "out").exists()
