"""A lock that is free in a forked process."""

from __future__ import annotations

import subprocess
import sys
import threading

from headwise.fork_safe_lock import ForkSafeLock


def test_one_thread_at_a_time_holds_it_and_may_do_so_twice():
    lock, waited = ForkSafeLock(), []

    def wait() -> None:
        with lock.held():
            waited.append("held")

    with lock.held(), lock.held():
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.1)
        assert not waited
    thread.join()

    assert waited == ["held"]


FORKED = """
import os, signal, threading
from headwise.fork_safe_lock import ForkSafeLock

lock, is_held, may_end = ForkSafeLock(), threading.Event(), threading.Event()

def hold():
    with lock.held():
        is_held.set()
        may_end.wait()

threading.Thread(target=hold).start()
is_held.wait()
child = os.fork()
if child == 0:
    signal.alarm(10)
    with lock.held():
        os._exit(0)
status = os.waitpid(child, 0)[1]
may_end.set()
raise SystemExit(status)
"""


def test_it_is_free_in_a_forked_process():
    """An ordinary lock would stay locked: the thread that holds it was not copied."""
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)
