"""An output file that cannot be written is saved elsewhere."""

import errno
import os
import tempfile

import pytest

from headwise.cli import out_files
from headwise.cli.out_files import write_out_file
from headwise.errors import ResourceError


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def test_a_file_is_written_and_nothing_else(tmp_path, temporary):
    write_out_file(tmp_path / "out.txt", "füßig\n")

    assert (tmp_path / "out.txt").read_bytes() == "füßig\n".encode()
    assert not any(temporary.iterdir())


def test_what_cannot_be_written_is_kept_and_its_place_named(tmp_path, temporary):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match=r"out\.txt cannot be written") as caught:
        write_out_file(tmp_path / "file" / "out.txt", "füßig\n")

    (kept,) = temporary.iterdir()
    assert str(caught.value).endswith(f"\nthe output was saved in {kept}")
    assert kept.suffix == ".txt"
    assert kept.read_bytes() == "füßig\n".encode()


def test_where_nothing_takes_it_that_is_said(tmp_path, temporary):
    (tmp_path / "file").write_text("")
    temporary.rmdir()
    with pytest.raises(ResourceError, match="no temporary file can be written either"):
        write_out_file(tmp_path / "file" / "out.txt", "lost\n")


def test_where_no_folder_is_for_temporary_files_that_is_said(tmp_path, monkeypatch):
    """The message asked for its name, and that failed too: all disks are full."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])
    with pytest.raises(ResourceError, match="No usable temporary directory"):
        write_out_file(tmp_path / "file" / "out.txt", "lost\n")


def test_half_an_output_is_not_left_behind(tmp_path, temporary, monkeypatch):
    """A disk that is nearly full took the name and a part of the text."""
    (tmp_path / "file").write_text("")

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(out_files, "open", full, raising=False)
    with pytest.raises(ResourceError, match="No space left on device"):
        write_out_file(tmp_path / "file" / "out.txt", "lost\n")

    assert not any(temporary.iterdir())
