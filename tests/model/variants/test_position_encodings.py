"""The number of a position and its fraction, and what the paper's sinusoids do better.

Kazemnejad's five criteria, as explanations of the paper quote them: a positional
encoding should be unique for each position, adapt to any length, have bounded values,
have the same difference between two positions in texts of any length, and be
deterministic.
"""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from tests.model.conftest import VOCABULARY

from headwise.errors import ModelError, SettingsError
from headwise.model import TransformerConfig
from headwise.model.config import PositionName
from headwise.model.positions import AddPositions, PositionIds
from headwise.model.rotary_positions import RotaryPositions
from headwise.model.variants.position_encodings import (
    PositionFractions,
    PositionNumbers,
)
from headwise.model.variants.relative_positions import RELATIVE_POSITIONS

CONFIG = TransformerConfig(d_model=32, num_heads=2, max_positions=600)
LENGTHS = (5, 400, 3000)

BROKEN = {
    "sinusoidal": set(),
    "sinusoidal_halves": set(),
    "rotary": set(),
    "learned": {"any length"},
    "none": {"unique"},
    "number": {"bounded"},
    "fraction": {"same difference"},
    "alibi": {"bounded"},
    "shaw": {"unique"},
    "t5": {"unique"},
}
"""What each kind of position breaks; of relative ones, for each distance to a first
position instead of each position."""


def encoded(name, length):
    """Return what tells the positions [L] of a text apart, [L P]; in an encoder."""
    torch.manual_seed(1)
    config = replace(CONFIG, positions=name)
    if name == "rotary":
        return RotaryPositions(16).up_to(length, torch.zeros(0))
    if name in RELATIVE_POSITIONS:
        positions = RELATIVE_POSITIONS[name](config, False)
        with torch.no_grad():
            for each in positions.parameters():
                each.copy_(torch.randn_like(each))
        distances = torch.arange(length)[None]
        ones = torch.ones(1, 2, 1, 16)
        return positions.scores(ones, distances)[0, :, 0].T.detach()
    add = AddPositions(config)
    with torch.no_grad():
        for each in add.parameters():
            each.copy_(torch.randn_like(each))
    is_real = torch.ones(1, length, dtype=torch.bool)
    return add(torch.zeros(1, length, 32), 0, is_real)[0].detach()


def broken_by(name):
    """Return which criteria the encodings break."""
    broken = set()
    found = {}
    for length in LENGTHS:
        try:
            found[length] = encoded(name, length)
        except ModelError:
            broken.add("any length")
    for table in found.values():
        apart = torch.cdist(table.double(), table.double())
        apart.fill_diagonal_(1)
        if len(table) <= 400 and bool((apart < 1e-9).any()):
            broken.add("unique")
    sizes = {n: table.abs().max().item() for n, table in found.items()}
    if max(sizes.values()) > 2 * sizes[400]:
        broken.add("bounded")
    differences = [table[3] - table[1] for table in found.values()]
    if any(not torch.allclose(each, differences[0]) for each in differences):
        broken.add("same difference")
    if any(not torch.equal(encoded(name, n), table) for n, table in found.items()):
        broken.add("deterministic")
    return broken


@pytest.mark.parametrize("name", get_args(PositionName))
def test_each_kind_of_position_breaks_the_criteria_that_it_is_known_to(name):
    assert broken_by(name) == BROKEN[name]


def test_numbers_by_hand():
    x = torch.zeros(1, 3, 2)
    assert PositionNumbers(2)(x, 4).tolist() == [[4, 4], [5, 5], [6, 6]]


def test_fractions_of_an_encoder_by_hand():
    """pos / (T - 1) with the length of each text; one token alone is at 0."""
    scheme = PositionFractions(600, 1)
    is_real = torch.arange(5) < torch.tensor([[5], [3], [1]])

    fractions = scheme.of_texts(torch.zeros(3, 5, 1), is_real)[..., 0]

    assert fractions[0].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert fractions[1, :3].tolist() == [0, 0.5, 1]
    assert fractions[2, 0].item() == 0


def test_fractions_of_a_decoder_divide_by_the_longest_text():
    """So a position has one encoding in every text, known when it is generated."""
    scheme = PositionFractions(5, 1)
    assert scheme(torch.zeros(1, 5, 1), 0)[:, 0].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert scheme(torch.zeros(1, 1, 1), 3)[:, 0].tolist() == [0.75]


def test_fractions_beyond_the_longest_text_raise():
    with pytest.raises(ModelError, match=r"position 6 is beyond 5 \(max_positions\)"):
        PositionFractions(5, 1)(torch.zeros(1, 3, 1), 3)


def test_a_decoder_says_when_a_text_is_too_long(small, batch):
    source, target, is_real = batch
    model = small(positions="fraction", max_positions=4)
    with pytest.raises(ModelError, match="beyond 4"):
        model(source, target, is_real)


def test_an_encoder_reads_texts_of_any_length(encoder_only):
    model = encoder_only(positions="fraction", max_positions=4)
    tokens = torch.randint(1, VOCABULARY, (1, 50))
    assert model(tokens, tokens > 0).isfinite().all()


@pytest.mark.parametrize("name", ["number", "fraction"])
def test_position_ids_of_packed_rows_get_the_encodings_of_their_positions(name):
    add = AddPositions(replace(CONFIG, positions=name))
    x = torch.zeros(2, 3, 32)
    ids = torch.tensor([[0, 1, 2], [1, 0, 2]])

    out = add(x, PositionIds(ids, 3))

    assert torch.equal(out[0], add(x, 0)[0])
    assert torch.equal(out[1], add(x, 0)[0][[1, 0, 2]])


@pytest.mark.parametrize("name", ["number", "fraction"])
def test_what_is_added_to_all_channels_is_lost_in_layer_normalization(name):
    """So settings under which nothing sees it before are refused."""
    add = AddPositions(replace(CONFIG, positions=name))
    x, norm = torch.randn(1, 3, 32, dtype=torch.float64), torch.nn.LayerNorm(32)
    torch.testing.assert_close(norm.double()(add(x, 0)), norm(x))

    for other in ({"norm": "pre"}, {"embedding_norm": True}):
        with pytest.raises(SettingsError, match="takes away again"):
            replace(CONFIG, positions=name, **other)
        replace(CONFIG, positions=name, norm_kind="rms", **other)


@pytest.mark.parametrize("name", ["number", "fraction"])
def test_they_can_stand_beside_an_embedding(name):
    config = replace(
        CONFIG,
        positions=name,
        position_join="concatenate",
        d_position=1,
        tie_embeddings="none",
    )
    x = torch.randn(2, 3, 31)

    joined = AddPositions(config)(x, 0)

    assert torch.equal(joined[..., :31], x)
    assert joined[0, :, 31].tolist() == joined[1, :, 31].tolist()
    assert joined[0, 2, 31] == 2 * joined[0, 1, 31] > 0
