"""Subprocesses die with their parent, stop signals pass by, arguments arrive."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwise.subprocesses import start_subprocess

SLOW_TO_IMPORT = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)  # as if it imported torch
"""

PARENT = """
import sys
sys.path.insert(0, sys.argv[1])
from headwise.subprocesses import start_subprocess
start_subprocess("slow_to_import", "A test runs", sys.argv[2]).wait()
"""


def wait_for(happened, seconds=60.0):
    until = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends such processes")
def test_it_dies_with_its_parent_while_it_imports(tmp_path):
    (tmp_path / "slow_to_import.py").write_text(SLOW_TO_IMPORT)
    noted = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), str(noted)])
    child = int(wait_for(lambda: content(noted)))

    parent.kill()
    parent.wait()

    wait_for(lambda: not is_alive(child))


def test_it_has_its_arguments_and_no_stop_signal_ends_it(tmp_path, monkeypatch):
    (tmp_path / "tells.py").write_text(
        "import os, signal, sys\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "print(__name__, sys.argv[1:])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    process = start_subprocess(
        "tells", "A test runs", "a", "b c", stdout=subprocess.PIPE
    )

    assert process.communicate()[0] == b"__main__ ['a', 'b c']\n"
    assert process.returncode == 0


def test_it_ends_at_once_if_its_parent_is_gone():
    command = [sys.executable, "-m", "headwise.subprocesses", str(os.getpid() + 1), "x"]

    assert subprocess.run(command, check=False).returncode == 1
