"""docs/decoding.md names every setting, and its commands are run."""

import re
import shlex
import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from headwise.__main__ import main
from headwise.decoding.ensemble import AVERAGES
from headwise.decoding.length_penalty import LENGTH_PENALTIES
from headwise.decoding.search import SEARCHES
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.stopping import STOPPING
from headwise.decoding.warning_settings import WarningSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]

ENGLISH = ["The dog sleeps in the garden.", "My mother eats bread."]
FRENCH = ["Le chien dort dans le jardin.", "Ma mère mange du pain."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(ROOT / "tests" / "models" / "demo", folder / "en-fr")
    for name, lines in (
        ("test.en", ENGLISH),
        ("test.fr", FRENCH),
        ("begin.fr", ["Le chi", ""]),
    ):
        (folder / name).write_text("".join(f"{each}\n" for each in lines), "utf-8")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_runs(command, folder, monkeypatch, capfdbinary):
    monkeypatch.chdir(folder)
    words = shlex.split(command.split(" | ")[0])
    engine = ["--engine", "torch"] if words[1] == "translate" else []
    monkeypatch.setattr("sys.argv", [*words, *engine])
    with pytest.raises(SystemExit) as ending:
        main()

    assert not ending.value.code
    assert capfdbinary.readouterr().out.count(b"\n") >= 1


def test_there_are_commands():
    assert len(COMMANDS) > 20
    assert all(command.startswith("headwise ") for command in COMMANDS)


def test_every_setting_is_on_the_page():
    names = {each.name for each in fields(DecodingSettings)} - {"warnings"}
    names |= {each.name for each in fields(WarningSettings)}

    assert {name for name in names if f"{name}" not in PAGE} == set()


@pytest.mark.parametrize(
    "known",
    [SEARCHES, LENGTH_PENALTIES, STOPPING, AVERAGES],
)
def test_every_choice_is_on_the_page(known):
    assert [name for name in known if name not in PAGE] == []
