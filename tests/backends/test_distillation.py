"""Teachers: what they give a student is the same by fused functions and as written."""

from dataclasses import replace

import pytest
import torch
from tests.backends.native.test_training import batch_of
from tests.model.variant_choices import CHOICES

from headwise.backends.distillation import Teachers
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.reference import reference_logits
from headwise.distillation import distillation_loss
from headwise.model import TransformerConfig
from headwise.model.kinds import new_encoder_decoder

SMALL = TransformerConfig(
    encoder_layers=1, decoder_layers=1, d_model=16, d_ff=24, num_heads=2, dropout=0.1
)
WORDS = 37


def made(seed, **changes):
    return new_encoder_decoder(replace(SMALL, **changes), WORDS, WORDS, seed=seed)


def teachers(weight=0.3):
    """Return two teachers of other sizes and another kind than the student."""
    lstm = TransformerConfig(
        kind="lstm", encoder_layers=1, decoder_layers=1, d_model=12, dropout=0.2
    )
    return Teachers(
        [
            made(5, d_model=24, decoder_layers=2),
            new_encoder_decoder(lstm, WORDS, WORDS, seed=6),
        ],
        weight,
    )


def batch(**changes):
    return replace(batch_of(WORDS), **changes)


@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("counts_all", [True, False])
def test_fused_functions_give_the_same_as_the_models_as_written(weight, counts_all):
    given = batch(weight=weight)
    if not counts_all:
        counted = torch.arange(len(given.target.tokens)) % 3 > 0
        given = replace(given, counted=counted)
    found = {}
    for backend in ("auto", "reference"):
        student = use_backend(made(1, dropout=0.0).train(), backend)
        loss = teachers().loss(student, given, smoothing=0.1)
        loss.total.backward()
        found[backend] = [*loss, *(each.grad for each in student.parameters())]

    for fast, readable in zip(*found.values(), strict=True):
        torch.testing.assert_close(fast, readable, rtol=1e-4, atol=1e-4)


def test_the_loss_is_that_of_the_formula():
    student, given = made(1, dropout=0.0), batch()
    both = teachers()

    found = both.loss(student, given, smoothing=0.1)

    expected = distillation_loss(
        reference_logits(student, given),
        [reference_logits(each, given) for each in both.models],
        given.target.tokens,
        0.1,
        0.3,
    )
    torch.testing.assert_close(found.total, expected.total, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_teachers_that_are_variants_are_run_as_written(choice):
    """Whatever backend the student has: the fused functions know no variants."""
    student = use_backend(made(1, dropout=0.0).train(), "auto")
    teacher, given = made(5, **choice).eval(), batch()
    logits = [reference_logits(each, given) for each in (student, teacher)]

    found = Teachers([teacher], 0.3).loss(student, given, smoothing=0.1)

    expected = distillation_loss(logits[0], logits[1:], given.target.tokens, 0.1, 0.3)
    for ours, formula in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, formula, rtol=1e-5, atol=1e-4)


def test_teachers_have_no_dropout_and_no_gradient():
    student, given, both = made(1).train(), batch(), teachers()
    torch.manual_seed(3)
    first = both.loss(student, given, smoothing=0.0)
    first.total.backward()
    torch.manual_seed(3)
    again = both.loss(student, given, smoothing=0.0)

    assert torch.equal(first.total, again.total)
    for teacher in both.models:
        assert not teacher.training
        assert all(each.grad is None for each in teacher.parameters())
