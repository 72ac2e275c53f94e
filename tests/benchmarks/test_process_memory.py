"""Memory of several processes: each page counts once."""

import mmap
import os
import subprocess
import sys
import time

import pytest
from benchmarks.process_memory import Watch, held, peak_of, run_watched, tree

MIB = 2**20
pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/smaps_rollup"), reason="needs Linux's smaps_rollup"
)

SHARING = """
import mmap, os, subprocess, sys
memory = mmap.mmap(int(sys.argv[1]), {shared})
for _ in range({shared} // 2**20):
    memory.write(b"x" * 2**20)
own = b"y" * {own}
if len(sys.argv) > 2:
    words = [sys.executable, __file__, sys.argv[1]]
    child = subprocess.Popen(words, pass_fds=[int(sys.argv[1])], stdin=0, stdout=1)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def pair(tmp_path):
    """A process and its child: 64 MiB that both see, and 32 MiB of each alone."""
    script = tmp_path / "sharing.py"
    script.write_text(SHARING.format(shared=64 * MIB, own=32 * MIB))
    memory = os.memfd_create("shared")
    os.truncate(memory, 64 * MIB)
    process = subprocess.Popen(
        [sys.executable, script, str(memory), "parent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[memory],
    )
    assert [process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
    yield process.pid
    process.stdin.close()
    process.wait()
    process.stdout.close()
    os.close(memory)


PYTHONS = 40 * MIB
"""What two interpreters that do nothing hold at most."""


def test_the_children_of_a_process_are_found(pair):
    parent, child = tree(pair)

    assert parent == pair
    assert child != pair


def test_shared_memory_counts_once_and_that_of_each_in_full(pair):
    parts = held(tree(pair))

    assert 128 * MIB <= sum(parts.values()) <= 128 * MIB + PYTHONS
    assert all(size >= (32 + 32) * MIB for size in parts.values())


def test_peaks_count_shared_memory_once(pair):
    assert 128 * MIB <= peak_of(pair) <= 128 * MIB + PYTHONS


def test_a_watch_remembers_what_is_held_no_more():
    before = sum(held([os.getpid()]).values())
    with Watch(os.getpid()) as watch:
        memory = mmap.mmap(-1, 64 * MIB)
        for _ in range(64):
            memory.write(b"x" * MIB)
        while watch.peak < before + 60 * MIB:
            time.sleep(0.01)
        memory.close()

    assert watch.peak >= sum(held([os.getpid()]).values()) + 50 * MIB
    assert sum(watch.processes.values()) == watch.peak


def test_a_process_that_has_ended_holds_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    assert held([process.pid]) == {process.pid: 0}


def test_a_command_is_watched_to_its_end():
    script = f"held = b'x' * {64 * MIB}; import time; time.sleep(0.5); print('one')"

    said, watch = run_watched([sys.executable, "-c", script])

    assert said == ["one"]
    assert 64 * MIB < watch.peak < 64 * MIB + PYTHONS


def test_a_command_that_fails_is_named():
    with pytest.raises(SystemExit, match="ended with status 3"):
        run_watched([sys.executable, "-c", "raise SystemExit(3)"])
