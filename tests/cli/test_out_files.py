"""An output file that cannot be written is saved elsewhere."""

import tempfile

import pytest

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
    with pytest.raises(ResourceError, match=r"temporary cannot be written either"):
        write_out_file(tmp_path / "file" / "out.txt", "lost\n")
