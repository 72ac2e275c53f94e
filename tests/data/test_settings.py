"""Data settings: formats follow from file names; all problems are reported together."""

import pytest

from headwise import settings
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.errors import SettingsError


@pytest.mark.parametrize(
    ("source", "target", "layout"),
    [
        ("a.en", "a.de", "lines"),
        ("a.tsv", "b.tsv", "lines"),
        ("a.tsv", None, "tsv"),
        ("A.TSV.GZ", None, "tsv"),
        ("in.v1/a.jsonl.gz", None, "jsonl"),
        ("a.ndjson", None, "jsonl"),
    ],
)
def test_the_file_suffix_determines_the_corpus_format(source, target, layout):
    assert CorpusSettings(source=source, target=target).layout == layout


def test_a_given_corpus_format_overrides_the_suffix():
    assert CorpusSettings(source="a.txt", format="jsonl").layout == "jsonl"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"source": ""}, "source must be a path"),
        ({"source": "a.en"}, "'a.en' has no target"),
        ({"source": "a.gz"}, "'a.gz' has no target"),
        ({"source": "a.en", "format": "lines"}, "needs a target file"),
        ({"source": "a.tsv", "target": "b", "format": "tsv"}, "leave target ('b') out"),
        ({"source": "a.tsv", "source_column": 0}, "count from 1, not 0 and 2"),
        ({"source": "a.tsv", "source_column": 2}, "are both 2"),
        ({"source": "a.jsonl", "source_field": "target"}, "are both 'target'"),
        ({"source": "a.tsv", "weight": 0.0}, "weight must be above 0"),
        ({"source": "a.tsv", "weight": float("nan")}, "not nan"),
        ({"source": "a.tsv", "weight": 101.0}, "at most 100, not 101.0"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_refused(wrong, said):
    with pytest.raises(SettingsError) as raised:
        CorpusSettings(**wrong)

    assert said in str(raised.value)


def test_all_invalid_data_settings_are_reported_together():
    with pytest.raises(SettingsError) as raised:
        DataSettings(dev=CorpusSettings(source="d.tsv"), dev_pairs=0, max_tokens=0)

    assert len(raised.value.problems) == 3


def test_a_table_with_several_corpora_becomes_settings():
    table = {
        "corpora": [{"source": "a.en", "target": "a.de"}, {"source": "b.tsv"}],
        "dev_pairs": 100,
    }

    data = settings.read(DataSettings, table)

    assert [each.layout for each in data.corpora] == ["lines", "tsv"]
    assert data.corpora[0].files == ("a.en", "a.de")
    assert data.dev is None
