"""Positions: the sinusoids of Section 3.5 and what stands in their place."""

import math
from dataclasses import replace
from typing import get_args

import pytest
import torch

from headwise.errors import ModelError
from headwise.model import TransformerConfig
from headwise.model.config import PositionName
from headwise.model.positions import (
    POSITIONS,
    AddPositions,
    LearnedPositions,
    Sinusoids,
    sinusoids,
    sinusoids_in_halves,
)

FORMULAS = {"interleaved": sinusoids, "halves": sinusoids_in_halves}
BOTH = pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)


def table(rows, width, formula=sinusoids, first=0):
    return formula(torch.arange(first, first + rows), width)


def test_the_first_two_positions_of_four_channels():
    """Worked by hand: 10000^(0/4) = 1 and 10000^(2/4) = 100.

    The first word stands at position 0, where every sine is 0 and every cosine 1.
    """
    by_hand = [
        [0, 1, 0, 1],
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
    ]

    expected = torch.tensor(by_hand, dtype=torch.float64)
    torch.testing.assert_close(table(2, 4), expected, rtol=0, atol=1e-15)


def test_every_entry_follows_the_formula_of_the_paper():
    made = table(50, 512)

    for position, i in [(0, 0), (1, 255), (20, 3), (49, 100)]:
        angle = position / 10000 ** (2 * i / 512)
        assert made[position, 2 * i].item() == pytest.approx(math.sin(angle))
        assert made[position, 2 * i + 1].item() == pytest.approx(math.cos(angle))


def test_halves_hold_all_sines_and_then_all_cosines():
    made, interleaved = table(9, 6, sinusoids_in_halves), table(9, 6)

    assert torch.equal(made[:, :3], interleaved[:, 0::2])
    assert torch.equal(made[:, 3:], interleaved[:, 1::2])


@BOTH
def test_no_two_positional_encodings_are_close(formula):
    """Criterion 1. The distance of two positions depends on how far they are apart
    alone, so it is enough to compare the first with all others.
    """
    made = table(20_000, 512, formula)

    nearest = (made[1:] - made[0]).norm(dim=1).min()

    assert nearest > 1


@BOTH
def test_sinusoids_have_no_maximum_length(formula):
    """Criterion 2."""
    far = Sinusoids(formula, 8)(torch.zeros(1, 3, 8), 100_000)

    expected = table(3, 8, formula, first=100_000).float()
    assert torch.equal(far, expected)


@BOTH
def test_sinusoids_stay_between_minus_one_and_one(formula):
    """Criterion 3."""
    assert table(20_000, 64, formula).abs().max() <= 1


@BOTH
def test_encodings_do_not_depend_on_the_sentence_length(formula):
    """Criterion 4: a difference of two positions asks only which two they are."""
    short = Sinusoids(formula, 8)(torch.zeros(1, 5, 8), 0)
    long = Sinusoids(formula, 8)(torch.zeros(1, 999, 8), 0)

    assert torch.equal(short, long[:5])


@BOTH
def test_the_distance_of_encodings_depends_on_the_offset_alone(formula):
    """The length of a step of 7, from wherever it is taken."""
    made = table(500, 512, formula)

    steps = (made[7:] - made[:-7]).norm(dim=1)

    torch.testing.assert_close(steps, steps[:1].expand_as(steps))


@BOTH
def test_a_table_is_the_same_however_it_grew(formula):
    """Criterion 5, and growing does not change what was there."""
    grown, fresh = Sinusoids(formula, 8), Sinusoids(formula, 8)
    word, text = torch.zeros(1, 1, 8), torch.zeros(1, 700, 8)

    first = grown(word, 3)

    assert torch.equal(grown(text, 0), fresh(text, 0))
    assert torch.equal(grown(word, 3), first)


def shift(offset, width):
    """F(δ) for the interleaved order: a turn for each pair of sine and cosine."""
    turns = []
    for i in range(width // 2):
        angle = torch.tensor(offset / 10000 ** (2 * i / width), dtype=torch.float64)
        sin, cos = angle.sin(), angle.cos()
        turns.append(torch.stack([torch.stack([cos, sin]), torch.stack([-sin, cos])]))
    return torch.block_diag(*turns)


@pytest.mark.parametrize("offset", [-3, 0, 1, 17, 400])
@BOTH
def test_a_position_further_on_is_a_linear_map_of_this_one(formula, offset):
    """PE(pos + δ) = F(δ) PE(pos), with

    F = [ cos wδ   sin wδ ]
        [−sin wδ   cos wδ ]   for the pair (sin, cos) of frequency w.
    """
    width, rows = 16, 300
    turn = shift(offset, width)
    if formula is sinusoids_in_halves:
        order = torch.tensor([*range(0, width, 2), *range(1, width, 2)])
        turn = turn[order][:, order]

    moved = table(rows, width, formula, first=500) @ turn.T

    expected = table(rows, width, formula, first=500 + offset)
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-12)


