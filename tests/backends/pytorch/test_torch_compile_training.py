"""What is compiled learns what the readable way learns, and is compiled only once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.torch_compile_training import (
    TorchCompileTraining,
    _pieces,
    explain_compile_errors,
)
from headwise.backends.select_training import cross_entropy_of
from headwise.data.batches import largest_batch
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.data.sequence_packing import PackedBatch
from headwise.errors import ResourceError
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer
from headwise.text.vocabulary import END

SMALL = TransformerConfig(
    encoder_layers=2, decoder_layers=2, d_model=16, d_ff=24, num_heads=2, dropout=0.0
)
KINDS = {
    "published": SMALL,
    "pre-norm": replace(SMALL, norm="pre"),
    "learned positions": replace(SMALL, positions="learned", max_positions=40),
    "rotary positions": replace(SMALL, positions="rotary"),
    "concatenated": replace(
        SMALL, position_join="concatenate", tie_embeddings="none", output_bias=True
    ),
    "uneven heads": replace(SMALL, d_k=3, d_v=5, attention_bias=True),
}
LENGTHS = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=12
)


def batch_of(lengths, seed=0):
    """Make a batch of random tokens whose sides have these lengths, END counted."""
    chance = np.random.default_rng(seed)

    def side(numbers):
        tokens = torch.from_numpy(chance.integers(4, 50, sum(numbers)))
        made = RaggedTokens.from_lengths(tokens, torch.tensor(numbers))
        tokens[made.offsets[1:] - 1] = END
        return made

    sources, targets = ([*numbers] for numbers in zip(*lengths, strict=True))
    return Batch(side(sources), side(targets), torch.arange(len(lengths)))


def learned(model, loss):
    model.zero_grad()
    loss.backward()
    return loss.detach(), [each.grad.clone() for each in model.parameters()]


def readable(model, batch):
    use_backend(model, "reference")
    return learned(model, cross_entropy_of(model, batch, smoothing=0.1))


def packed_loss(model, batch, tokens):
    """Learn from a batch in rows, each box called as it is."""
    use_backend(model, "torch_compile")
    backend = TorchCompileTraining(batch_tokens=tokens)
    backend.is_compiled = False
    parts = backend.micro_batches(batch)
    return learned(
        model, sum(backend.loss(model, part, smoothing=0.1) for part in parts)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_rows_teach_what_the_readable_way_teaches(kind):
    model = Transformer(KINDS[kind], 50).double()
    batch = batch_of([(5, 9), (30, 28), (1, 1), (17, 3), (30, 30), (2, 12)] * 2)

    expected, wanted = readable(model, batch)
    found, got = packed_loss(model, batch, 256)

    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-9)


@given(LENGTHS, st.sampled_from([1, 300, 2000]))
@settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
def test_how_much_filler_there_is_changes_nothing(lengths, tokens):
    """One row, in several parts; two; and fifteen, most of them filler alone."""
    model = Transformer(SMALL, 50).double()
    batch = batch_of(lengths, seed=len(lengths))

    expected, wanted = readable(model, batch)
    found, got = packed_loss(model, batch, tokens)

    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-9)


def test_the_loss_is_multiplied_by_the_weight_of_the_batch():
    model = Transformer(SMALL, 50).double()
    batch = batch_of([(5, 9), (30, 28)])
    weighted = replace(batch, weight=0.5)

    expected, wanted = readable(model, weighted)
    found, got = packed_loss(model, weighted, 256)

    assert found == pytest.approx(0.5 * packed_loss(model, batch, 256)[0])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(got, wanted)


def test_other_pairs_in_a_row_are_not_seen():
    """The loss of two batches is that of both in one, though they share rows."""
    model = Transformer(SMALL, 50).double()
    first, second = [(5, 9), (7, 7)], [(12, 4)]
    both = batch_of(first + second)
    alone = [both.rows(torch.tensor(rows)) for rows in ([0, 1], [2])]

    together, gradients = packed_loss(model, both, 128)
    apart = [packed_loss(model, each, 128) for each in alone]

    torch.testing.assert_close(together, apart[0][0] + apart[1][0])
    for whole, one, other in zip(gradients, apart[0][1], apart[1][1], strict=True):
        torch.testing.assert_close(whole, one + other)


def test_the_largest_batch_has_the_shape_of_the_others():
    backend = TorchCompileTraining(batch_tokens=512)
    shapes = {
        part.source.shape
        for batch in (largest_batch(29, 29, 512), batch_of([(3, 4)]))
        for part in backend.micro_batches(batch)
    }
    assert shapes == {(4, 128)}


def test_a_compiler_that_is_missing_is_said_with_what_would_help():
    from torch._inductor.exc import InvalidCxxCompiler

    with (
        pytest.raises(ResourceError, match=r"torch_compile' needs .*'auto' needs"),
        explain_compile_errors(),
    ):
        raise InvalidCxxCompiler


def test_other_errors_stay_as_they_are():
    with pytest.raises(RuntimeError, match="out of memory"), explain_compile_errors():
        raise RuntimeError("CUDA out of memory")


@pytest.mark.parametrize(
    ("rows", "pieces"), [(1, 1), (12, 1), (64, 1), (72, 2), (192, 4), (1024, 8)]
)
def test_the_loss_comes_in_few_equal_pieces(rows, pieces):
    places = torch.zeros(rows, 128, dtype=torch.int64)
    assert _pieces(PackedBatch(*[places] * 7, longest=1)) == pieces
    assert rows % pieces == 0
