"""Neighbours and the map of embeddings, against scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity
from tests.inspection.conftest import SOURCE, TARGET, random_model

from headwise.inspection.embeddings import (
    embeddings_of,
    nearest_tokens,
    principal_components,
)
from headwise.reports.drawing import Text
from headwise.reports.input_drawings import draw_embeddings
from headwise.reports.input_text import embeddings_text
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import TokenizerPair


class Numbers:
    """A tokenizer whose tokens are numbers."""

    def __init__(self, letter):
        self.letter = letter

    def pieces(self, ids):
        return [f"{self.letter}{each}" for each in ids]


SAME = Numbers("t")
TOKENIZERS = TokenizerPair(SAME, SAME, TextSettings())


def test_neighbours_are_those_of_an_independent_computation():
    vectors = random_model().target_embedding.vectors.detach()
    similar = cosine_similarity(vectors.numpy())

    found = nearest_tokens(vectors, SOURCE, 4)

    for token in set(SOURCE):
        row = similar[token].copy()
        row[[0, 1, 2, 3, token]] = -2
        best = np.argsort(-row, kind="stable")[:4]
        assert [each for each, _ in found[token]] == best.tolist()
        np.testing.assert_allclose([x for _, x in found[token]], row[best], atol=1e-12)


def test_more_neighbours_than_there_are_end_with_the_vocabulary():
    """13 tokens, of which 4 are special and one is the token itself."""
    vectors = random_model().target_embedding.vectors.detach()

    assert len(nearest_tokens(vectors, [5], 100)[5]) == 8
    assert len(nearest_tokens(vectors, [2], 100)[2]) == 9


def test_parts_of_a_long_text_change_nothing(monkeypatch):
    vectors = random_model().target_embedding.vectors.detach()
    whole = nearest_tokens(vectors, SOURCE, 3)
    monkeypatch.setattr("headwise.inspection.embeddings.ROWS_AT_ONCE", 2)

    assert nearest_tokens(vectors, SOURCE, 3) == whole


def test_the_map_is_a_principal_component_analysis():
    vectors = torch.randn(9, 5, generator=torch.Generator().manual_seed(1))

    places, explained = principal_components(vectors)

    oracle = PCA(n_components=2).fit(vectors.double().numpy())
    theirs = oracle.transform(vectors.double().numpy())
    np.testing.assert_allclose(explained, oracle.explained_variance_ratio_, atol=1e-12)
    np.testing.assert_allclose(np.abs(places), np.abs(theirs), atol=1e-9)


@pytest.mark.parametrize("count", [1, 2])
def test_few_points_have_a_place_too(count):
    places, explained = principal_components(torch.eye(3)[:count])

    assert places.shape == (count, 2)
    assert explained == pytest.approx((float(count == 2), 0.0))


def test_every_token_is_a_point_and_neighbours_follow_once(pair):
    model = random_model()

    found = embeddings_of(model, pair, TOKENIZERS, count=2)

    sides = [(each.side, each.index, each.token) for each in found.points]
    of_text = [("source", index, token) for index, token in enumerate(SOURCE)]
    of_text += [("target", index, token) for index, token in enumerate(TARGET)]
    assert sides[: len(of_text)] == of_text
    others = [each for each in found.points if each.side == "neighbour"]
    assert len({each.token for each in others}) == len(others)
    assert not {each.token for each in others} & {*SOURCE, *TARGET}
    named = {x.token for each in found.points for x in each.nearest}
    assert named - {*SOURCE, *TARGET} == {each.token for each in others}
    vectors = model.target_embedding.vectors
    for each in found.points:
        assert each.piece == f"t{each.token}"
        norm = float(np.linalg.norm(vectors[each.token].detach().numpy()))
        assert each.norm == pytest.approx(norm, abs=1e-12)


def test_two_embeddings_are_kept_apart(pair):
    model = random_model(tie_embeddings="none")
    tokenizers = TokenizerPair(Numbers("s"), Numbers("t"), TextSettings())

    found = embeddings_of(model, pair, tokenizers, count=2)

    (ours,) = [x for x in found.points if (x.side, x.index) == ("source", 5)]
    (theirs,) = [x for x in found.points if (x.side, x.index) == ("target", 4)]
    assert (ours.token, ours.piece) == (2, "s2")
    assert (theirs.token, theirs.piece) == (2, "t2")
    assert (ours.x, ours.y) != (theirs.x, theirs.y)


def test_tokens_are_printed_and_drawn(pair):
    found = embeddings_of(random_model(), pair, TOKENIZERS, count=2)

    lines = embeddings_text(found)
    assert len(lines) == 1 + len(SOURCE) + len(TARGET) + 2
    assert lines[1].split()[:2] == ["source", "t5"]
    shown = {x.text for x in draw_embeddings(found).shapes if isinstance(x, Text)}
    assert {f"t{each}" for each in (*SOURCE, *TARGET)} < shown
