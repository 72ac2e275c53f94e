"""Nothing of a file is used before its SHA-256 is known to be the right one."""

import hashlib
from dataclasses import replace

import pytest
from tests.data.public.conftest import CONTENT

from headwise.data.public.download import RECORD, fetch, find, moved_to
from headwise.data.public.transfer import part_of
from headwise.errors import DataError, ResourceError, UsageError
from headwise.storage.disk import lock_while_used

DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def unpinned(pinned):
    return replace(pinned, sha256=None, num_bytes=None, stated_by="")


def test_a_file_is_fetched_once(pinned, server, tmp_path):
    first = fetch(pinned, tmp_path)
    again = fetch(pinned, tmp_path)

    assert first == again
    assert first.path == tmp_path / "set" / "file.bin"
    assert first.path.read_bytes() == CONTENT
    assert first.sha256 == DIGEST
    assert len(server.requests) == 1
    assert [each.name for each in first.path.parent.iterdir()] == ["file.bin"]


def test_a_wrong_checksum_leaves_nothing_behind(pinned, tmp_path):
    wrong = replace(pinned, sha256="0" * 64)
    with pytest.raises(DataError, match=f"has SHA-256 {DIGEST}, but must have 0000"):
        fetch(wrong, tmp_path)
    assert not any((tmp_path / "set").glob("file.bin"))
    assert not part_of(tmp_path / "set" / "file.bin").exists()


def test_a_file_that_was_damaged_on_disk_is_named(pinned, tmp_path):
    path = fetch(pinned, tmp_path).path
    path.write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(DataError, match=r"file\.bin has SHA-256 .* \(this test\)"):
        fetch(pinned, tmp_path)


def test_a_damaged_half_is_transferred_anew(pinned, server, tmp_path):
    """The first half has other bytes, as after a crash of the machine."""
    path = tmp_path / "set" / "file.bin"
    path.parent.mkdir()
    part_of(path).write_bytes(b"?" * 1000)
    said = []

    fetch(pinned, tmp_path, say=said.append)

    assert path.read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == ["bytes=1000-", ""]
    assert any("starting over" in each for each in said)


def test_the_first_file_is_trusted_where_nobody_states_a_checksum(
    unpinned, server, tmp_path
):
    said = []
    first = fetch(unpinned, tmp_path, say=said.append)
    assert first.sha256 == DIGEST
    assert (tmp_path / RECORD).read_text() == f"{DIGEST}  set/file.bin\n"
    assert any("nobody states its SHA-256" in each for each in said)

    first.path.unlink()
    server.files["/file.bin"] = b"another version"
    with pytest.raises(DataError, match=rf"must have {DIGEST} \({RECORD}\)"):
        fetch(unpinned, tmp_path)

    server.files["/file.bin"] = CONTENT
    fetch(unpinned, tmp_path)
    first.path.write_bytes(b"changed")
    with pytest.raises(DataError, match="damaged, or another version"):
        fetch(unpinned, tmp_path)


def test_a_mirror_is_asked_where_the_publisher_has_nothing(pinned, server, tmp_path):
    urls = (f"{server.url}/gone", f"{server.url}/gone too", *pinned.urls)
    urls = tuple(each.replace(" ", "%20") for each in urls)
    assert fetch(replace(pinned, urls=urls), tmp_path).sha256 == DIGEST

    with pytest.raises(ResourceError, match=r"(?s)/gone .*/gone%20too .*--from"):
        fetch(replace(pinned, name="other", urls=urls[:2]), tmp_path)


def test_the_mirror_that_served_a_file_is_named(pinned, server, tmp_path):
    """The publisher's address was said to have the mirror's damaged file."""
    urls = (f"{server.url}/gone.bin", f"{server.url}/file.bin")
    assert fetch(replace(pinned, urls=urls), tmp_path).url == urls[1]

    wrong = replace(pinned, name="other", urls=urls, sha256="0" * 64)
    with pytest.raises(DataError, match=f"{urls[1]} has SHA-256"):
        fetch(wrong, tmp_path)


def test_a_mirror_is_asked_where_the_publisher_cannot_be_reached(
    pinned, server, tmp_path, monkeypatch
):
    monkeypatch.setattr("time.sleep", lambda _: None)
    urls = ("http://127.0.0.1:9/file.bin", *pinned.urls)
    assert fetch(replace(pinned, urls=urls), tmp_path).sha256 == DIGEST
    gone = replace(pinned, name="other", urls=urls[:1])
    with pytest.raises(ResourceError, match=r"(?s)refused.*--from"):
        fetch(gone, tmp_path)


def test_a_mirror_is_asked_where_a_publisher_has_replaced_the_file(
    pinned, server, tmp_path
):
    server.files["/new.bin"] = b"another version"
    urls = (f"{server.url}/new.bin", *pinned.urls)
    assert fetch(replace(pinned, urls=urls), tmp_path).sha256 == DIGEST
    with pytest.raises(DataError, match=r"(?s)has 15 bytes, but must have.*--from"):
        fetch(replace(pinned, name="other", urls=urls[:1]), tmp_path)


def test_another_mirror_goes_on_with_the_same_half(pinned, server, tmp_path):
    """What was received from one of them is a part of the same file."""
    path = tmp_path / "set" / "file.bin"
    path.parent.mkdir()
    part_of(path).write_bytes(CONTENT[:500])
    assert fetch(pinned, tmp_path).sha256 == DIGEST
    assert server.requests == [("/file.bin", "bytes=500-")]


def test_two_processes_do_not_write_one_file(pinned, tmp_path):
    (tmp_path / "set").mkdir()
    lock = tmp_path / "set" / "file.bin.lock"
    lock.touch()
    handle = lock_while_used(lock)
    assert handle is not None
    with pytest.raises(UsageError, match="by another process"):
        fetch(pinned, tmp_path)


@pytest.mark.parametrize("name", ["set/file.bin", "file.bin"])
def test_a_local_file_is_found_with_or_without_its_folder(pinned, tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(CONTENT)
    assert find(pinned, tmp_path).path == path


def test_a_local_file_is_verified_too(pinned, tmp_path):
    with pytest.raises(UsageError, match=r"has no file\.bin .* published at http"):
        find(pinned, tmp_path)
    (tmp_path / "file.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match="damaged, or another version"):
        find(pinned, tmp_path)


def test_a_local_file_without_a_stated_checksum_is_said_to_be_trusted(
    unpinned, tmp_path
):
    (tmp_path / "file.bin").write_bytes(CONTENT)
    said = []
    assert find(unpinned, tmp_path, say=said.append).sha256 == DIGEST
    assert DIGEST in said[0]
    (tmp_path / RECORD).write_text(f"{'0' * 64}  set/file.bin\n")
    with pytest.raises(DataError):
        find(unpinned, tmp_path)


def test_a_mirror_holds_files_under_their_names(pinned):
    assert moved_to(pinned, "http://mirror/x/").urls == (
        "http://mirror/x/set/file.bin",
    )
