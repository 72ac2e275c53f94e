"""Looks into variants: attention maps are theirs, other steps are refused by name."""

import pytest
import torch
from tests.inspection.conftest import SOURCE, TARGET, pair_of, random_model
from tests.model.variant_choices import CHOICES, EACH

from headwise.errors import UsageError
from headwise.inspection.attention import attention_of
from headwise.inspection.interventions import (
    HeadOff,
    ReplaceRow,
    SublayerOff,
    intervene,
)
from headwise.inspection.places import Head, SublayerName
from headwise.inspection.word_steps import word_steps

HEAD = Head("decoder", 1, 2)


def logits(model):
    source, target = torch.tensor([SOURCE]), torch.tensor([(1, *TARGET[:-1])])
    return model(source, target, source > 0)


@EACH
def test_every_head_has_a_map_that_sums_to_one(choice):
    model = random_model(**choice)

    found = attention_of(model, pair_of())

    assert len(found.maps) == 6 * model.config.num_heads
    for each in found.maps:
        sums = each.weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))
        if each.head.kind == "decoder":
            assert not each.weights.triu(1).any()


@EACH
def test_a_look_changes_no_output(choice):
    model = random_model(**choice)
    before = logits(model)

    attention_of(model, pair_of())
    with intervene(model):
        during = logits(model)

    assert torch.equal(logits(model), before)
    assert torch.equal(during, before)


def test_a_window_is_seen_in_the_maps():
    model = random_model(attention_window=3)
    for each in attention_of(model, pair_of()).maps:
        rows, columns = each.weights.shape
        apart = torch.arange(columns) - torch.arange(rows)[:, None]
        if each.head.kind == "encoder":
            assert not each.weights[apart.abs() > 1].any()
        elif each.head.kind == "decoder":
            assert not each.weights[(apart > 0) | (apart < -2)].any()


@EACH
def test_heads_and_sublayers_can_be_switched_off(choice):
    model = random_model(**choice)
    before = logits(model)
    places = [HeadOff(HEAD), SublayerOff(SublayerName("encoder", 0, "feed_forward"))]
    for change in places:
        with intervene(model, change):
            assert not torch.allclose(logits(model), before)


@pytest.mark.parametrize("choice", [{"attention": "cosine"}, {"positions": "shaw"}])
def test_a_row_that_is_replaced_by_itself_changes_nothing(choice):
    """So what positions add to values is still added."""
    model = random_model(**choice)
    row = attention_of(model, pair_of()).of(HEAD).weights[3]

    with intervene(model, ReplaceRow(HEAD, 3, tuple(row.tolist()))):
        out = logits(model)

    torch.testing.assert_close(out, logits(model))


def test_rows_of_a_window_cannot_be_replaced():
    model = random_model(attention_window=3)
    refused = pytest.raises(UsageError, match="cannot be replaced where attention has")
    with refused, intervene(model, ReplaceRow(HEAD, 3, (1.0,))):
        pass


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, choice in CHOICES.items()
        if choice.keys() & {"attention", "attention_window", "residual"}
        or choice.get("positions") in ("alibi", "shaw", "t5")
    ],
)
def test_steps_of_another_attention_are_refused_by_name(name):
    model = random_model(**CHOICES[name])
    with pytest.raises(
        UsageError, match=r"those of Equation 1.*this model has model\."
    ):
        word_steps(model, pair_of(), HEAD, 3)


@pytest.mark.parametrize(
    "choice",
    [
        {"norm_kind": "rms"},
        {"norm_kind": "batch"},
        {"feed_forward": "swiglu"},
        {"num_key_value_heads": 2},
        {"positions": "number"},
    ],
    ids=str,
)
def test_steps_of_equation_1_are_shown_whatever_else_is_a_variant(choice):
    model = random_model(**choice)
    steps = word_steps(model, pair_of(), HEAD, 3)
    maps = attention_of(model, pair_of())
    torch.testing.assert_close(steps.weights, maps.of(HEAD).weights[3])


def test_what_variants_have_otherwise_is_refused_by_name():
    with pytest.raises(UsageError, match=r"model\.positions = 'shaw' adds"):
        attention_of(random_model(positions="shaw"), pair_of(), norms=True)
    with pytest.raises(UsageError, match=r"model\.residual is 'none'"):
        attention_of(random_model(residual="none"), pair_of(), rollout=True)
