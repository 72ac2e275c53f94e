"""Processes that tests start print their stack if they crash in C code."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import environment

TESTS = Path(__file__).parents[1]


def environments(text):
    """Return what each call in ``text`` hands on as ``env``, as it is written."""
    return [
        ast.unparse(keyword.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "env"
    ]


@pytest.mark.parametrize("env", [None, environment()])
def test_a_started_process_tells_of_a_crash(env):
    code = "import ctypes; ctypes.string_at(0)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )

    assert done.returncode < 0
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert 'File "<string>", line 1 in <module>' in done.stderr


def test_all_tests_start_processes_in_that_environment():
    found = {
        each
        for path in TESTS.rglob("*.py")
        for each in environments(path.read_text(encoding="utf-8"))
    }

    assert "environment()" in found
    others = {each for each in found if not each.startswith("environment(")}
    assert others == {"env"}  # of the test above


def test_another_environment_would_be_seen():
    assert environments("run(program, env={'HOME': home})") == ["{'HOME': home}"]
