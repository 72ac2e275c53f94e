"""Settings that cannot work are refused early, with every reason and a way out."""

import subprocess
import sys
from dataclasses import replace

import pytest

from headwise.errors import SettingsError
from headwise.model import PRESETS, TransformerConfig
from headwise.settings import as_table, read


def problems(**settings):
    with pytest.raises(SettingsError) as error:
        TransformerConfig(**settings)
    return error.value.problems


def test_the_defaults_are_the_base_model_of_table_3():
    base = TransformerConfig()

    assert (base.encoder_layers, base.decoder_layers) == (6, 6)
    assert (base.d_model, base.d_ff, base.num_heads) == (512, 2048, 8)
    assert (base.key_width, base.value_width, base.dropout) == (64, 64, 0.1)
    assert (base.norm, base.activation, base.positions) == (
        "post",
        "relu",
        "sinusoidal",
    )
    assert (base.position_join, base.tie_embeddings) == ("add", "all")
    assert not any([base.attention_bias, base.output_bias, base.embedding_norm])
    assert base.attention_dropout == base.feed_forward_dropout == 0


def test_all_problems_are_reported_together():
    assert problems(
        encoder_layers=-1, d_ff=-5, d_k=0, dropout=1.0, norm="middle", activation="tanh"
    ) == [
        "encoder_layers must be 0 or more, not -1",
        "d_ff must be 1 or more, not -5",
        "d_k must be 1 or more, not 0",
        "dropout must be 0 or more and less than 1, not 1.0",
        "norm must be one of post, pre, deep, not 'middle'",
        "activation must be one of relu, gelu, swish, not 'tanh'",
    ]


def test_a_model_has_an_encoder_or_a_decoder_or_both():
    assert problems(encoder_layers=0, decoder_layers=0) == [
        "encoder_layers and decoder_layers are both 0; a model needs 1 or more of "
        "either"
    ]
    assert TransformerConfig(encoder_layers=0).stack_problems("decoder") == []
    assert TransformerConfig(decoder_layers=0).stack_problems("encoder") == []
    assert TransformerConfig().stack_problems("encoder", "decoder") == []


def test_stacks_that_are_missing_and_stacks_too_many_are_refused():
    alone = TransformerConfig(decoder_layers=0)

    with pytest.raises(SettingsError) as error:
        alone.check_stacks("decoder")

    assert error.value.problems == [
        "encoder_layers must be 0, not 6: this model has no encoder",
        "decoder_layers must be 1 or more, not 0",
    ]


def test_invalid_combinations_are_reported_together_too():
    """Eight heads cannot share 20; nothing cannot be concatenated, nor tied narrow."""
    found = problems(d_model=20, positions="none", position_join="concatenate")

    assert len(found) == 3
    assert (
        "d_model must divide evenly among num_heads=8; 20 does not, 24 would"
        in found[0]
    )
    assert "nothing to concatenate" in found[1]
    assert "tie_embeddings must be 'none'" in found[2]


def test_heads_of_a_given_width_need_not_divide_the_model():
    free = TransformerConfig(d_model=20, num_heads=8, d_k=3, d_v=5)

    assert (free.key_width, free.value_width) == (3, 5)


def test_one_given_width_leaves_the_other_to_the_division():
    assert problems(d_model=20, d_k=3) == problems(d_model=20)


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, float("nan")])
@pytest.mark.parametrize(
    "name", ["dropout", "attention_dropout", "feed_forward_dropout"]
)
def test_a_dropout_rate_is_at_least_0_and_less_than_1(name, share):
    assert name in problems(**{name: share})[0]


def test_sinusoids_need_an_even_width():
    assert "even, not 15" in problems(d_model=15, num_heads=3)[0]
    TransformerConfig(d_model=15, num_heads=3, positions="learned")


BESIDE = {"position_join": "concatenate", "tie_embeddings": "none"}


def test_a_concatenated_position_takes_half_of_the_width_or_what_is_given():
    half = TransformerConfig(d_model=1024, **BESIDE)
    narrow = replace(half, d_position=24)

    assert (half.embedding_width, half.position_width) == (512, 512)
    assert (narrow.embedding_width, narrow.position_width) == (1000, 24)
    assert TransformerConfig().embedding_width == TransformerConfig().position_width


def test_a_concatenated_position_must_leave_channels_for_the_embedding():
    assert "no channels" in problems(d_model=16, d_position=16, **BESIDE)[0]


def test_the_width_of_a_position_means_nothing_when_it_is_added():
    assert "position_join = 'concatenate'" in problems(d_position=8)[0]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_can_be_written_down_and_read_again(name):
    config = PRESETS[name].config

    assert read(TransformerConfig, as_table(config)) == config


def test_settings_are_read_without_torch():
    """So that a command line can show and check them at once."""
    code = "import sys, headwise.model; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
