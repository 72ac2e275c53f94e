"""What an export format cannot express is known from the settings alone."""

import pytest
from tests.model.variant_choices import ONE_OF_EACH

from headwise.errors import SettingsError
from headwise.interop.unsupported_models import (
    LIMITS,
    check_expressible,
    reasons_against,
)
from headwise.model.config import TransformerConfig
from headwise.model.presets import PRESETS
from headwise.text.settings import TextSettings

PLAIN = TextSettings()


@pytest.mark.parametrize("target", LIMITS)
@pytest.mark.parametrize("preset", ["micro", "tiny", "small", "student", "base", "big"])
def test_the_presets_for_use_can_go_everywhere(target, preset):
    assert reasons_against([target], PRESETS[preset].config, PLAIN) == []


def test_all_reasons_of_all_targets_come_at_once():
    model = TransformerConfig(norm="pre", d_k=32, positions="learned")
    reasons = reasons_against(["ctranslate2", "huggingface"], model, PLAIN)

    assert [each.split(" ")[4].rstrip(":") for each in reasons] == [
        "ctranslate2",
        "huggingface",
        "huggingface",
        "huggingface",
    ]
    assert "model.d_k = 32" in reasons[0]
    assert "64 can be exported" in reasons[0]
    assert "norm = 'post' can be exported" in reasons[1]
    assert "learned" in reasons[2]


@pytest.mark.parametrize("target", LIMITS)
def test_rotary_positions_cannot_be_exported(target):
    (reason,) = reasons_against([target], TransformerConfig(positions="rotary"), PLAIN)
    assert "model.positions = 'rotary'" in reason
    assert "can be exported" in reason


@pytest.mark.parametrize("name", ONE_OF_EACH)
@pytest.mark.parametrize("target", LIMITS)
def test_each_variant_is_refused_once_and_by_name(target, name):
    model = TransformerConfig(**{name: ONE_OF_EACH[name]})
    (reason,) = reasons_against([target], model, PLAIN)
    assert f"model.{name} = {ONE_OF_EACH[name]!r}: " in reason
    assert "can be exported" in reason


def test_a_target_named_twice_is_answered_once():
    model = TransformerConfig(d_k=32)
    assert len(reasons_against(["ctranslate2", "ctranslate2"], model, PLAIN)) == 1


def test_a_target_that_is_not_known_is_a_reason_too():
    (reason,) = reasons_against(["onyx"], TransformerConfig(), PLAIN)
    assert reason == (
        "'onyx' is not an export format; choose from ctranslate2, huggingface"
    )


@pytest.mark.parametrize(
    ("model", "text", "said"),
    [
        ({"norm": "pre"}, {}, "model.norm = 'pre'"),
        ({"embedding_norm": True}, {}, "model.embedding_norm"),
        ({"positions": "learned"}, {}, "model.positions = 'learned'"),
        ({"positions": "none"}, {}, "model.positions = 'none'"),
        ({"d_v": 16}, {}, "model.d_v = 16"),
        (
            {"position_join": "concatenate", "tie_embeddings": "none"},
            {},
            "model.position_join = 'concatenate'",
        ),
        ({}, {"tokenizer": "words"}, "text.tokenizer = 'words'"),
        ({}, {"symbols": (">>fr<<",)}, "text.symbols contains '>>fr<<'"),
    ],
    ids=str,
)
def test_what_marian_has_no_place_for(model, text, said):
    with pytest.raises(SettingsError) as refusal:
        check_expressible(
            "huggingface", TransformerConfig(**model), TextSettings(**text)
        )
    (problem,) = refusal.value.problems
    assert said in problem
    assert "can be exported" in problem


def test_heads_that_do_not_divide_the_width_can_be_exported_nowhere():
    model = TransformerConfig(d_model=10, num_heads=3, d_k=4, d_v=4)
    reasons = reasons_against(["ctranslate2"], model, PLAIN)

    assert len(reasons) == 2
    assert all("d_model must be a multiple of num_heads" in each for each in reasons)
