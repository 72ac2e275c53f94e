"""Storage: a folder is written whole or not at all, and damage is found and named."""

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headwise import storage
from headwise.errors import DataError, ModelError, ResourceError, UsageError
from headwise.storage import (
    MANIFEST,
    NewerFormat,
    check_writable,
    disk,
    folders,
    manifests,
    new_folder,
    read_json,
    verify,
    write_json,
)

IN_ANOTHER_PROCESS = """
import os, resource, signal, sys
from pathlib import Path
from headwise import storage
from headwise.errors import ResourceError
from headwise.storage import disk, folders
final = Path(sys.argv[1])
"""


def fill(final: Path, text: str, **describe: object) -> None:
    with new_folder(final, describe=describe) as draft:
        (draft / "weights").write_text(text)
        (draft / "tokenizer").mkdir()
        (draft / "tokenizer" / "vocabulary.json").write_text("[]")


def fill_half(final: Path, error: BaseException) -> None:
    with new_folder(final) as draft:
        (draft / "weights").write_text("half")
        raise error


def in_another_process(code: str, final: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS + code, str(final)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def final(tmp_path) -> Path:
    return tmp_path / "runs" / "best"


@pytest.fixture
def older(final) -> dict[str, bytes]:
    """Let a folder stand at ``final`` and return what is in it."""
    fill(final, "old")
    return content(final)


def test_a_folder_stands_under_its_name_with_a_manifest(final):
    fill(final, "new", kind="model", step=12)

    manifest = verify(final)

    assert manifest["kind"] == "model"
    assert manifest["step"] == 12
    assert manifest["files"] == {
        "tokenizer/vocabulary.json": {
            "bytes": 2,
            "sha256": storage.sha256(final / "tokenizer" / "vocabulary.json"),
        },
        "weights": {
            "bytes": 3,
            # printf new | sha256sum
            "sha256": "11507a0e2f5e69d5dfa40a62a1bd7b6e"
            "e57e6bcd85c67c9b8431b36fff21c437",
        },
    }
    assert os.listdir(final.parent) == ["best"]


def test_others_may_read_it_as_the_umask_allows(final):
    before = os.umask(0o022)
    try:
        fill(final, "new")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (final, final / MANIFEST)]
    assert modes == [0o755, 0o644]


def test_an_older_folder_is_replaced_and_goes(final, older):
    fill(final, "new")

    assert (final / "weights").read_text() == "new"
    assert os.listdir(final.parent) == ["best"]


def test_it_is_replaced_too_where_names_cannot_be_swapped(final, older, monkeypatch):
    monkeypatch.setattr(disk, "swap_names", lambda one, other: False)
    fill(final, "new")

    assert (final / "weights").read_text() == "new"
    assert os.listdir(final.parent) == ["best"]


def test_a_manifest_copied_into_the_folder_does_not_spoil_it(final, older, tmp_path):
    """Its old text used to be listed, and the new manifest then did not match it."""
    with new_folder(tmp_path / "copy") as draft:
        for name, old in older.items():
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_bytes(old)

    assert MANIFEST not in verify(tmp_path / "copy")["files"]


def test_a_description_cannot_pose_as_the_list_of_files(final):
    fill(final, "new", files={}, format=99)
    assert len(verify(final)["files"]) == 2


def test_an_exception_inside_leaves_the_older_one(final, older):
    with pytest.raises(KeyboardInterrupt):
        fill_half(final, KeyboardInterrupt())

    assert content(final) == older
    assert os.listdir(final.parent) == ["best"]


def test_an_exception_inside_leaves_nothing_where_nothing_was(final):
    with pytest.raises(DataError, match="line 3"):
        fill_half(final, DataError("line 3"))

    assert os.listdir(final.parent) == []


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EACCES, "a folder you may write to"),
        (errno.EROFS, "a folder you may write to"),
        (errno.EIO, "check the disk"),
    ],
    ids=errno.errorcode.get,
)
def test_what_the_disk_refuses_leaves_the_older_one(final, older, number, advice):
    with pytest.raises(ResourceError, match=advice) as caught:
        fill_half(final, OSError(number, os.strerror(number)))

    assert str(final) in str(caught.value)
    assert content(final) == older
    assert os.listdir(final.parent) == ["best"]


