"""However often a process is killed, the pairs are those of one that never was."""

import json
from contextlib import suppress

import pytest

from headwise import storage
from headwise.errors import DataError, ResourceError, UsageError
from headwise.inference import resumable_pairs as module
from headwise.inference.resumable_pairs import ResumablePairs
from headwise.storage.disk import lock_while_used

IDENTITY = {"model": ["a"], "text": ["b"], "search": {"banned": ()}}
BLOCKS = [
    ([("eins", "one")], [("line 2", "blank", "", "")]),
    ([], [("line 3", "loop", "a\tb", "c")]),
    ([("zwei", "t\two"), ("drei", "three")], []),
]


class Killed(BaseException):
    """What no handler of errors catches."""


@pytest.fixture
def out(tmp_path):
    return tmp_path / "bt.tsv"


def write(out, identity=IDENTITY):
    """Write what is missing of the blocks, two lines each."""
    with ResumablePairs(out, identity) as pairs:
        if pairs.is_complete:
            return pairs
        for kept, left_out in BLOCKS[pairs.num_lines // 2 :]:
            pairs.append(kept, left_out, num_lines=2)
        pairs.finish()
    return pairs


def test_pairs_are_lines_with_one_tab(out):
    pairs = write(out)

    assert out.read_text() == "eins\tone\nzwei\tt wo\ndrei\tthree\n"
    listed = out.with_name("bt.tsv.left-out.tsv").read_text()
    assert listed == "line 2\tblank\t\t\nline 3\tloop\ta b\tc\n"
    assert (pairs.num_lines, pairs.num_pairs) == (6, 3)
    assert pairs.reasons == {"blank": 1, "loop": 1}
    assert json.loads(out.with_name("bt.tsv.progress.json").read_text())["pairs"] == 3


def test_what_is_complete_stays_so(out):
    write(out)
    again = write(out)
    assert again.is_complete
    assert (again.num_pairs, again.reasons.total()) == (3, 2)


@pytest.mark.parametrize("operation", ["fsync", "write_json", "sync"])
@pytest.mark.parametrize("number", range(8))
def test_a_kill_at_any_operation_changes_nothing(
    out, monkeypatch, tmp_path, operation, number
):
    """The operation of that number does not happen, or has just happened."""
    expected = tmp_path / "other"
    expected.mkdir()
    write(expected / "bt.tsv")
    owner = module.os if operation == "fsync" else module.storage
    plain = getattr(owner, operation)
    for happened in (False, True):
        calls = iter(range(100))

        def killed(*args, calls=calls, happened=happened):
            if next(calls) != number:
                return plain(*args)
            if happened:
                plain(*args)
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(owner, operation, killed)
            with suppress(Killed):
                write(out)
        names = ("bt.tsv", "bt.tsv.left-out.tsv")
        part = out.with_name("bt.tsv.part")
        for each in (part, out.with_name(names[1])):
            if part.exists() and each.exists():  # not finished
                with each.open("ab") as file:
                    file.write(b"written just before the kill")
        write(out)
        for name in names:
            same = (expected / name).read_bytes()
            assert out.with_name(name).read_bytes() == same
        for each in tmp_path.glob("bt.tsv*"):
            each.unlink()


def test_a_full_disk_is_an_error_that_can_be_resumed(out, monkeypatch):
    with monkeypatch.context() as patched:

        def full(_):
            raise OSError(28, "No space left on device")

        patched.setattr(module.os, "fsync", full)
        with pytest.raises(ResourceError, match="No space left"):
            write(out)
    write(out)
    assert out.read_text().count("\n") == 3


def begin(out):
    """Write the first block, and stop."""
    with ResumablePairs(out, IDENTITY) as pairs:
        pairs.append(*BLOCKS[0], num_lines=2)


@pytest.mark.parametrize("finish", [begin, write])
def test_another_model_text_or_search_is_refused(out, finish):
    finish(out)
    for name in IDENTITY:
        with pytest.raises(UsageError, match=f"started with another {name}; choose"):
            write(out, {**IDENTITY, name: "other"})


def test_what_an_output_depended_on_before_and_no_longer_does_is_refused(out):
    begin(out)
    fewer = {name: each for name, each in IDENTITY.items() if name != "text"}
    with pytest.raises(UsageError, match="started with another text; choose"):
        write(out, fewer)


def test_settings_may_change_until_there_is_a_line(out):
    with ResumablePairs(out, {**IDENTITY, "search": "other"}):
        pass
    write(out)
    assert out.exists()


def test_other_files_are_not_overwritten(out):
    out.write_text("mine")
    with pytest.raises(UsageError, match=r"bt\.tsv exists, and no progress"):
        write(out)
    assert out.read_text() == "mine"


def test_a_file_that_became_shorter_is_damaged(out):
    begin(out)
    out.with_name("bt.tsv.part").write_bytes(b"")
    with pytest.raises(DataError, match="has 0 bytes, but had 9"):
        write(out)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"identity": 1}'])
def test_a_damaged_progress_is_named(out, text):
    begin(out)
    out.with_name("bt.tsv.progress.json").write_text(text)
    with pytest.raises(DataError, match=r"progress\.json is no progress"):
        write(out)


@pytest.mark.parametrize("name", ["identity", "bytes", "left_out"])
def test_a_progress_with_a_list_for_a_table_is_damaged(out, name):
    begin(out)
    change_progress(out, {name: []})
    with pytest.raises(DataError, match=r"progress\.json is no progress"):
        write(out)


def test_a_progress_of_a_newer_version_is_not_read(out):
    begin(out)
    change_progress(out, {"format": 2})
    with pytest.raises(storage.NewerFormat, match="has format 2, which this version"):
        write(out)


def change_progress(out, changes):
    path = out.with_name("bt.tsv.progress.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_pairs_that_were_complete_and_are_gone_are_named(out):
    write(out)
    out.unlink()
    with pytest.raises(UsageError, match="was complete and is gone"):
        write(out)


def test_two_processes_do_not_write_one_file(out):
    begin(out)
    handle = lock_while_used(out.with_name("bt.tsv.part"))
    assert handle is not None
    with pytest.raises(UsageError, match="by another process"):
        write(out)
    storage.sync(out.parent)
