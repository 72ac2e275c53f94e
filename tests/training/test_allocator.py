"""glibc is told to keep freed memory."""

import ctypes
import subprocess
import sys

from headwise.training import allocator
from headwise.training.allocator import keep_freed_memory

HAS_MALLOPT = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "mallopt")

SCRIPT = """
from headwise.training.allocator import keep_freed_memory
print(keep_freed_memory())
"""


def test_glibc_accepts_the_malloc_options():
    """In a process of its own: the switch holds for a whole process."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == str(HAS_MALLOPT)


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    monkeypatch.setattr(allocator.ctypes, "CDLL", None)

    assert keep_freed_memory() is False


def test_a_c_library_without_the_switch_is_no_error(monkeypatch):
    monkeypatch.setattr(allocator.sys, "platform", "linux")
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())

    assert keep_freed_memory() is False
