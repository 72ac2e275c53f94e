"""One process locks a folder; the lock is released when the process ends."""

import fcntl
import subprocess
import sys
import threading

import pytest

from headwise.errors import ResourceError, UsageError
from headwise.run_folder import lock
from headwise.run_folder.lock import LOCK, is_held, locked, locked_directly

HOLD = """
import sys, time
from pathlib import Path
from headwise.run_folder.lock import LOCK, is_held, locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_holder_is_refused_and_told_who_holds(tmp_path):
    with (
        locked(tmp_path / "run"),
        pytest.raises(UsageError, match=r"another process is working in .*run; wait"),
        locked(tmp_path / "run"),
    ):
        raise AssertionError("two holders")


def test_a_folder_that_is_replaced_whole_is_held_itself(tmp_path):
    """Nothing is written into it; two hold it one after the other."""
    folder = tmp_path / "model"
    folder.mkdir()
    with locked_directly(folder):
        with pytest.raises(UsageError, match="working in"), locked_directly(folder):
            raise AssertionError("two holders")
        folder.rename(tmp_path / "old")
        folder.mkdir()
    with locked_directly(folder):
        assert not any(folder.iterdir())


def test_who_has_locked_what_was_just_replaced_holds_nothing(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    folder.mkdir()

    def replaced(handle):
        folder.rename(tmp_path / "old")
        folder.mkdir()
        return True

    monkeypatch.setattr(lock, "_acquire", replaced)
    with pytest.raises(UsageError, match="another process"), locked_directly(folder):
        raise AssertionError("another folder is held")


def test_the_folder_is_free_again_after_the_first(tmp_path):
    with locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_killed_holder_holds_nothing(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError), locked(tmp_path):
            raise AssertionError("two holders")
        holder.kill()
    with locked(tmp_path):
        pass


def test_folders_do_not_hold_each_other(tmp_path):
    with locked(tmp_path / "one"), locked(tmp_path / "other"):
        assert (tmp_path / "other").is_dir()


def test_where_no_folder_can_be_made_that_is_said(tmp_path):
    (tmp_path / "file").write_text("text")

    with (
        pytest.raises(ResourceError, match="cannot be written"),
        locked(tmp_path / "file" / "run"),
    ):
        raise AssertionError("held a file")


def test_whether_somebody_works_there_can_be_asked(tmp_path):
    assert not is_held(tmp_path / "missing")
    with locked(tmp_path / "run"):
        assert is_held(tmp_path / "run")
    assert not is_held(tmp_path / "run")


def test_one_who_only_asks_keeps_nobody_from_beginning(tmp_path):
    """Asking takes a shared lock for a moment; who begins just then tries again."""
    with locked(tmp_path / "run"):
        pass
    with (tmp_path / "run" / LOCK).open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        threading.Timer(0.03, fcntl.flock, [asking, fcntl.LOCK_UN]).start()
        with locked(tmp_path / "run"):
            pass