def test_a_frequency_of_its_own_for_each_channel_would_leave_no_such_map():
    """The best matrix for one step still misses by a tenth of a channel's range.

    A channel cos(wk) alone, without sin(wk) beside it, does not tell cos(w(k + 1)).
    """
    position = torch.arange(1, 400, dtype=torch.float64)[:, None]
    frequency = 10000 ** (-torch.arange(1, 9, dtype=torch.float64) / 4)
    alone = (position * frequency).cos()
    alone[:, 1::2] = (position * frequency).sin()[:, 1::2]
    paired = table(400, 8)

    for made, smallest, largest in [(alone, 0.1, 9), (paired, 0, 1e-9)]:
        best = torch.linalg.lstsq(made[:-1], made[1:]).solution
        missed = (made[:-1] @ best - made[1:]).abs().max().item()
        assert smallest <= missed <= largest


def test_wavelengths_grow_geometrically_from_2_pi_towards_10000_times_that():
    first = table(2, 512)[1]
    frequencies = torch.atan2(first[0::2], first[1::2])

    wavelengths = 2 * torch.pi / frequencies

    ratios = wavelengths[1:] / wavelengths[:-1]
    assert wavelengths[0].item() == pytest.approx(2 * math.pi)
    torch.testing.assert_close(ratios, ratios[:1].expand(255))
    next_one = (wavelengths[-1] * ratios[-1]).item()
    assert next_one == pytest.approx(10000 * 2 * math.pi)


def test_far_positions_keep_their_phase_in_single_precision():
    """pos / 10000^… computed in float32 would be off by 0.004 at position 100,000."""
    far = Sinusoids(sinusoids, 512)(torch.zeros(1, 1, 512), 100_001)[0]

    for i in (0, 7, 100):
        exact = math.sin(100_001 / 10000 ** (2 * i / 512))
        assert far[2 * i].item() == pytest.approx(exact, abs=1e-7)


def test_a_model_used_in_float32_is_exact_again_in_float64():
    """Once the table was kept as a buffer, and a cast took its rounding along."""
    scheme = Sinusoids(sinusoids, 8)
    scheme(torch.zeros(1, 5, 8), 0)

    exact = scheme.double()(torch.zeros(1, 5, 8, dtype=torch.float64), 0)

    assert torch.equal(exact, table(5, 8))


def test_positions_used_in_inference_mode_can_be_trained_afterwards():
    scheme = Sinusoids(sinusoids, 8)
    with torch.inference_mode():
        scheme(torch.zeros(1, 5, 8), 0)
    x = torch.zeros(1, 5, 8, requires_grad=True)

    (x + scheme(x, 0)).square().sum().backward()

    assert torch.equal(x.grad[0], 2 * table(5, 8).float())


WIDE = TransformerConfig(
    d_model=1024, num_heads=8, position_join="concatenate", tie_embeddings="none"
)


def test_concatenated_positions_stand_beside_the_embedding():
    """[x p]: 512 channels of the word and 512 of its position are 1,024."""
    x = torch.randn(2, 5, 512)

    joined = AddPositions(WIDE)(x, 3)

    assert joined.shape == (2, 5, 1024)
    assert torch.equal(joined[..., :512], x)
    assert torch.equal(
        joined[..., 512:], table(5, 512, first=3).float().expand(2, -1, -1)
    )


def test_a_concatenated_position_may_be_narrow():
    x = torch.randn(2, 5, 1000)

    joined = AddPositions(replace(WIDE, d_position=24))(x, 0)

    assert torch.equal(joined[0, :, 1000:], table(5, 24).float())


def learned(rows):
    scheme = LearnedPositions(rows, 8)
    torch.nn.init.normal_(scheme.vectors)
    return scheme


def test_learned_positions_are_rows_of_a_table():
    scheme = learned(5)

    rows = scheme(torch.zeros(3, 2, 8), 3)

    assert torch.equal(rows, scheme.vectors[3:5])


def test_positions_beyond_the_learned_table_raise():
    with pytest.raises(ModelError, match=r"for position 6: this model has only 5"):
        learned(5)(torch.zeros(1, 3, 8), 3)


def test_without_positions_embeddings_are_unchanged():
    x = torch.randn(2, 5, 512)

    assert AddPositions(TransformerConfig(positions="none"))(x, 9) is x


def test_every_scheme_that_settings_offer_exists():
    assert set(POSITIONS) == set(get_args(PositionName))
