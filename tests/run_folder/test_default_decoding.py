"""The decoding settings that are stored with a model."""

import pytest

from headwise.data.prepare import prepare
from headwise.data.prepared import SplitFacts
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.decoding.settings import DecodingSettings
from headwise.run_folder.default_decoding import (
    default_decoding,
    read_default_decoding,
)
from headwise.run_folder.paths import BEST
from headwise.text.settings import TextSettings


def facts(several, pairs=100):
    return SplitFacts(
        pairs=pairs,
        source_tokens=0,
        target_tokens=0,
        longest_source=0,
        longest_target=0,
        several_sentences=several,
    )


@pytest.mark.parametrize(
    ("several", "asked_for", "stored"),
    [
        (4, None, True),
        (5, None, False),
        (None, None, None),
        (0, False, False),
        (90, True, True),
    ],
)
def test_the_training_text_tells_whether_sentences_are_split(
    several, asked_for, stored
):
    decoding = DecodingSettings(split_sentences=asked_for)

    assert default_decoding(decoding, facts(several)).split_sentences is stored


def test_a_model_of_single_sentences_splits_them(tiny_run):
    assert read_default_decoding(tiny_run / BEST).split_sentences is True


def test_sentences_of_the_training_text_are_counted(tmp_path):
    several = ["One {}. Two.", "Three {}! Really?"]
    single = ["Dr. Who is {}.", "no end {}", "A. {} B."]
    path = tmp_path / "text.tsv"
    lines = [each.format(f"x{n}") for each in several + single for n in range(30)]
    path.write_text("".join(f"{each}\t{each}\n" for each in lines))
    data = DataSettings(corpora=(CorpusSettings(source=str(path)),), dev_pairs=10)

    corpus = prepare(data, TextSettings(vocab_size=60), tmp_path / "corpus", seed=1)

    in_dev = sum(each.startswith(("One", "Three")) for each in corpus.dev_text[0])
    assert corpus.facts.train.several_sentences == 60 - in_dev
    assert corpus.facts.dev.several_sentences is None
