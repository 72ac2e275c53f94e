"""Table 3 in small: what each sweep varies, and how its rows are compared."""

import math
from pathlib import Path

import pytest

from headwise.model.presets import PRESETS
from headwise.recipe import resolve

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import table_3

    return table_3


def run(seed, perplexity, bleu):
    return {"seed": seed, "perplexity": perplexity, "bleu": bleu, "parameters": 7}


def test_the_base_is_a_row_and_equals_the_preset(table):
    sweep, settings = table.BASE

    assert {**settings} == {"model.num_heads": PRESETS["tiny"].config.num_heads}
    assert settings["model.num_heads"] in table.SWEEPS[sweep]["model.num_heads"]


def test_every_value_is_a_setting_that_a_model_can_have(table):
    for varied in table.SWEEPS.values():
        for path, values in varied.items():
            part, name = path.split(".")
            for value in values:
                recipe = resolve(preset="tiny", extra={part: {name: value}})
                assert getattr(getattr(recipe, part), name) == value


def test_rows_are_compared_with_the_base_of_their_own_seeds(table):
    """By hand: 2 nats more with seed 1 and 1 with seed 2; seed 3 has no base."""
    sweep, settings = table.BASE
    base = {"settings": settings, "runs": [run(1, 1.0, 30.0), run(2, 1.0, 31.0)]}
    row = {
        "settings": {"model.d_k": 8},
        "runs": [run(1, math.exp(2), 28.0), run(2, math.e, 31.0), run(3, 9.0, 9.0)],
    }

    found = table.compared({sweep: [base], "B keys": [row]})

    (compared,) = found["B keys"]
    assert compared["row"] == "d_k 8"
    assert compared["nats_less_base"]["mean"] == pytest.approx(1.5)
    assert compared["bleu_less_base"]["mean"] == -1.0
    assert compared["bleu_less_base"]["low"] < -1 < compared["bleu_less_base"]["high"]
    assert compared["bleu"] == pytest.approx(68 / 3)
    assert found[sweep][0]["nats_less_base"]["mean"] == 0


def test_without_a_base_a_row_has_its_own_figures_alone(table):
    row = {"settings": {"model.d_k": 8}, "runs": [run(1, 9.0, 28.0)]}

    (found,) = table.compared({"B keys": [row]})["B keys"]

    assert found["perplexity"] == 9
    assert "nats_less_base" not in found
