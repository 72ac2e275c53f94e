"""The command line as a whole: help at once, errors in words, codes that hold."""

import subprocess
import sys

import pytest
import typer

from headwise import __version__
from headwise.cli.app import app
from headwise.cli.errors import exit_on_errors
from headwise.errors import (
    DataError,
    HeadwiseError,
    ModelError,
    NumericsError,
    ResourceError,
    SettingsError,
    Stopped,
    UsageError,
)

COMMANDS = [
    *(each.callback.__name__.replace("_", "-") for each in app.registered_commands),
    *(group.name for group in app.registered_groups),
]

PROBE = """
import sys
from headwise.__main__ import main
for arguments in {calls}:
    sys.argv = ["headwise", *arguments]
    try:
        main()
    except SystemExit as ending:
        assert not ending.code, arguments
print(*sorted({{"torch", "numpy", "rich", "sentencepiece"}} & sys.modules.keys()))
"""


def test_all_commands_are_there():
    assert [
        *("run", "prepare", "train", "sweep", "back-translate"),
        *("forward-translate", "translate", "predict"),
        *("generate", "chat", "embed", "models", "evaluate", "score", "inspect"),
        *("export", "edit", "average", "recipe", "doctor", "complexity", "demo"),
        *("runs", "data"),
    ] == COMMANDS


def test_no_help_imports_anything_heavy():
    calls = [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)]
    calls += [["recipe", "--preset", "tiny"], ["recipe", "--list"]]
    calls += [["runs", "diff", "--help"], ["runs", "list", "--help"]]
    calls += [["data", "get", "--help"], ["data", "list"]]
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(calls=calls)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(headwise, command):
    found = headwise(command, "--help")

    assert found.code == 0
    assert f"headwise {command}" in found.out.split("Usage:")[1].split("\n", 1)[1]
    assert found.error == ""


def test_help_lists_the_commands_and_the_exit_codes(headwise):
    found = headwise("--help")

    assert all(f"  {command}" in found.out for command in COMMANDS)
    assert "75 saved after a stop" in " ".join(found.out.split())
    assert headwise("-h").out == found.out


def test_the_version_is_printed(headwise):
    assert headwise("--version").out == f"headwise {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["--fly"],
        ["recipe", "--fly"],
        ["run", "--preset"],
        ["run", "a", "b"],  # no --out
        ["run", "a", "b", "c", "--out", "x"],
        ["run", "a", "b", "--out", ""],  # an unset variable of a script
        ["train"],
        ["translate", "x", "--beam", "0"],
        ["translate", "x", "--beam", "many"],
        ["translate", "x", "--threads", "0"],
        ["translate", "x", "--threads", "99999999"],
        ["evaluate", "x"],
    ],
)
def test_unknown_options_are_a_usage_error(headwise, arguments):
    found = headwise(*arguments)

    assert found.code == 2
    assert found.out == ""
    assert "Error: " in found.error


class TestReported:
    """Every error becomes a message and a code."""

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (UsageError("why"), 2),
            (SettingsError(["why"]), 3),
            (DataError("why"), 4),
            (ModelError("why"), 5),
            (ResourceError("why"), 6),
            (NumericsError("why"), 7),
            (Stopped("why"), 75),
            (HeadwiseError("why"), 1),
            (OSError(5, "why"), 6),
            (KeyboardInterrupt("why"), 130),
            (RuntimeError("why"), 1),
        ],
    )
    def test_each_kind_has_its_code(self, error, code, capsys):
        with pytest.raises(typer.Exit) as caught:
            self.ending(error)

        out, said = capsys.readouterr()
        assert caught.value.exit_code == code
        assert out == ""
        assert said.startswith("headwise: ")
        assert "why" in said
        assert "Traceback" not in said

    @pytest.mark.parametrize(
        "error",
        [
            MemoryError(),
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
            RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        ],
    )
    def test_want_of_memory_is_a_resource_that_is_missing(self, error, capsys):
        with pytest.raises(typer.Exit) as caught:
            self.ending(error)

        assert caught.value.exit_code == 6
        assert "training.batch_tokens" in capsys.readouterr().err

    def test_settings_errors_are_listed_below_each_other(self, capsys):
        with pytest.raises(typer.Exit):
            self.ending(SettingsError(["a is wrong", "b is wrong"]))

        assert capsys.readouterr().err == (
            "headwise: invalid settings:\n- a is wrong\n- b is wrong\n"
        )

    def test_a_bug_asks_to_be_reported(self, capsys):
        with pytest.raises(typer.Exit):
            self.ending(ZeroDivisionError("division by zero"))

        said = capsys.readouterr().err
        assert "ZeroDivisionError" in said
        assert "the same command and --debug" in said

    def test_an_interruption_that_says_nothing_is_called_one(self, capsys):
        with pytest.raises(typer.Exit):
            self.ending(KeyboardInterrupt())

        assert capsys.readouterr().err == "headwise: interrupted\n"

    def test_with_debug_the_traceback_is_shown(self, capsys, monkeypatch):
        monkeypatch.setenv("HEADWISE_DEBUG", "1")
        with pytest.raises(typer.Exit):
            self.ending(DataError("why"))

        assert "Traceback" in capsys.readouterr().err

    def test_an_exit_that_was_meant_passes(self):
        with pytest.raises(typer.Exit) as caught:
            self.ending(typer.Exit(9))

        assert caught.value.exit_code == 9

    def ending(self, error):
        def command():
            raise error

        exit_on_errors(command, resumable=True)()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--debug", "recipe", "--preset", "none such"],
        ["recipe", "--debug", "--preset", "none such"],
        ["recipe", "--preset", "none such", "--debug"],
        ["runs", "--debug", "diff", "none", "such"],
        ["runs", "diff", "none", "such", "--debug"],
        ["runs", "none such", "--debug"],
    ],
)
def test_debug_stands_before_the_command_or_behind(headwise, monkeypatch, arguments):
    """Behind it, where one adds it to a command that failed, it was unknown."""
    monkeypatch.setenv("HEADWISE_DEBUG", "")  # so that it is put back
    with pytest.raises(AssertionError, match="Traceback"):
        headwise(*arguments)


@pytest.mark.parametrize(
    "command", [*COMMANDS, "runs list", "runs diff", "data list", "data get"]
)
def test_every_command_takes_debug(headwise, command):
    assert "--debug" in headwise(*command.split(), "--help").out


def test_an_interrupt_while_commands_are_imported_has_no_traceback():
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'headwise.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from headwise.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 130
    assert done.stderr == "headwise: interrupted\n"
