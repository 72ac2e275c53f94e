"""Which settings make a variant, for backends and exports to name."""

from dataclasses import fields
from typing import get_args

import pytest
from tests.model.variant_choices import CHOICES, ONE_OF_EACH

from headwise.errors import SettingsError
from headwise.model import TransformerConfig
from headwise.model import config as settings
from headwise.model.variants.gated_feed_forward import GATES
from headwise.model.variants.names import KNOWN_EVERYWHERE, variants_of
from headwise.model.variants.norms import NORMS
from headwise.model.variants.residuals import RESIDUALS
from headwise.model.variants.scores import SCORES

DICTS = {
    "attention": (settings.AttentionName, {*SCORES}),
    "norm_kind": (settings.NormKind, {*NORMS}),
    "feed_forward": (settings.FeedForwardName, {"plain", *GATES}),
    "residual": (settings.ResidualName, {*RESIDUALS}),
}


@pytest.mark.parametrize("name", DICTS)
def test_every_choice_that_settings_offer_exists(name):
    offered, made = DICTS[name]
    assert {*get_args(offered)} == made


def test_the_defaults_are_no_variant():
    defaults = {each.name: each.default for each in fields(TransformerConfig)}
    assert all(defaults[name] in known for name, known in KNOWN_EVERYWHERE.items())
    assert variants_of(TransformerConfig()) == []


@pytest.mark.parametrize("name", KNOWN_EVERYWHERE)
def test_a_variant_is_named_as_in_a_recipe(name):
    config = TransformerConfig(num_heads=4, d_model=16, **{name: ONE_OF_EACH[name]})
    assert variants_of(config) == [f"model.{name} = {ONE_OF_EACH[name]!r}"]


@pytest.mark.parametrize("name", KNOWN_EVERYWHERE)
def test_a_recurrent_model_has_none(name):
    with pytest.raises(SettingsError, match=f"{name} = .* leave it out"):
        TransformerConfig(kind="lstm", **{name: ONE_OF_EACH[name]})


def test_tests_go_through_every_choice():
    tried = {(name, value) for each in CHOICES.values() for name, value in each.items()}
    for name, (offered, _) in DICTS.items():
        for value in get_args(offered):
            assert value in KNOWN_EVERYWHERE[name] or (name, value) in tried
