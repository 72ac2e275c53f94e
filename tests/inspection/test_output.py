"""Probabilities of an output and its alternatives, against NumPy and forced scores."""

import math

import numpy as np
import pytest
import torch
from tests.reference.numpy_transformer import NumpyTransformer

from headwise.inspection import output as module
from headwise.inspection.output import output_of

TEXT = "The dog sees two cats."
WRONG = "Le chien voit deux chevaux."


class Letters:
    """A tokenizer whose tokens are numbers."""

    def pieces(self, ids):
        return [f"t{each}" for each in ids]

    def decode(self, ids):
        return " ".join(self.pieces(ids))


def test_positions_are_those_of_an_independent_forward_pass(model, pair):
    numbers = NumpyTransformer(model).run(list(pair.source), list(pair.decoder_input))

    found = output_of(model, pair, Letters(), count=4)

    assert found.text == "t6 t8 t11 t4"
    for position, row in zip(found.positions, numbers["log_p"], strict=True):
        order = np.argsort(-row, kind="stable")
        assert [each.token for each in position.alternatives] == order[:4].tolist()
        probabilities = [each.probability for each in position.alternatives]
        np.testing.assert_allclose(probabilities, np.exp(row[order[:4]]), atol=1e-10)
        assert position.log_probability == pytest.approx(row[position.token], abs=1e-10)
        assert position.rank == order.tolist().index(position.token) + 1
        entropy = -(np.exp(row) * row).sum()
        assert position.entropy == pytest.approx(entropy, abs=1e-10)
    assert found.log_probability == pytest.approx(
        sum(each.log_probability for each in found.positions)
    )


def test_parts_of_the_logits_change_nothing(model, pair, monkeypatch):
    whole = output_of(model, pair, Letters())
    monkeypatch.setattr(module, "POSITIONS_AT_ONCE", 2)

    found = output_of(model, pair, Letters())

    for ours, theirs in zip(found.positions, whole.positions, strict=True):
        assert ours.token == theirs.token
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-12)


def test_a_forced_output_has_the_score_that_the_scorer_gives(demo):
    (candidate,) = demo.score([TEXT], [WRONG], token_scores=True)

    found = demo.inspector.output(TEXT, WRONG)

    assert found.text == WRONG
    assert found.log_probability == pytest.approx(candidate.log_probability, abs=1e-4)
    for ours, (piece, log_p) in zip(found.positions, candidate.tokens, strict=True):
        assert ours.piece == piece
        assert ours.log_probability == pytest.approx(log_p, abs=1e-5)
    worst = min(found.positions, key=lambda each: each.log_probability)
    assert worst.rank > 1
    assert worst.alternatives[0].piece not in WRONG


def test_the_models_own_output_is_that_of_its_default_search(demo):
    found = demo.inspector.output(TEXT)

    assert found.text == demo.translate(TEXT)
    assert found.positions[-1].piece == "</s>"
    assert math.isfinite(found.log_probability)


def test_more_alternatives_than_there_are_tokens_are_all_of_them(model, pair):
    found = output_of(model, pair, Letters(), count=100)

    for each in found.positions:
        assert len(each.alternatives) == 13
        assert sum(x.probability for x in each.alternatives) == pytest.approx(1)


def test_half_precision_is_computed_in_float32(pair):
    from tests.inspection.conftest import random_model

    model = random_model(torch.bfloat16)

    found = output_of(model, pair, Letters(), count=13)

    total = sum(each.probability for each in found.positions[0].alternatives)
    assert total == pytest.approx(1, abs=1e-5)
