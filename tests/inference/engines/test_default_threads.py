"""The default number of threads is torch's, also without importing torch."""

import os
import subprocess
import sys

import pytest
from tests.processes import environment

from headwise.inference.engines.default_threads import cores

UNSET = """
import os
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.pop(name, None)
"""
ASKED = """
from headwise.inference.engines.default_threads import num_threads
print(num_threads())
"""


def said(*code):
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.split()


def test_as_many_threads_are_used_without_torch_as_with_it():
    alone = said(UNSET, ASKED, "import sys; assert 'torch' not in sys.modules")
    assert alone == said(UNSET, "import torch", ASKED)


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_the_variables_that_torch_reads_are_read(name):
    assert said(UNSET, f"os.environ[{name!r}] = '7'", ASKED) == ["7"]


def test_two_threads_of_a_core_count_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    for number, siblings in enumerate(["0,2", "1", "0,2"]):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert cores(tmp_path) == 2


def test_threads_of_an_unknown_machine_count_each(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert cores(tmp_path) == 3
