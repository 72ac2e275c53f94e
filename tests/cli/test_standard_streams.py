"""Standard streams that are closed, full or broken pipes: message and exit code."""

import io
import os
import shlex
import subprocess
import sys

import pytest
from tests.processes import environment

from headwise.cli.standard_streams import MessageStream

HEADWISE = f"{shlex.quote(sys.executable)} -m headwise"
LIGHT = [
    *("--help", "--version", "translate --help", "runs diff --help"),
    *("recipe", "recipe --list", "doctor --loader"),
]


def shell(command, **how):
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, **how
    )


@pytest.fixture
def model(tiny_run, tmp_path):
    """Return a model folder and a text of one line, as words of a command."""
    (tmp_path / "one.en").write_text("one two.\n")
    return shlex.quote(str(tiny_run / "best")), shlex.quote(str(tmp_path / "one.en"))


@pytest.mark.parametrize("arguments", LIGHT)
@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">/dev/full", "No space left on device"), (">&-", "it is closed")],
)
def test_output_that_cannot_be_written_is_said(arguments, redirection, reason):
    """Each of these ended in a traceback, or in silence and code 0 or 120."""
    done = shell(f"{HEADWISE} {arguments} {redirection}")

    assert done.returncode == 6
    assert done.stderr == (
        f"headwise: standard output cannot be written: {reason}; redirect it to a "
        "file, a pipe or a terminal (> FILE)\n"
    )


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
@pytest.mark.parametrize(
    "command",
    [
        "translate {model} {text}",
        "translate {model} {text} --scores",
        "score {model} {text} {text}",
        "evaluate {model} {text} {text} --json",
    ],
)
def test_what_a_model_makes_is_not_lost_in_silence(model, command, redirection):
    folder, text = model
    command = command.format(model=folder, text=text)
    done = shell(f"{HEADWISE} {command} {redirection}")

    assert done.returncode == 6
    assert "standard output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["recipe", "doctor --loader"])
def test_a_part_is_not_taken_for_the_whole(arguments, unbuffered, tmp_path):
    """Without a buffer the system takes what fits, and says so by a number only."""
    command = f"ulimit -f 1; {HEADWISE} {arguments} > out"
    done = shell(command, cwd=tmp_path, env=environment(PYTHONUNBUFFERED=unbuffered))

    assert (tmp_path / "out").stat().st_size == 1024
    assert done.returncode == 6
    assert "standard output cannot be written: File too large" in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_that_takes_no_more_for_now_is_no_success(model, unbuffered):
    """A reader that is slow, behind a pipe whose writer is told not to wait."""
    folder, _ = model
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    done = subprocess.run(
        shlex.split(f"{HEADWISE} translate {folder} - --n-best 4"),
        input=b"one two three four five six seven eight nine ten.\n" * 400,
        stdout=writes,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED=unbuffered),
        check=False,
    )
    os.close(writes)
    os.close(reads)

    assert done.returncode == 6
    assert b"standard output cannot be written" in done.stderr


def test_a_closed_standard_input_is_input_that_cannot_be_read(model):
    """It was an AttributeError of None: "a bug in headwise"."""
    done = shell(f"{HEADWISE} translate {model[0]} <&-")

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("headwise: standard input cannot be read: it is ")
    assert "Traceback" not in done.stderr


def test_who_names_a_file_needs_no_standard_input(model):
    done = shell(f"{HEADWISE} translate {model[0]} {model[1]} <&-")

    assert done.returncode == 0
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_messages_that_cannot_be_written_end_nothing(model, redirection):
    done = shell(f"{HEADWISE} translate {model[0]} {model[1]} {redirection}")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("arguments", [*LIGHT, "translate {model} {text}"])
def test_a_reader_who_leaves_at_once_is_no_error(model, arguments):
    """| head -1 has had enough; here nobody reads at all."""
    arguments = arguments.format(model=model[0], text=model[1])
    done = shell(f"{HEADWISE} {arguments} | sleep 0; exit ${{PIPESTATUS[0]}}")

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_no_file_is_opened_in_place_of_a_closed_stream(tmp_path):
    """Else the next file to be opened would be printed into."""
    code = (
        "from headwise.cli.standard_streams import open_closed_streams\n"
        "open_closed_streams()\n"
        f"with open({str(tmp_path / 'file')!r}, 'w') as file:\n"
        "    file.write(str(file.fileno()))\n"
    )
    done = shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} <&- >&- 2>&-")

    assert done.returncode == 0
    assert int((tmp_path / "file").read_text()) > 2


def test_a_stream_of_messages_hides_only_that_it_failed():
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    working = io.StringIO()
    assert MessageStream(working).write("hello") == 5
    assert working.getvalue() == "hello"
    assert MessageStream(Full()).write("hello") == 5


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize(
    "mistake",
    ["translate nowhere", "translate {model} --beam x", "wrong", "prepare --languages"],
)
def test_a_mistake_keeps_its_code_where_it_cannot_be_said(model, mistake, redirection):
    """A full disk under a log made code 1 of 2: "a bug in headwise"."""
    done = shell(f"{HEADWISE} {mistake.format(model=model[0])} {redirection}")

    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
