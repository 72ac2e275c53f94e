"""After a crash at any file operation, what stood there or what was to stand there.

``python -m benchmarks.durability.crashes`` tries more orders of what was not synced.
"""

import os
import random

import pytest
from benchmarks.durability import disk as models
from benchmarks.durability.crashes import crash_everywhere
from benchmarks.durability.disk import Disk
from benchmarks.durability.recorder import Operation
from benchmarks.durability.saves import SAVES

from headwise import storage
from headwise.run_folder.checkpoints import Checkpoints
from headwise.storage import disk, folders
from headwise.training.log import JsonLog


@pytest.mark.parametrize("name", SAVES)
def test_a_crash_leaves_the_old_or_the_new(name, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "ALL_ORDERS", 2)
    outcome = crash_everywhere(SAVES[name], tmp_path, tries=1, most=12)

    assert outcome.problems == []
    assert outcome.before + outcome.after == outcome.crashes.total() > 1
    assert outcome.disks.keys() == {"kept", "lost", "reordered"}


def no_sync(path):
    pass


def sync_files(path):
    if path.is_file():
        SYNC(path)


def sync_folders(path):
    if path.is_dir():
        SYNC(path)


def delete_before_syncing(draft, final):
    """Put a folder in place as storage once did where names cannot be swapped."""
    aside = disk._aside(draft)
    if final.exists():
        final.rename(aside)
    draft.rename(final)
    disk.shutil.rmtree(aside, ignore_errors=True)
    disk.sync(final.parent)


def delete_at_once(folder):
    disk.shutil.rmtree(folder)


def fill_in_place(draft, final):
    """Give up drafts: whoever is killed meanwhile leaves a half."""
    if draft.is_file():
        os.replace(draft, final)
        return
    final.mkdir(exist_ok=True)
    for path in sorted(draft.iterdir()):
        os.rename(path, final / path.name)


SYNC = disk.sync
FAULTS = {
    "nothing is synced": (disk, "sync", no_sync, "the first checkpoint"),
    "no folder is synced": (disk, "sync", sync_files, "the first checkpoint"),
    "no file is synced": (disk, "sync", sync_folders, "the first checkpoint"),
    "the log is not synced": (
        *(JsonLog, "sync", lambda log: None),
        "the log and a later checkpoint",
    ),
    "the older goes too early": (
        *(disk, "replace_atomically", delete_before_syncing),
        "the last checkpoint again, on a disk that cannot swap names",
    ),
    "nobody mends": (
        *(disk, "restore_replaced", lambda final: None),
        "the last checkpoint again, on a disk that cannot swap names",
    ),
    "old ones are deleted in place": (
        *(storage, "remove_folder", delete_at_once),
        "a checkpoint, after which the oldest goes",
    ),
    "leftovers stay": (
        *(Checkpoints, "_remove_leftovers", lambda checkpoints: None),
        "a checkpoint, after which the oldest goes",
    ),
    "no drafts": (disk, "replace_atomically", fill_in_place, "the first checkpoint"),
    "the manifest comes first": (
        *(folders, "_sync_tree", lambda draft: None),
        "the first checkpoint",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_these_tests_would_see_a_fault(fault, tmp_path, monkeypatch):
    where, what, faulty, save = FAULTS[fault]
    monkeypatch.setattr(where, what, faulty)

    assert crash_everywhere(SAVES[save], tmp_path, tries=1, problems=1).problems


def found(operations, model):
    simulated = Disk({"run": None, "run/old": b"old"})
    for operation in operations:
        simulated.apply(operation)
    disks = simulated.found(model, random.Random(1), tries=5)
    return [{name.removeprefix("run/"): tree[name] for name in tree} for tree in disks]


CREATE = Operation("create", "run/new", handle=1)
WRITE = Operation("write", "run/new", handle=1, data=b"new")
RENAME = Operation("rename", "run/new", "run/old")
SYNC_FILE, SYNC_FOLDER = Operation("sync", "run/new"), Operation("sync", "run")
OLD = {"run": None, "old": b"old"}


def test_what_was_not_synced_may_be_lost():
    assert found([CREATE, WRITE], "kept") == [{**OLD, "new": b"new"}]
    assert found([CREATE, WRITE], "lost") == [OLD]
    assert found([CREATE, WRITE, SYNC_FOLDER], "lost") == [{**OLD, "new": b""}]
    assert found([CREATE, WRITE, SYNC_FILE], "lost") == [OLD]
    assert found([CREATE, WRITE, SYNC_FILE, SYNC_FOLDER], "lost") == [
        {**OLD, "new": b"new"}
    ]


def test_a_rename_may_come_before_the_content():
    """The hole that most programs fall into: a new name for an empty file."""
    disks = found([CREATE, WRITE, RENAME], "reordered")
    assert {"run": None, "old": b""} in disks
    assert {"run": None, "old": b"new"} in disks
    assert OLD in disks


def test_a_rename_after_a_sync_never_shows_half_a_file():
    disks = found([CREATE, WRITE, SYNC_FILE, RENAME], "reordered")
    assert {tree["old"] for tree in disks} == {b"old", b"new"}
    assert found([CREATE, WRITE, SYNC_FILE, RENAME, SYNC_FOLDER], "reordered") == [
        {"run": None, "old": b"new"}
    ]
