"""Alignments by hand."""

import math

import pytest
import torch

from headwise.errors import SettingsError
from headwise.tasks.translation.alignment import (
    align_tokens,
    mutual_information,
    pharaoh_format,
    replace_unknown_tokens,
    select_head,
    surface_of,
    word_indices,
    word_links,
)

UNKNOWN = 3
MARK = "\u2047"


def test_each_token_is_aligned_to_its_highest_weight():
    """Three target tokens and END, two source tokens and END, which does not count."""
    weights = torch.tensor(
        [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.0, 0.0, 1.0]]
    )

    assert align_tokens(weights, [5, 6], [7, 8, 9]) == ((0, 0), (1, 1), (1, 2))
    assert align_tokens(weights, [], [7]) == ()
    assert align_tokens(weights, [5], []) == ()


def test_unknown_tokens_are_aligned_to_unknown_tokens():
    weights = torch.tensor([[0.9, 0.05, 0.05], [0.9, 0.05, 0.05]])

    assert align_tokens(weights, [5, UNKNOWN], [7, UNKNOWN]) == ((0, 0), (1, 1))
    assert align_tokens(weights, [5, 6], [7, UNKNOWN]) == ((0, 0), (0, 1))


def test_words_begin_where_white_space_was():
    assert word_indices(["▁a", "b", "▁", "c", ".", "▁d"]) == [0, 0, 1, 1, 1, 2]
    assert word_indices(["a", "▁b"]) == [0, 1]


def test_links_of_pieces_make_links_of_words_in_pharaohs_form():
    """Pieces ▁a b ▁c of the source, ▁x ▁y z of the target."""
    found = word_links(
        [(0, 0), (2, 1), (1, 2), (2, 2)], ["▁a", "b", "▁c"], ["▁x", "▁y", "z"]
    )

    assert pharaoh_format(found) == "0-0 0-1 1-1"


def test_a_head_is_named_by_block_and_head():
    weights = torch.arange(2 * 3 * 4 * 5).float().reshape(1, 2, 3, 4, 5)

    assert torch.equal(select_head(weights, "1:2"), weights[:, 1, 2])
    assert torch.equal(select_head(weights, "average"), weights[:, 0].mean(1))
    later = select_head(weights, "1:2+1")
    assert torch.equal(later[:, :3], weights[:, 1, 2, 1:])


@pytest.mark.parametrize("head", ["2:0", "0:3", "best", "1:2+2"])
def test_a_missing_alignment_head_is_refused(head):
    with pytest.raises(SettingsError, match="below 2:3"):
        select_head(torch.zeros(1, 2, 3, 4, 5), head)


def test_mutual_information_of_constant_and_random_links():
    """Two words, each always with its own: ln 2. All four pairs alike often: 0."""
    assert mutual_information([(1, 5), (2, 6)] * 10) == pytest.approx(math.log(2))
    assert mutual_information([(1, 5), (1, 6), (2, 5), (2, 6)]) == pytest.approx(0)
    assert mutual_information([(1, 5), (1, 6)]) == pytest.approx(0)
    assert mutual_information([]) == 0


def test_the_surface_of_an_unknown_piece_is_the_rest_of_its_word():
    ids, pieces = [5, 6, UNKNOWN, 7, 8], ["▁The", "▁", "<unk>", "r", "un."]

    assert surface_of("The €run.", ids, pieces, 2) == "€"
    assert surface_of("The €run.", ids, pieces, 0) == "The"
    assert surface_of("too many words here", ids, pieces, 2) == ""


def test_unknown_tokens_are_replaced_from_the_source():
    said = {
        "source": "Ask Őrs.",
        "source_ids": [5, 6, UNKNOWN, 7],
        "source_pieces": ["▁Ask", "▁", "<unk>", "rs."],
    }

    found = replace_unknown_tokens(
        f"Frag {MARK}rs.", [8, UNKNOWN, 9], [(0, 0), (2, 1), (3, 2)], **said
    )
    assert found == "Frag Őrs."


def test_an_unknown_token_without_a_link_keeps_its_mark():
    said = {"source": "a", "source_ids": [5], "source_pieces": ["▁a"]}

    assert replace_unknown_tokens(f"x {MARK}", [8, UNKNOWN], [], **said) == f"x {MARK}"
    assert replace_unknown_tokens(f"x {MARK}", [8], [(0, 0)], **said) == f"x {MARK}"
