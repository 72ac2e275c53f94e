"""Vocabulary shortlists: likely tokens, learned from pairs, and restricted searches."""

import numpy as np
import pytest
import torch
from benchmarks.lexicon import (
    Restricted,
    Shortlist,
    by_frequency,
    outputs,
    translations,
)

from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.data.example_stores import Side
from headwise.decoding.settings import DecodingSettings
from headwise.model import PRESETS, Transformer
from headwise.text.vocabulary import SPECIALS

VOCABULARY = 12
THE, HOUSE, BOOK, A, DAS, HAUS, BUCH, EIN = range(4, VOCABULARY)
PAIRS = [
    ([THE, HOUSE], [DAS, HAUS]),
    ([THE, BOOK], [DAS, BUCH]),
    ([A, BOOK], [EIN, BUCH]),
]


class Pairs:
    """What a store of prepared pairs gives of ``PAIRS``."""

    def __len__(self):
        return len(PAIRS)

    def sides(self, indices):
        return tuple(
            Side(
                np.concatenate([PAIRS[index][side] for index in indices]),
                np.array([len(PAIRS[index][side]) for index in indices]),
            )
            for side in (0, 1)
        )


def test_the_translation_of_each_word_is_learned_from_three_pairs():
    """The textbook example: only "Haus" is never beside another "the"."""
    best = translations(Pairs(), VOCABULARY)[:, 0]

    assert best[[THE, HOUSE, BOOK, A]].tolist() == [DAS, HAUS, BUCH, EIN]


def test_what_no_source_holds_has_no_translation():
    assert (translations(Pairs(), VOCABULARY)[DAS] == -1).all()


def test_frequent_tokens_are_those_of_targets():
    assert by_frequency(Pairs(), VOCABULARY).tolist() == [DAS, BUCH, HAUS, EIN]


def test_a_list_holds_specials_frequent_tokens_the_source_and_its_translations():
    shortlist = Shortlist(
        translations(Pairs(), VOCABULARY),
        by_frequency(Pairs(), VOCABULARY),
        likely=1,
        frequent=1,
    )

    assert shortlist.of([HOUSE]).tolist() == [0, 1, 2, 3, HOUSE, DAS, HAUS]


def test_a_vmap_has_a_rule_for_each_token_and_one_for_all(tmp_path):
    shortlist = Shortlist(
        translations(Pairs(), VOCABULARY),
        by_frequency(Pairs(), VOCABULARY),
        likely=1,
        frequent=2,
    )
    pieces = [*SPECIALS, "the", "house", "book", "a", "das", "Haus", "Buch", "ein"]

    shortlist.write_vmap(tmp_path / "vmap.txt", pieces)

    lines = (tmp_path / "vmap.txt").read_text("utf-8").split("\n")
    assert lines[0] == "\tdas Buch"
    assert "house\thouse Haus" in lines
    assert "das\tdas" in lines


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    return TorchDecoder(Transformer(PRESETS["micro"].config, 60, seed=3).eval())


SOURCES = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 13, 14, 15, 16, 17], [18]]


def list_of(source):
    near = [(token * step) % 60 for token in source for step in (1, 2, 3, 5, 7)]
    return np.unique([*range(len(SPECIALS)), *range(20, 30), *near])


@pytest.mark.parametrize("beam", [1, 3])
def test_who_shares_a_batch_changes_no_sentence(decoder, beam):
    settings = DecodingSettings(beam=beam, max_length_offset=6)

    def written(sources):
        limited = Restricted(decoder, [list_of(each) for each in sources])
        return [
            limited.ids[list(each.tokens)].tolist()
            for each in outputs(limited, sources, settings)
        ]

    together = written(SOURCES)

    assert together == [written([source])[0] for source in SOURCES]
    for source, tokens in zip(SOURCES, together, strict=True):
        assert set(tokens) <= set(list_of(source).tolist())


def test_a_list_of_all_tokens_is_no_restriction(decoder):
    settings = DecodingSettings(beam=3, max_length_offset=6)
    limited = Restricted(decoder, [np.arange(60)] * len(SOURCES))

    assert [each.tokens for each in outputs(limited, SOURCES, settings)] == [
        each.tokens for each in outputs(decoder, SOURCES, settings)
    ]
