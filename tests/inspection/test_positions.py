"""Positional encodings, against NumPy, the model's own embeddings and hand counting."""

import math

import numpy as np
import pytest
import torch
from tests.inspection.conftest import pair_of, random_model

from headwise.errors import UsageError
from headwise.inspection.positions import binary_digits, positions_of
from headwise.model.rotary_positions import rotate
from headwise.reports.input_drawings import draw_positions
from headwise.reports.input_text import positions_text

KINDS = ("sinusoidal", "sinusoidal_halves", "learned", "rotary")


def by_formula(length, width):
    """Section 3.5, one number after the other."""
    table = np.zeros((length, width))
    for position in range(length):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_an_encoding_for_each_position_of_the_longer_side(kind, pair):
    found = positions_of(random_model(positions=kind), pair)

    assert found.kind == kind
    assert (found.source, found.decoder_input) == (
        pair.source_pieces,
        pair.decoder_pieces,
    )
    assert found.encodings.shape == (6, 4 if kind == "rotary" else 16)


def test_sinusoids_are_those_of_the_paper(pair):
    found = positions_of(random_model(), pair)

    np.testing.assert_allclose(found.encodings, by_formula(6, 16), atol=1e-12)
    assert found.decoder_encodings is None


def test_halves_have_the_sines_first(pair):
    found = positions_of(random_model(positions="sinusoidal_halves"), pair)

    table = by_formula(6, 16)
    halves = np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)
    np.testing.assert_allclose(found.encodings, halves, atol=1e-12)


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves", "learned"])
def test_it_is_what_the_model_adds_to_its_embeddings(kind, pair):
    model = random_model(positions=kind)
    found = positions_of(model, pair)

    for stack, encodings in (
        (model.enter_encoder, found.encodings),
        (
            model.enter_decoder,
            found.encodings
            if found.decoder_encodings is None
            else found.decoder_encodings,
        ),
    ):
        zeros = torch.zeros(1, 6, 16, dtype=torch.float64)
        torch.testing.assert_close(stack.add_positions(zeros, 0)[0], encodings)


def test_learned_tables_of_encoder_and_decoder_are_two(pair):
    found = positions_of(random_model(positions="learned"), pair)

    assert found.wavelengths is None
    assert not torch.equal(found.encodings, found.decoder_encodings)


def test_rotary_encodings_turn_queries_as_the_model_does(pair):
    """A query (1, 0) of each pair of channels becomes (cos, sin) of its angle."""
    found = positions_of(random_model(positions="rotary"), pair)

    query = torch.tensor([1.0, 0.0] * 2, dtype=torch.float64).expand(1, 1, 6, 4)
    turned = rotate(query, found.encodings)[0, 0]
    torch.testing.assert_close(turned[:, 0::2], found.encodings[:, 1::2])
    torch.testing.assert_close(turned[:, 1::2], found.encodings[:, 0::2])
    np.testing.assert_allclose(found.encodings, by_formula(6, 4), atol=1e-12)


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves", "rotary"])
def test_channels_repeat_themselves_after_their_wavelength(kind):
    """Measured: a wave of n positions has 998 / n crests, give or take one, in 1000."""
    long = pair_of((5,) * 1000, (6, 2))
    found = positions_of(random_model(positions=kind), long)

    fast = [x for x, wave in enumerate(found.wavelengths) if wave < 200]
    assert len(fast) >= 2
    for channel in fast:
        values = found.encodings[:, channel].numpy()
        crests = np.count_nonzero(np.diff(np.sign(np.diff(values))) < 0)
        assert crests == pytest.approx(998 / found.wavelengths[channel], abs=1)


def test_a_position_as_binary_digits_by_hand():
    assert binary_digits(5).tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [1, 1, 0],
        [0, 0, 1],
    ]
    assert binary_digits(1).tolist() == [[0]]


def test_a_model_without_positions_says_so(pair):
    found = positions_of(random_model(positions="none"), pair)

    assert found.encodings.numel() == 0
    assert "no positional encodings" in positions_text(found)[0]
    with pytest.raises(UsageError, match="no positional encodings"):
        draw_positions(found)


def test_a_concatenated_encoding_has_its_own_width(pair):
    shape = {"position_join": "concatenate", "tie_embeddings": "none"}
    model = random_model(**shape, d_position=6)

    assert positions_of(model, pair).encodings.shape == (6, 6)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_printed_and_drawn(kind, pair):
    found = positions_of(random_model(positions=kind), pair)

    lines = positions_text(found)
    assert lines[-6].split()[:4] == ["0", "t5", "<s>", "000"]
    assert lines[-1].split()[:3] == ["5", "t2", "101"]
    drawn = draw_positions(found)
    titles = [each.text for each in drawn.shapes if getattr(each, "bold", False)]
    assert titles[0] == "binary"
    assert len(titles) == (3 if kind == "learned" else 2)
