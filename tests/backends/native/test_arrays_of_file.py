"""Weights read from a file without torch are those of the model that wrote it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from headwise.backends.native.arrays_of_file import arrays_of_file, why_not_from_file
from headwise.backends.native.arrays_of_model import arrays_of_model
from headwise.errors import ModelError
from headwise.model.config import TransformerConfig
from headwise.model.transformer import Transformer

SIZES = 37, 37


def config(**changes: Any) -> TransformerConfig:
    small = {
        "encoder_layers": 2,
        "decoder_layers": 3,
        "d_model": 16,
        "d_ff": 24,
        "num_heads": 2,
    }
    return TransformerConfig(**{**small, **changes})


CONFIGS = [
    config(),
    config(tie_embeddings="none", output_bias=True, attention_bias=True),
    config(tie_embeddings="output", norm="pre", activation="gelu"),
    config(positions="learned", max_positions=40, embedding_norm=True),
    config(positions="rotary", d_k=6, d_v=10),
    config(positions="sinusoidal_halves", activation="swish"),
    config(positions="none", encoder_layers=1),
    config(position_join="concatenate", tie_embeddings="none", d_position=4),
]


def drawn(asked: TransformerConfig) -> Transformer:
    """Return a model all of whose weights are random, those of norms too."""
    model = Transformer(asked, *SIZES, seed=1)
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.randn(each.shape, generator=chance))
    return model


def tensors_of(model: Transformer) -> dict[str, np.ndarray]:
    return {name: each.numpy() for name, each in model.state_dict().items()}


def assert_equal(ours: Any, theirs: Any, place: str) -> None:
    """Compare arrays, in whatever dataclasses, and tables of positions by 60 rows."""
    if callable(ours):
        count = 40 if ".encodings" in place else 60
        assert_equal(ours(count), theirs(count), f"{place}()")
    elif is_dataclass(ours):
        for field in fields(ours):
            name = field.name
            assert_equal(getattr(ours, name), getattr(theirs, name), f"{place}.{name}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_equal(*pair, f"{place}[{number}]")
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype == np.float32, place
        assert np.array_equal(ours, theirs), place
    else:
        assert ours == theirs, place


@pytest.mark.parametrize("asked", CONFIGS)
def test_all_arrays_are_those_of_the_model(asked):
    model = drawn(asked)

    found = arrays_of_file(asked, *SIZES, tensors_of(model))

    assert why_not_from_file(asked) is None
    assert_equal(found, arrays_of_model(model), "model")


def test_weights_of_half_the_precision_become_float32():
    model = drawn(CONFIGS[0])
    halves = {name: each.astype(np.float16) for name, each in tensors_of(model).items()}

    found = arrays_of_file(CONFIGS[0], *SIZES, halves)

    assert_equal(found, arrays_of_model(model.half().float()), "model")


def without(tensors, name):
    return {key: each for key, each in tensors.items() if key != name}


NAME = "decoder.blocks.1.feed_forward.widen.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: without(t, NAME), f"{NAME} is missing"),
        (lambda t: {**t, NAME: t[NAME].T}, f"{NAME} is missing, or not of shape"),
        (lambda t: {**t, NAME: t[NAME].astype(np.int8)}, f"{NAME} is missing, or not"),
        (lambda t: {**t, NAME: t[NAME] * np.nan}, f"{NAME} contains NaN or infinity"),
        (lambda t: {**t, "more": t[NAME]}, "more is unexpected"),
    ],
)
def test_tensors_that_are_not_those_of_the_model_are_refused(change, message):
    tensors = change(tensors_of(drawn(CONFIGS[0])))

    with pytest.raises(ModelError, match=message):
        arrays_of_file(CONFIGS[0], *SIZES, tensors)


def test_there_is_no_learned_position_beyond_the_last():
    asked = CONFIGS[3]
    found = arrays_of_file(asked, *SIZES, tensors_of(drawn(asked)))

    assert found.encoder is not None
    with pytest.raises(ModelError, match=r"no learned encoding for position 41: .* 40"):
        found.encoder.positions.encodings(41)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "lstm"}, "kind is 'lstm'"),
        ({"norm_kind": "rms"}, "model.norm_kind = 'rms': variants"),
        ({"norm": "deep"}, "norm is 'deep'"),
    ],
)
def test_other_models_are_left_to_torch(changes, reason):
    assert why_not_from_file(replace(config(), **changes)) == reason
