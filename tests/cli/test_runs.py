"""``headwise runs``: which runs there are, and how two differ."""

import json
import shutil
import subprocess
import sys

import pytest

from headwise.run_folder.lock import locked

PROBE = """
import sys
from headwise.__main__ import main
sys.argv = ["headwise", "runs", {folder!r}]
try:
    main()
except SystemExit as ending:
    assert not ending.code
print(*sorted({{"torch", "numpy", "rich"}} & sys.modules.keys()))
"""


@pytest.fixture
def runs(tiny_run, tmp_path):
    """Return a folder with two runs, of which the second was stopped."""
    for name in ("one", "two"):
        shutil.copytree(tiny_run, tmp_path / "runs" / name)
    recipe = tmp_path / "runs" / "two" / "recipe.toml"
    text = recipe.read_text(encoding="utf-8")
    assert "dropout = 0.0" in text
    recipe.write_text(text.replace("dropout = 0.0", "dropout = 0.1"), encoding="utf-8")
    return tmp_path / "runs"


def test_runs_are_listed_with_their_scores(headwise, runs):
    found = headwise("runs", runs)

    head, one, two = found.out.splitlines()
    assert found.code == 0
    assert head.startswith("run ")
    assert one.startswith(f"{runs / 'one'}  ended  60/60")
    assert "BLEU" in two
    assert "train.en → train.de" in two
    assert headwise("runs", "list", runs).out == found.out


def test_a_run_that_somebody_works_in_is_running(headwise, runs):
    with locked(runs / "one"):
        _, one, two = headwise("runs", runs).out.splitlines()

    assert "  running  " in one
    assert "  ended  " in two


def test_listing_does_not_block_a_running_process(headwise, runs):
    headwise("runs", runs)

    with locked(runs / "one"):
        pass


def test_without_a_folder_it_is_this_one(headwise, runs, monkeypatch):
    monkeypatch.chdir(runs)

    assert [line.split()[0] for line in headwise("runs").out.splitlines()] == [
        *("run", "one", "two")
    ]


def test_no_runs_here_is_no_error_and_is_said(headwise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = headwise("runs")

    assert (found.code, found.out) == (0, "")
    assert "there are no runs here" in found.error
    assert json.loads(headwise("runs", "--json").out) == []


def test_programs_get_json(headwise, runs, tiny_run):
    one, two = json.loads(headwise("runs", runs, "--json").out)

    assert one["state"] == "ended"
    assert one["best"]["scores"]["bleu"]["interval"] >= 0
    assert one["parameters"] == two["parameters"] > 1000
    assert one["folder"] == str(runs / "one")


def test_a_run_named_twice_is_listed_once(headwise, runs):
    found = headwise("runs", runs, runs / "one")

    assert len(found.out.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{}/missing"], "is not a folder"),
        (["{}"], "is not a run, and there is none up to 3 levels below"),
        (["diff", "{}", "{}"], "is not a run"),
        (["diff", "{}"], "Missing argument"),
        (["--fly"], "No such option"),
        (["list", "--fly"], "No such option"),
    ],
)
def test_what_is_no_run_is_said(headwise, tmp_path, arguments, said):
    found = headwise("runs", *(each.format(tmp_path) for each in arguments))

    assert (found.code, found.out) == (2, "")
    assert said in found.error


def test_two_runs_are_compared(headwise, runs, tmp_path):
    page = tmp_path / "comparison.html"
    found = headwise("runs", "diff", runs / "one", runs / "two", "--html", page)

    assert found.code == 0
    lines = found.out.splitlines()
    assert any(line.split() == ["model.dropout", "0.0", "0.1"] for line in lines)
    assert [line.split()[0] for line in lines if line[:2] in ("30", "60")] == [
        "30",
        "60",
    ]
    assert str(page) in found.error
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_page_is_not_written_over_a_folder(headwise, runs, tmp_path):
    found = headwise("runs", "diff", runs / "one", runs / "two", "--html", tmp_path)

    assert found.code == 2
    assert "is a folder; name a file" in found.error


def test_a_list_is_there_at_once(runs):
    probe = [sys.executable, "-c", PROBE.format(folder=str(runs))]
    done = subprocess.run(probe, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == ""


def test_training_leaves_all_that_shows_it(headwise, runs, tiny_text):
    """What train adds to a run: the page and TensorBoard's events."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tests.tiny import ASSIGNMENTS

    shutil.rmtree(runs / "two" / "checkpoints")
    options = [part for each in ASSIGNMENTS for part in ("--set", each)]
    settings = ["--set", "training.steps=4", "--set", "training.validate_every=2"]
    corpus = runs / "two" / "prepared"
    found = headwise("train", corpus, "--out", runs / "three", *options[2:], *settings)

    assert found.code == 0, found.error
    page = (runs / "three" / "report.html").read_text(encoding="utf-8")
    assert "ended: 4 updates are done" in page
    events = EventAccumulator(str(runs / "three" / "tensorboard"))
    events.Reload()
    assert [each.step for each in events.Scalars("loss/training")] == [1, 2, 3, 4]
    assert [each.step for each in events.Scalars("loss/validation")] == [2, 4]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--debug", "runs", "list"),
        *(
            ("runs", "--debug", "list"),
            ("runs", "--debug"),
            ("runs", "list", "--debug"),
        ),
    ],
)
def test_debug_stands_wherever_one_likes(headwise, runs, monkeypatch, arguments):
    """Before "list" it made that the name of a folder."""
    monkeypatch.setenv("HEADWISE_DEBUG", "")  # which the command line sets

    assert headwise(*arguments, runs).out == headwise("runs", runs).out != ""
