"""A trial that trains nothing, for tests of what runs trials.

Its learning rate says what it does: below 100 its validation value is that rate times
the number of updates, of which it makes 40; others are in ``ENDS``.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

EXITS, IS_KILLED, FAILS, DISK_IS_FULL, WAITS = 100.0, 101.0, 102.0, 103.0, 104.0

READY = "ready"
"""File in the folder of a trial that waits to be stopped."""


def send(what, **facts):
    print(json.dumps({"what": what, **facts}), flush=True)


def state(step, rate, **more):
    value = rate * step
    return {
        "step": step,
        "last_step": 40,
        "value": value,
        "best_value": value,
        "best_step": step,
        "tokens": 10 * step,
        "minutes": step / 100,
        **more,
    }


def main():
    order = json.loads(sys.stdin.readline())
    rate = order["recipe"]["training"]["learning_rate"]
    folder = Path(order["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    if rate == EXITS:
        print("what it said last", file=sys.stderr)
        sys.exit(3)
    if rate == IS_KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    if rate == FAILS:
        send("failed", error="the loss is nan", code=7, ends_sweep=False)
        return
    if rate == DISK_IS_FULL:
        while order["recipe"]["seed"] == 2 and not [*folder.parent.glob(f"*/{READY}")]:
            time.sleep(0.01)
        send("failed", error="no space", code=6, ends_sweep=True)
        return
    if rate == WAITS:
        send("validation", **state(10, rate))
        signal.signal(signal.SIGTERM, lambda *_: saved(rate))
        (folder / READY).touch()
        while True:
            time.sleep(1)
    for step in (10, 20, 30, 40):
        send("validation", **state(step, rate))
        if sys.stdin.readline().strip() == "stop":
            send("stopped", **state(step + 1, rate, reason="stopped"))
            return
    send("finished", **state(40, rate, reason="40 updates are done"))


def saved(rate):
    send("interrupted", **state(11, rate, reason="stopped"))
    sys.exit(0)


if __name__ == "__main__":
    main()
