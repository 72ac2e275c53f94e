"""What was ever written opens for ever: a whole run of each format is kept here.

``make.py`` wrote them, each with the version of its time; ``manifest-1`` is of 0.1.0
before manifests had a SHA-256 of themselves.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from headwise import load
from headwise.data import prepared
from headwise.data.prepared import PreparedCorpus
from headwise.doctor import check_folder
from headwise.recipe import Recipe
from headwise.run_folder import checkpoints, model_folder
from headwise.run_folder.run import train_run
from headwise.settings import read, read_toml
from headwise.storage import manifests
from headwise.text import tokenizer

HERE = Path(__file__).parent
KEPT = sorted(path.parent for path in HERE.glob("*/recipe.toml"))


@pytest.fixture(params=KEPT, ids=lambda path: path.name)
def kept(request, tmp_path):
    return shutil.copytree(request.param, tmp_path / "run")


def test_all_of_it_is_whole_and_translates_as_it_did(kept):
    findings = list(check_folder(kept))

    assert [each for each in findings if each.status == "FAILED"] == []
    golden = json.loads((kept / "best" / "golden.json").read_text())
    outputs = load(kept).translate([each["source"] for each in golden])
    assert outputs == [each["output"] for each in golden]


def test_training_goes_on_from_it(kept):
    corpus = PreparedCorpus.open(kept / "prepared", thorough=True)
    recipe = read(Recipe, read_toml(kept / "recipe.toml"))
    before = recipe.training.steps
    longer = replace(recipe.training, steps=before + 2, schedule="linear")

    state = train_run(kept, replace(recipe, training=longer), corpus)

    assert state.step == before + 2
    steps = [path.name for path in (kept / "checkpoints").iterdir()]
    assert f"step-{before + 2:08d}" in steps
    assert not any(name.startswith("damaged") for name in steps)


def test_every_format_that_is_written_now_is_kept_too():
    """A new format comes with a folder of it: see ``make.py``."""

    def formats(pattern):
        return {
            json.loads(path.read_text()).get("format", 1)
            for folder in KEPT
            for path in folder.glob(pattern)
        }

    assert formats("**/manifest.json") == set(range(1, manifests.FORMAT + 1))
    for pattern, written in (
        ("best/config.json", model_folder.FORMAT),
        ("prepared/prepared.json", prepared.FORMAT),
        ("checkpoints/*/state.json", checkpoints.FORMAT),
        ("**/tokenizer/tokenizer.json", tokenizer.FORMAT),
    ):
        assert formats(pattern) == set(range(1, written + 1))
