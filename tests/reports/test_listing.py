"""Runs in a list: found where they lie, told in one line, whatever else lies there."""

import json
import re

import pytest
import torch
from safetensors.torch import save_file
from tests.reports.conftest import a_run, end, start, update, validation, write_run

from headwise.errors import UsageError
from headwise.reports.listing import (
    as_lines,
    check_run,
    corpora,
    find_runs,
    num_parameters,
    run_facts,
)

RECIPE = """
[training]
steps = 40
[[data.corpora]]
source = "/somewhere/train.en"
target = "/somewhere/train.de"
[[data.corpora]]
source = "pairs.tsv"
"""


def test_runs_are_found_down_to_a_depth(tmp_path):
    for name in ("a", "x/b", "x/y/c", "x/y/z/d", ".hidden/e", "a/checkpoints/f"):
        write_run(tmp_path / name, [])
    (tmp_path / "empty").mkdir()

    found = [str(each.relative_to(tmp_path)) for each in find_runs(tmp_path, 3)]
    assert found == ["a", "x/b", "x/y/c"]
    assert list(find_runs(tmp_path / "a")) == [tmp_path / "a"]


def test_a_link_that_leads_back_is_not_followed(tmp_path):
    write_run(tmp_path / "a", [])
    (tmp_path / "loop").symlink_to(tmp_path)

    assert list(find_runs(tmp_path)) == [tmp_path / "a"]


def test_a_recipe_alone_is_no_run(tmp_path):
    (tmp_path / "recipe.toml").write_text("seed = 1\n")

    assert list(find_runs(tmp_path)) == []
    with pytest.raises(UsageError, match=r"is not a run.*log\.jsonl"):
        check_run(tmp_path)


def test_what_is_no_folder_is_said(tmp_path):
    with pytest.raises(UsageError, match="is not a folder"):
        check_run(tmp_path / "missing")


def test_a_run_is_told_in_one_line(tmp_path):
    folder = write_run(tmp_path / "en-de", a_run(), RECIPE)
    (folder / "best").mkdir()
    weights = {"a": torch.zeros(30, 10), "b": torch.zeros(7)}
    save_file(weights, folder / "best" / "model.safetensors", metadata={"by": "us"})
    run = run_facts(folder, is_held=False)

    head, line = as_lines([run])
    assert head.split() == [
        *("run", "state", "step", "time", "best", "model", "parameters", "text")
    ]
    assert re.split("  +", line) == [
        str(folder),
        "ended",
        "40/40",
        "20 s",
        "BLEU 40.0 ± 1.2 (step 40)",
        "307",
        "train.en → train.de and 1 more",
    ]


def test_updates_of_epochs_are_known_from_the_log(tmp_path):
    """A recipe of epochs has no number of updates: the list showed none."""
    entries = [{**start(), "steps": 46}, update(1), end(1, "stopped")]
    folder = write_run(tmp_path / "run", entries, "[training]\nepochs = 2\n")
    older = write_run(tmp_path / "older", [start(), end(0)], "[training]\nepochs = 2\n")

    assert run_facts(folder, is_held=False).steps == 46
    assert "  1/46  " in as_lines([run_facts(folder, is_held=False)])[1]
    assert run_facts(older, is_held=False).steps is None


@pytest.mark.parametrize(
    ("entries", "is_held", "state"),
    [
        ([start(), update(1)], True, "running"),
        ([start(), update(1), end(1)], True, "running"),  # gone on with just now
        ([start(), update(1)], False, "died"),
        ([start(), update(1), end(1)], False, "ended"),
        ([start(), update(1), end(1, "stopped")], False, "stopped"),
        ([start(), update(1), end(1, "lost another process")], False, "stopped"),
        ([start(), update(1), end(1, "failed")], False, "failed"),
        ([start(), end(0, "stopped"), start(1), update(2)], False, "died"),
    ],
)
def test_how_a_run_stands(tmp_path, entries, is_held, state):
    folder = write_run(tmp_path / "run", entries)

    assert run_facts(folder, is_held=is_held).state == state


def test_a_mean_that_is_the_best_is_called_so(tmp_path):
    mean = validation(40, bleu=41.0, name="mean of the last 2 checkpoints")
    folder = write_run(tmp_path / "run", [*a_run()[:-1], mean])

    (_, line) = as_lines([run_facts(folder, is_held=False)])
    assert "BLEU 41.0 ± 1.2 (mean of the last 2 checkpoints)" in line


def test_a_run_without_a_validation_has_no_best_model(tmp_path):
    folder = write_run(tmp_path / "run", [start(), update(1)])

    (_, line) = as_lines([run_facts(folder, is_held=False)])
    assert line.split()[1:] == ["died", "1/40", "0", "s", "–", "–", "–"]


def test_programs_get_numbers_and_no_texts(tmp_path):
    run = run_facts(write_run(tmp_path / "run", a_run(), RECIPE), is_held=False)
    table = json.loads(json.dumps(run.as_json()))

    assert table["best"].keys() == {"step", "name", "loss", "scores", "seconds"}
    assert table["best"]["scores"]["bleu"]["interval"] == 1.25
    assert table["step"] == table["steps"] == 40
    assert table["corpora"] == ["train.en → train.de", "pairs.tsv"]


@pytest.mark.parametrize(
    "recipe",
    ["", "this is no TOML", "training = 3\ndata = []\n", "[training]\nsteps = 'x'\n"],
)
def test_a_recipe_of_another_time_spoils_no_list(tmp_path, recipe):
    folder = write_run(tmp_path / "run", a_run(), recipe)
    run = run_facts(folder, is_held=False)

    assert (run.steps, run.corpora, run.step) == (None, [], 40)


def test_text_in_an_unknown_form_has_no_name():
    assert corpora({"data": {"corpora": "train.en"}}) == []
    assert corpora({"data": {"corpora": [3, {"source": "a"}]}}) == ["a"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        (10**15).to_bytes(8, "little"),
        (2).to_bytes(8, "little") + b"[]",
        (9).to_bytes(8, "little") + b'{"a": {}}',
        (4).to_bytes(8, "little") + b"\xff\xfe\x00\x00",
    ],
)
def test_weights_that_are_none_have_no_count(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)

    assert num_parameters(tmp_path / "model.safetensors") is None
    assert num_parameters(tmp_path / "missing") is None
