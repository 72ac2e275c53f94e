"""Every public corpus says where it is from, and under which licence."""

import re
from urllib.parse import urlsplit

import pytest

from headwise.data.public.catalogue import CORPORA
from headwise.data.public.checksums import checksums, digests_of, stated

UNSTATED = {"iwslt14/de-en.tgz"}
"""Files whose SHA-256 nobody was found to state."""


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_is_described_in_full(name):
    corpus = CORPORA[name]()
    assert corpus.name == name
    assert name.endswith("-".join(corpus.languages))
    assert corpus.num_pairs > 0
    assert all([corpus.license, corpus.publisher, corpus.citation, corpus.split])
    assert urlsplit(corpus.homepage).scheme == "https"


@pytest.mark.parametrize("name", CORPORA)
def test_downloads_have_https_and_checksums(name):
    downloads = CORPORA[name]().downloads
    assert len({each.name for each in downloads}) == len(downloads) > 0
    for each in downloads:
        assert not each.name.startswith("/")
        assert ".." not in each.name
        assert {urlsplit(url).scheme for url in each.urls} == {"https"}
        assert (each.sha256 is None) == (each.name in UNSTATED)
        if each.sha256 is not None:
            assert re.fullmatch("[0-9a-f]{64}", each.sha256)
            assert each.num_bytes
            assert each.stated_by


def test_no_checksum_is_left_over():
    used = {each.name for make in CORPORA.values() for each in make().downloads}
    outputs = {f"{name}/{file}" for name in CORPORA for file in digests_of(name)}
    assert set(checksums()) == (used | outputs) - UNSTATED


def test_a_file_that_nobody_states_has_no_checksum():
    download = stated("unknown.tgz", "https://example.org/unknown.tgz")
    assert (download.sha256, download.num_bytes) == (None, None)
