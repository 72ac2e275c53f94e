"""Every number of one word's way through a block, against NumPy in float64."""

import numpy as np
import pytest
from tests.reference.numpy_transformer import NumpyTransformer

from headwise.errors import UsageError
from headwise.inspection.interventions import HeadOff, intervene
from headwise.inspection.places import all_heads, parse_head
from headwise.inspection.word_steps import word_steps

OF_HEAD = {
    "query": "queries",
    "scores": "scores",
    "scaled_scores": "scaled",
    "masked_scores": "masked",
    "weights": "weights",
    "head_output": "head",
}
OF_LAYER = {"keys": "keys", "values": "values"}
OF_SUBLAYER = {"x": "residual", "output": "output", "sum": "sum", "result": "result"}


def close(ours, theirs):
    np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-10)


def test_every_array_is_that_of_an_independent_computation(model, pair, numbers):
    for head in all_heads(model):
        length = len(pair.source) if head.kind == "encoder" else len(pair.target)
        for position in range(length):
            found = word_steps(model, pair, head, position)
            for ours, theirs in OF_HEAD.items():
                close(getattr(found, ours), numbers[f"{head}.{theirs}"][position])
            for ours, theirs in OF_LAYER.items():
                close(getattr(found, ours), numbers[f"{head}.{theirs}"])
            row = numbers[f"{head}.weights"][position]
            values = numbers[f"{head}.values"]
            close(found.weighted_values, row[:, None] * values)
            close(
                found.concatenation,
                numbers[f"{head.attention}.concatenation"][position],
            )
            masked = numbers[f"{head}.masked"][position]
            assert found.mask == tuple(np.isfinite(masked))


def test_the_rest_of_the_block_follows(model, pair, numbers):
    names = {
        "encoder.1.3": ["encoder.1.attention", "encoder.1.ff"],
        "decoder.0.1": ["decoder.0.attention", "cross.0.attention", "decoder.0.ff"],
        "cross.1.0": ["cross.1.attention", "decoder.1.ff"],
    }
    for head, expected in names.items():
        found = word_steps(model, pair, parse_head(head), 2).sublayers
        assert len(found) == len(expected)
        for steps, name in zip(found, expected, strict=True):
            for ours, theirs in OF_SUBLAYER.items():
                close(getattr(steps, ours), numbers[f"{name}.{theirs}"][2])
            close(steps.input, numbers[f"{name}.input"][2])
            if steps.hidden is not None:
                close(steps.hidden, numbers[f"{name}.hidden"][2])
                close(steps.activated, numbers[f"{name}.activated"][2])
        assert [each.hidden is not None for each in found] == [
            name.endswith("ff") for name in expected
        ]


def test_one_step_follows_from_the_one_before(model, pair):
    """Within the result: what a reader can check with a pocket calculator."""
    found = word_steps(model, pair, parse_head("decoder.1.2"), 3)

    weights = found.masked_scores.exp() / found.masked_scores.exp().sum()
    close(found.weights, weights.numpy())
    close(found.head_output, (weights[:, None] * found.values).sum(0).numpy())
    assert found.mask == (True, True, True, True, False)
    assert found.weights[4] == 0
    width = len(found.head_output)
    close(found.concatenation[2 * width : 3 * width], found.head_output.numpy())
    layer = model.decoder.blocks[1].self_attention
    output = layer.to_output(found.concatenation).detach()
    close(found.sublayers[0].output, output.numpy())
    for each in found.sublayers:
        close(each.sum, (each.x + each.output).numpy())


def test_a_rotated_query_is_shown_before_too(model, pair):
    numbers = NumpyTransformer(model).run(list(pair.source), list(pair.decoder_input))
    own = word_steps(model, pair, parse_head("encoder.0.1"), 4)
    cross = word_steps(model, pair, parse_head("cross.0.1"), 4)

    if model.config.positions == "rotary":
        close(own.query_before_rotation, numbers["encoder.0.1.plain_queries"][4])
    else:
        assert own.query_before_rotation is None
    assert cross.query_before_rotation is None


def test_pieces_are_those_of_the_stack(model, pair):
    encoder = word_steps(model, pair, parse_head("encoder.0.0"), 1)
    decoder = word_steps(model, pair, parse_head("decoder.0.0"), 0)
    cross = word_steps(model, pair, parse_head("cross.0.0"), 1)

    assert (encoder.piece, encoder.attended) == ("t7", pair.source_pieces)
    assert (decoder.piece, decoder.attended) == ("<s>", pair.decoder_pieces)
    assert (cross.piece, cross.attended) == ("t6", pair.source_pieces)


def test_a_head_that_is_off_is_missing_from_the_concatenation(model, pair):
    head = parse_head("encoder.0.1")
    with intervene(model, HeadOff(head)):
        found = word_steps(model, pair, head, 2)

    width = len(found.head_output)
    assert (found.concatenation[width : 2 * width] == 0).all()
    assert (found.head_output != 0).any()


@pytest.mark.parametrize("position", [-1, 6])
def test_a_position_that_there_is_not_is_refused(model, pair, position):
    said = f"no position {position}: encoder.0 has 6 positions, from 0 to 5"
    with pytest.raises(UsageError, match=said):
        word_steps(model, pair, parse_head("encoder.0.0"), position)