MOMENTS = {
    "the manifest is written": (folders, "write_manifest"),
    "all is synced": (folders, "_sync_tree"),
    "the names are swapped": (disk, "replace_atomically"),
}


@pytest.mark.parametrize("step", MOMENTS)
def test_the_disk_may_refuse_at_every_step_of_the_end(final, older, step, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*MOMENTS[step], refuse)
    with pytest.raises(ResourceError):
        fill(final, "new")

    assert content(final) == older


def test_the_older_one_comes_back_when_the_last_rename_fails(final, older, monkeypatch):
    """Moved aside and left there, it used to be lost to whoever looked for it."""
    rename = Path.rename

    def fails_for_the_draft(path, target):
        if path.suffix == disk.UNFINISHED and path.parent == final.parent:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return rename(path, target)

    monkeypatch.setattr(disk, "swap_names", lambda one, other: False)
    monkeypatch.setattr(Path, "rename", fails_for_the_draft)
    with pytest.raises(ResourceError):
        fill(final, "new")

    assert content(final) == older


WRITERS = {
    "text": "storage.write_text(draft / 'file', 'a' * 100_000)",
    "bytes": "(draft / 'file').write_bytes(bytes(100_000))",
    "numpy": "import numpy; numpy.save(draft / 'file.npy', numpy.zeros(100_000))",
    "safetensors": "from safetensors.numpy import save_file; import numpy; "
    "save_file({'a': numpy.zeros(100_000)}, draft / 'file')",
}


@pytest.mark.parametrize("writer", WRITERS)
def test_each_way_of_writing_tells_when_there_is_no_room(final, older, writer):
    """A true refusal: the process may write files of 10,000 bytes at most."""
    code = f"""
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    with storage.new_folder(final) as draft:
        {WRITERS[writer]}
except ResourceError as error:
    print(error)
"""
    done = in_another_process(code, final)

    assert done.stdout.startswith(f"{final}"), done.stderr
    assert "cannot be written" in done.stdout
    assert content(final) == older
    assert os.listdir(final.parent) == ["best"]


def test_an_input_that_cannot_be_read_is_not_blamed_on_the_folder(final, tmp_path):
    with pytest.raises(FileNotFoundError), new_folder(final):
        (tmp_path / "no such file").read_bytes()


