"""Statistics of heads, worked out again sentence by sentence in NumPy."""

import numpy as np
import pytest
import torch
from tests.inspection.conftest import pair_of, random_model
from tests.reference.numpy_transformer import NumpyTransformer

from headwise.errors import DataError, UsageError
from headwise.inspection import head_statistics as module
from headwise.inspection.head_statistics import head_statistics
from headwise.inspection.interventions import ReplaceRow, intervene
from headwise.inspection.places import all_heads, parse_head
from headwise.model import EncoderOnly, TransformerConfig

PAIRS = [([5, 7, 4, 9, 5], [6, 8, 11, 4]), ([7, 5], [8, 6, 8]), ([9, 9, 7], [11])]
RAREST = {"source": [4, 5, 7], "target": [4, 6, 11]}
"""Least frequent token of each sentence by hand; of equals, the lowest id.

Source: 5 three times, 7 three, 9 three, 4 once. Target: 8 three times, 6 twice, 11
twice, 4 once.
"""


def expected(model, head):
    """Return the sums over the rows of all sentences, one sentence at a time."""
    rows = []
    for index, (source, target) in enumerate(PAIRS):
        run = NumpyTransformer(model).run([*source, 2], [1, *target])
        weights = run[f"{head}.weights"]
        keys = [1, *target] if head.kind == "decoder" else [*source, 2]
        rarest = RAREST["target" if head.kind == "decoder" else "source"][index]
        rare = np.array(keys) == rarest
        for q, row in enumerate(weights):
            k = np.arange(len(row))
            positive = row[row > 0]
            rows.append(
                [
                    -(positive * np.log(positive)).sum(),
                    (row * abs(k - q)).sum(),
                    row[q - 1] if 0 < q <= len(row) else 0,
                    row[q] if q < len(row) else 0,
                    row[q + 1] if q + 1 < len(row) else 0,
                    row[rare].sum(),
                    row.argmax() - q,
                ]
            )
    return np.array(rows)


def test_means_are_those_of_each_row_of_each_sentence(model):
    found = head_statistics(model, PAIRS)

    assert [each.head for each in found] == all_heads(model)
    for each in found:
        rows = expected(model, each.head)
        values = [
            each.entropy,
            each.distance,
            each.previous,
            each.same,
            each.next,
            each.rarest,
        ]
        np.testing.assert_allclose(values, rows[:, :6].mean(axis=0), atol=1e-10)
        counts = {offset: (rows[:, 6] == offset).mean() for offset in range(-3, 4)}
        assert each.offset_share == pytest.approx(max(counts.values()))
        assert counts[each.offset] == pytest.approx(each.offset_share)
        assert each.positional == (each.offset_share >= 0.9)


def test_batches_change_nothing(model, monkeypatch):
    whole = head_statistics(model, PAIRS)
    monkeypatch.setattr(module, "BATCH_TOKENS", 1)

    for ours, theirs in zip(head_statistics(model, PAIRS), whole, strict=True):
        assert ours.entropy == pytest.approx(theirs.entropy)
        assert ours.rarest == pytest.approx(theirs.rarest)


def test_a_head_made_to_look_at_the_word_before_is_positional():
    model = random_model(torch.float32)
    head = parse_head("encoder.0.1")
    rows = [
        ReplaceRow(head, q, tuple(float(k == max(q - 1, 0)) for k in range(q + 1)))
        for q in range(12)
    ]
    pairs = [([5, 7, 4, 9, 5, 6, 7, 8, 4, 5, 6], [6])] * 2
    with intervene(model, *rows):
        found = {str(each.head): each for each in head_statistics(model, pairs)}

    each = found["encoder.0.1"]
    assert (each.offset, each.positional) == (-1, True)
    assert each.previous == pytest.approx(11 / 12)
    assert each.entropy == 0
    assert not found["encoder.0.0"].positional


def test_no_pairs_are_refused(model):
    with pytest.raises(DataError, match="no pairs"):
        head_statistics(model, [])


def test_another_kind_of_model_is_refused():
    config = TransformerConfig(encoder_layers=1, decoder_layers=0)

    with pytest.raises(UsageError, match="needs an encoder-decoder Transformer"):
        head_statistics(EncoderOnly(config, 13), [pair_of()])
