"""The recipe of a run comes back, and a damaged one is named with what would work."""

import pytest

from headwise.errors import ModelError
from headwise.recipe import resolve
from headwise.run_folder.run_recipe import read_run_recipe
from headwise.settings import as_toml


def test_the_recipe_comes_back(tmp_path):
    recipe = resolve(extra={"languages": ["en", "de"], "training": {"steps": 7}})
    path = tmp_path / "recipe.toml"
    path.write_text(as_toml(recipe), encoding="utf-8")

    assert read_run_recipe(path) == recipe


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("training = {", "is not valid TOML"),
        ("trainings = 1", "trainings is not a setting"),
    ],
)
def test_what_is_no_recipe_is_refused_with_its_place(tmp_path, content, said):
    path = tmp_path / "recipe.toml"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ModelError) as caught:
        read_run_recipe(path, remedy="copy best elsewhere")

    message = str(caught.value)
    assert f"{path} is not the recipe of this run" in message
    assert "restore it, or copy best elsewhere" in message
    assert said in message
