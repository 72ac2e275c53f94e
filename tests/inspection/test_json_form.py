"""Results as JSON."""

import json
import math
from dataclasses import dataclass

import torch
from tests.inspection.conftest import random_model

from headwise.inspection.attention import attention_of
from headwise.inspection.json_form import json_text, to_json
from headwise.inspection.places import parse_head
from headwise.inspection.word_steps import word_steps


@dataclass(frozen=True)
class Example:
    name: str
    numbers: tuple[float, ...]
    inner: object = None


def test_dataclasses_tensors_and_names_become_plain_values():
    example = Example("a", (1.0, math.inf), {parse_head("cross.0.1"): torch.eye(2)})

    assert to_json(example) == {
        "name": "a",
        "numbers": [1.0, None],
        "inner": {"cross.0.1": [[1.0, 0.0], [0.0, 1.0]]},
    }


def test_every_float32_comes_back_as_it_was(pair):
    found = attention_of(random_model(torch.float32), pair)

    table = json.loads(json_text(found, show="attention"))

    assert table["format"] == 1
    assert table["show"] == "attention"
    assert table["maps"][0]["head"] == "encoder.0.0"
    for ours, theirs in zip(found.maps, table["maps"], strict=True):
        assert torch.equal(torch.tensor(theirs["weights"]), ours.weights)


def test_masked_scores_are_null(pair):
    steps = word_steps(random_model(), pair, parse_head("decoder.0.0"), 1)

    table = json.loads(json_text(steps))

    assert table["masked_scores"][2:] == [None] * 3
    assert table["mask"] == [True, True, False, False, False]
