"""``headwise recipe`` prints TOML that is the recipe."""

import tomllib

import pytest

from headwise.model.presets import PRESETS
from headwise.recipe import resolve


def test_it_prints_toml_and_nothing_else(headwise):
    found = headwise("recipe", "--preset", "tiny", "--set", "training.steps=60")

    assert found.code == 0
    assert found.error == ""
    table = tomllib.loads(found.out)
    assert table["training"]["steps"] == 60
    assert table["model"]["d_model"] == 128


def test_what_it_prints_is_a_recipe_file(headwise, tmp_path):
    file = tmp_path / "my.toml"
    file.write_text(headwise("recipe", "--preset", "small").out)

    assert resolve(file=file) == resolve(preset="small")
    assert headwise("recipe", "--recipe", file).out == file.read_text()


def test_the_presets_are_listed_with_what_they_are_for(headwise):
    lines = headwise("recipe", "--list").out.splitlines()

    assert [line.split()[0] for line in lines] == list(PRESETS)
    assert any(line.split(maxsplit=1)[1] == "Table 3, base" for line in lines)


@pytest.mark.parametrize(
    "also",
    [["--preset", "tiny"], ["--set", "training.steps=3"], ["--recipe", "a.toml"]],
)
def test_a_list_of_presets_is_of_all_of_them(headwise, also):
    """What was asked for besides was dropped without a word."""
    found = headwise("recipe", "--list", *also)

    assert (found.code, found.out) == (2, "")
    assert "--list prints all presets and no recipe; leave out --preset" in found.error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "huge"], "'huge' is not a preset; choose from base, big"),
        (["--preset", ""], "'' is not a preset"),
        (["--set", "training.stepps=3"], "did you mean training.steps?"),
        (["--set", "training.steps=abc"], "must be a whole number, not 'abc'"),
        (["--set", "model.d_model=7"], "7 does not, 8 would"),
    ],
)
def test_mistakes_in_settings_are_code_3_and_said(headwise, arguments, said):
    found = headwise("recipe", *arguments)

    assert found.code == 3
    assert found.out == ""
    assert found.error.startswith("headwise: invalid settings:\n- ")
    assert said in found.error