def test_a_closed_pipe_is_not_blamed_on_the_folder(final):
    with pytest.raises(BrokenPipeError):
        fill_half(final, BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_before_the_end_leaves_the_older_one(final, older, moment):
    module, function = MOMENTS[moment]
    code = f"""
import {module.__name__}
{module.__name__}.{function} = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
with storage.new_folder(final) as draft:
    (draft / "weights").write_text("new")
"""
    assert in_another_process(code, final).returncode == -signal.SIGKILL
    assert content(final) == older

    fill(final, "newer")  # clears away what the killed one left
    assert os.listdir(final.parent) == ["best"]


def test_a_kill_just_after_the_swap_leaves_the_new_one_whole(final, older):
    code = """
delete = disk.delete_temporary
def killed(path):
    if path.parent == final.parent:
        os.kill(os.getpid(), signal.SIGKILL)
    delete(path)
disk.delete_temporary = killed
with storage.new_folder(final) as draft:
    (draft / "weights").write_text("new")
"""
    assert in_another_process(code, final).returncode == -signal.SIGKILL
    verify(final)
    assert (final / "weights").read_text() == "new"

    fill(final, "newer")
    assert os.listdir(final.parent) == ["best"]


def test_a_kill_between_two_renames_is_mended_by_the_next_writer(final, older):
    """Where names cannot be swapped the older one is aside for a moment."""
    code = """
disk.swap_names = lambda one, other: False
rename = Path.rename
def rename_once(path, target):
    if path.suffix == disk.UNFINISHED and path.parent == final.parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, target)
Path.rename = rename_once
with storage.new_folder(final) as draft:
    (draft / "weights").write_text("new")
"""
    assert in_another_process(code, final).returncode == -signal.SIGKILL
    assert not final.exists()

    with pytest.raises(DataError):
        fill_half(final, DataError("the next writer fails, and the older one remains"))
    assert content(final) == older


def test_a_writer_at_work_is_not_swept_away(final):
    with new_folder(final) as slow:
        (slow / "weights").write_text("slow")
        fill(final, "fast")
        assert (final / "weights").read_text() == "fast"

    assert (final / "weights").read_text() == "slow"
    assert os.listdir(final.parent) == ["best"]


def test_folders_of_similar_names_are_not_swept_away(final, older):
    kept = [".best.backup", ".best.12345678", ".best2.12345678.unfinished", "best.old"]
    for name in kept:
        (final.parent / name).mkdir()
    fill(final, "new")

    assert sorted(os.listdir(final.parent)) == sorted([*kept, "best"])


def test_a_folder_of_other_things_is_never_replaced(tmp_path):
    """``--out .`` would have deleted everything that the user had there."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "letters.txt").write_text("dear")

    with pytest.raises(UsageError, match="new, empty or written by"):
        fill(home, "new")
    with pytest.raises(UsageError, match="new, empty or written by"):
        fill(home / "letters.txt", "new")
    assert content(home) == {"letters.txt": b"dear"}


def test_an_empty_folder_may_be_filled(final):
    final.mkdir(parents=True)
    fill(final, "new")
    verify(final)


def test_a_link_is_followed_and_stays(final, tmp_path):
    final.parent.mkdir()
    elsewhere = tmp_path / "big disk"
    final.symlink_to(elsewhere)
    fill(final, "new")
    fill(final, "newer")

    assert final.is_symlink()
    assert (elsewhere / "weights").read_text() == "newer"


def test_a_parent_that_is_a_file_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot be written"):
        fill(tmp_path / "file" / "best", "new")


DAMAGES = {
    "flipped": lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + b"ld"),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "emptied": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["weights", "tokenizer/vocabulary.json"])
def test_damage_is_found_and_named(final, older, name, damage):
    DAMAGES[damage](final / name)
    with pytest.raises(ModelError, match=name):
        verify(final)


def test_no_single_bit_can_flip_unseen(final, older):
    path = final / "weights"
    for bit in range(8 * len(older["weights"])):
        flipped = bytearray(older["weights"])
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(ModelError, match="weights"):
            verify(final)


def test_a_file_that_may_not_be_read_is_said(final, older, monkeypatch):
    def forbid(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(manifests, "sha256", forbid)
    with pytest.raises(ModelError, match="Permission denied"):
        verify(final)


FACTS = {"bytes": 1, "sha256": "0"}
BAD_MANIFESTS = {
    "a list": [],
    "no format": {"files": {}},
    "no files": {"format": 1},
    "files in a list": {"format": 1, "files": ["weights"]},
    "upwards": {"format": 1, "files": {"../../secret": FACTS}},
    "upwards inside": {"format": 1, "files": {"tokenizer/../../secret": FACTS}},
    "absolute": {"format": 1, "files": {"/etc/passwd": FACTS}},
    "backslashes": {"format": 1, "files": {"..\\secret": FACTS}},
    "no name": {"format": 1, "files": {"": FACTS}},
    "a zero byte": {"format": 1, "files": {"a\0b": FACTS}},
    "no facts": {"format": 1, "files": {"weights": None}},
    "half the facts": {"format": 1, "files": {"weights": {"bytes": 3}}},
}


@pytest.mark.parametrize("manifest", BAD_MANIFESTS)
def test_a_hostile_or_foreign_manifest_is_refused(final, older, manifest):
    (final / MANIFEST).write_text(json.dumps(BAD_MANIFESTS[manifest]))
    with pytest.raises(ModelError, match="manifest"):
        verify(final)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "\ufeff{}", '"\\ud8"'], ids=lambda t: repr(t)[:9]
)
def test_a_manifest_that_is_not_json_is_refused(final, older, text):
    (final / MANIFEST).write_text(text)
    with pytest.raises(ModelError, match=r"manifest\.json cannot be read as JSON"):
        verify(final)


def test_a_folder_of_a_newer_version_asks_for_that_version(final, older):
    newer = {"format": 3, "contents": "in a new way"}
    write_json(final / MANIFEST, {**newer, "sha256": manifests.manifest_sha256(newer)})
    with pytest.raises(NewerFormat, match="formats up to 2: use a newer headwise"):
        verify(final)


def test_a_folder_without_a_manifest_is_not_used(final, older):
    (final / MANIFEST).unlink()
    with pytest.raises(ModelError, match="has no manifest"):
        verify(final)


def test_a_path_to_nothing_is_said(final):
    with pytest.raises(ModelError, match="is not a folder"):
        verify(final)


def test_a_folder_of_format_1_is_read_for_ever(final, older):
    """Its manifest has no SHA-256 of itself."""
    manifest = read_json(final / MANIFEST)
    del manifest["sha256"]
    write_json(final / MANIFEST, {**manifest, "format": 1})

    assert verify(final)["files"] == manifest["files"]


def test_no_bit_of_a_manifest_can_flip_unseen(tmp_path):
    fill(tmp_path / "best", "w", corpus="of this text", kind="checkpoint")
    path = tmp_path / "best" / MANIFEST
    written = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        for place, byte in enumerate(written):
            for bit in range(8):
                file.seek(place)
                file.write(bytes([byte ^ 1 << bit]))
                with pytest.raises(ModelError):
                    verify(tmp_path / "best")
            file.seek(place)
            file.write(bytes([byte]))


def test_a_reader_mends_what_a_killed_writer_left_between_two_renames(final, older):
    final.rename(final.with_name(f".best.12345678{disk.REPLACED}"))
    (final.parent / f".best.12345678{disk.UNFINISHED}").mkdir()

    verify(final)
    assert content(final) == older


def test_a_reader_leaves_a_writer_between_two_renames_alone(final, older):
    draft = final.parent / f".best.12345678{disk.UNFINISHED}"
    final.rename(draft.with_suffix(disk.REPLACED))
    draft.mkdir()
    in_use = disk.lock_while_used(draft)
    with pytest.raises(ModelError, match="is not a folder"):
        verify(final)

    os.close(in_use)
    verify(final)


def test_what_reads_back_differently_is_never_put_in_place(final, older, monkeypatch):
    """A disk or a memory that flips a bit between writing and reading."""
    sync_tree = folders._sync_tree

    def flip(draft):
        sync_tree(draft)
        (draft / "weights").write_text("nEw")

    monkeypatch.setattr(folders, "_sync_tree", flip)
    with pytest.raises(ResourceError, match="reads back differently"):
        fill(final, "new")

    assert content(final) == older
    assert os.listdir(final.parent) == ["best"]


def test_the_older_one_comes_back_when_its_folder_cannot_be_synced(
    final, older, monkeypatch
):
    """Whether the new name is on the disk is not known, so it cannot be promised."""
    sync = disk.sync

    def refuse(path):
        if path == final.parent:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(path)

    for swapped in (disk.swap_names, lambda one, other: False):
        monkeypatch.setattr(disk, "swap_names", swapped)
        monkeypatch.setattr(disk, "sync", sync)
        disk.make_folder(final.parent)
        monkeypatch.setattr(disk, "sync", refuse)
        with pytest.raises(ResourceError):
            fill(final, "new")
        assert content(final) == older
        assert os.listdir(final.parent) == ["best"]


def test_a_removed_folder_is_gone_and_what_a_kill_leaves_of_it_is_swept(final, older):
    code = """
folders.shutil.rmtree = lambda *arguments, **how: os.kill(os.getpid(), signal.SIGKILL)
storage.remove_folder(final)
"""
    assert in_another_process(code, final).returncode == -signal.SIGKILL
    assert not final.exists()
    assert len(os.listdir(final.parent)) == 1
    storage.remove_leftovers(final.parent)
    assert os.listdir(final.parent) == []

    fill(final, "new")
    storage.remove_folder(final)
    assert os.listdir(final.parent) == []


def test_way_is_made_only_where_a_folder_could_not_be_replaced(final, older):
    """A damaged best model must not end a run that has a better one."""
    assert storage.set_aside_foreign(final) is None
    assert content(final) == older

    (final / MANIFEST).write_bytes(b"\0" * 100)
    names = ["damaged-best", "damaged-best-2", "damaged-best-3"]
    for name in names:  # what was set aside before is left alone
        aside = storage.set_aside_foreign(final)
        assert aside == final.with_name(name)
        assert (aside / "weights").read_text() == "old"
        shutil.copytree(aside, final)
    storage.set_aside_foreign(final)
    fill(final, "new")
    assert sorted(os.listdir(final.parent)) == ["best", *names, "damaged-best-4"]


def test_a_folder_of_another_kind_is_not_replaced(final):
    """An export, told to go where a model was, took its place."""
    fill(final, "old", kind="model")
    before = content(final)

    with pytest.raises(UsageError, match="already contains a folder of kind 'model'"):
        fill(final, "new", kind="export")
    assert content(final) == before

    fill(final, "new", kind="model")
    assert (final / "weights").read_text() == "new"
    assert storage.set_aside_foreign(final, "model") is None
    assert storage.set_aside_foreign(final, "export") == final.with_name("damaged-best")


def test_drafts_of_text_are_swept_too(tmp_path):
    code = """
disk.replace_atomically = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
storage.write_text(final, "new")
"""
    killed = in_another_process(code, tmp_path / "file")
    assert killed.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1

    storage.write_text(tmp_path / "file", "newer")
    assert content(tmp_path) == {"file": b"newer"}


def test_text_is_written_as_it_stands(tmp_path):
    storage.write_text(tmp_path / "new" / "file", "a\r\nb\n\u2028")
    assert (tmp_path / "new" / "file").read_bytes() == b"a\r\nb\n\xe2\x80\xa8"


def test_text_that_cannot_be_written_leaves_the_older_file(tmp_path):
    storage.write_text(tmp_path / "file", "old")
    with pytest.raises(UnicodeEncodeError):
        storage.write_text(tmp_path / "file", "new \ud800")

    assert content(tmp_path) == {"file": b"old"}


def test_a_name_taken_by_a_folder_is_said(tmp_path):
    with pytest.raises(ResourceError, match="cannot be written: Is a directory"):
        storage.write_text(tmp_path, "text")


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, True]}, "é😀", "caf\udce9.txt", {"\ud800": 1}]
)
def test_json_comes_back(tmp_path, value):
    """A file name in another encoding holds lone surrogates; they come back too."""
    write_json(tmp_path / "file.json", value)
    assert read_json(tmp_path / "file.json") == value


def test_json_is_readable_by_people(tmp_path):
    write_json(tmp_path / "file.json", {"pièce": "é"})
    assert (tmp_path / "file.json").read_text() == '{\n  "pièce": "é"\n}\n'


def test_json_that_is_missing_is_said(tmp_path):
    with pytest.raises(ModelError, match=r"file\.json is missing"):
        read_json(tmp_path / "file.json")


def test_whether_a_file_can_be_written_is_seen_without_a_trace(tmp_path):
    (tmp_path / "there").write_text("kept")
    check_writable(tmp_path / "there")
    check_writable(tmp_path / "new")

    assert [each.name for each in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text() == "kept"
    with pytest.raises(ResourceError, match=r"away/new cannot be written: No such"):
        check_writable(tmp_path / "away" / "new")


def test_a_folder_that_may_not_be_read_is_no_folder_without_a_manifest(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(ModelError, match=r"cannot be read: check the permissions"):
        storage.read_manifest(tmp_path)
