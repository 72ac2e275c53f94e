"""Members are written where callers say, whatever an archive says."""

import gzip
import io
import tarfile
import zipfile

import pytest

from headwise.data.public import archives
from headwise.data.public.archives import gunzip, read_members
from headwise.errors import DataError


def make_tar(path, members, mode="w:gz"):
    """Members are bytes, or a list with a type of entry that links to /etc/passwd."""
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content[0], "/etc/passwd"
                tar.addfile(info)
    return path


def make_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return path


def read(path, to):
    """Read the member "a", or the whole of a gzip file."""
    if path.suffix == ".gz":
        gunzip(path, to)
    else:
        read_members(path, {"a": to})


@pytest.mark.parametrize("suffix", ["tgz", "tar", "zip"])
def test_the_members_that_are_asked_for_are_written(tmp_path, suffix):
    members = {"a/one.en": b"one\n", "a/two.en": b"two\n", "b/three": b"three\n"}
    archive = tmp_path / f"all.{suffix}"
    if suffix == "zip":
        make_zip(archive, members)
    else:
        make_tar(archive, members, "w:gz" if suffix == "tgz" else "w")

    read_members(archive, {"b/three": tmp_path / "3", "a/one.en": tmp_path / "1"})

    assert (tmp_path / "1").read_bytes() == b"one\n"
    assert (tmp_path / "3").read_bytes() == b"three\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["1", "3", archive.name]


def test_a_name_that_begins_with_the_current_folder_is_the_same(tmp_path):
    archive = make_tar(tmp_path / "x.tgz", {"./a/b": b"text"})
    read_members(archive, {"a/b": tmp_path / "b"})
    assert (tmp_path / "b").read_bytes() == b"text"


def test_a_gzipped_member_is_written_as_its_content(tmp_path):
    archive = make_tar(tmp_path / "x.tar", {"a.en.gz": gzip.compress(b"text\n")}, "w")
    read_members(archive, {"a.en.gz": tmp_path / "a.en"})
    assert (tmp_path / "a.en").read_bytes() == b"text\n"


@pytest.mark.parametrize("suffix", ["tgz", "zip"])
def test_no_path_of_an_archive_is_written_to(tmp_path, suffix):
    inside = tmp_path / "folder"
    inside.mkdir()
    members = {"../escaped": b"x", str(tmp_path / "absolute"): b"x", "wanted": b"y"}
    archive = inside / f"bad.{suffix}"
    (make_zip if suffix == "zip" else make_tar)(archive, members)

    read_members(archive, {"wanted": inside / "wanted"})

    assert sorted(each.name for each in tmp_path.rglob("*")) == sorted(
        ["folder", archive.name, "wanted"]
    )


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_link_is_no_text(tmp_path, kind):
    archive = make_tar(tmp_path / "x.tgz", {"wanted": [kind]})
    with pytest.raises(DataError, match="wanted is no regular file"):
        read_members(archive, {"wanted": tmp_path / "wanted"})


def test_what_is_missing_is_named(tmp_path):
    archive = make_tar(tmp_path / "x.tgz", {"there": b"x"})
    with pytest.raises(DataError, match="has no missing, gone; it is another file"):
        read_members(archive, {x: tmp_path / x for x in ("missing", "there", "gone")})


@pytest.mark.parametrize("suffix", ["tgz", "tar", "zip", "gz"])
def test_a_truncated_archive_is_damaged(tmp_path, suffix):
    text = b"".join(b"%d lines of some text\n" % n for n in range(20_000))
    path = tmp_path / f"x.{suffix}"
    if suffix == "gz":
        path.write_bytes(gzip.compress(text))
    elif suffix == "zip":
        make_zip(path, {"a": text})
    else:
        make_tar(path, {"a": text}, "w:gz" if suffix == "tgz" else "w")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match="is damaged"):
        read(path, tmp_path / "a")


def test_what_is_no_archive_is_damaged(tmp_path):
    path = tmp_path / "x.tgz"
    path.write_bytes(b"<html>Not found</html>" * 100)
    with pytest.raises(DataError, match="is damaged"):
        read_members(path, {"a": tmp_path / "a"})


@pytest.mark.parametrize("suffix", ["tgz", "zip", "gz"])
def test_an_archive_may_not_expand_without_end(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(archives, "FREE_EXPANSION", 1000)
    bomb = bytes(5_000_000)
    path = tmp_path / f"x.{suffix}"
    if suffix == "gz":
        path.write_bytes(gzip.compress(bomb))
    else:
        (make_zip if suffix == "zip" else make_tar)(path, {"a": bomb})
    with pytest.raises(DataError, match="expands to more than"):
        read(path, tmp_path / "a")
