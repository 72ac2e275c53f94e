"""Background threads end before the interpreter does."""

import subprocess
import sys
import time

from headwise.errors import Cancelled
from headwise.inference.background_thread import BackgroundThread

ENDS_WHILE_TORCH_COMPUTES = """
import time, torch
from headwise.inference.background_thread import BackgroundThread

def work(check_stop):
    x = torch.ones(64, 64)
    while True:
        check_stop()
        x = (x @ x).clamp(0, 1)

thread = BackgroundThread(work)
time.sleep(0.05)
"""


def test_a_process_may_end_while_torch_computes_in_the_background():
    """Without being waited for, such a thread makes C++ abort the process."""
    found = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_TORCH_COMPUTES],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (found.returncode, found.stdout) == (0, "")
    assert "terminate called" not in found.stderr


def test_cancelling_raises_in_the_work():
    raised = []

    def work(check_stop):
        try:
            while True:
                check_stop()
                time.sleep(0.001)
        except Cancelled as error:
            raised.append(error)

    thread = BackgroundThread(work)
    thread.cancel()
    thread.join(10)

    assert len(raised) == 1


def test_work_that_has_ended_may_be_cancelled():
    done = []
    thread = BackgroundThread(lambda check_stop: done.append(check_stop()))
    thread.join(10)

    thread.cancel()

    assert done == [None]
