"""Lines of a pipe: all of them, and a pause where the next has not arrived."""

import io
import os

import pytest

from headwise.text.nonblocking_lines import PAUSE, NonblockingLines


@pytest.fixture
def pipe():
    read, write = os.pipe()
    with open(read, "rb") as reader, open(write, "wb", buffering=0) as writer:
        yield reader, writer


def test_a_pause_comes_where_the_writer_has_no_more_yet(pipe):
    reader, writer = pipe
    waits = []
    arriving = NonblockingLines(reader, before_waiting=lambda: waits.append("waits"))
    writer.write(b"one\ntwo\nthr")
    lines = arriving.lines(reader)

    assert [next(lines) for _ in range(3)] == [b"one\n", b"two\n", PAUSE]
    assert waits == []  # what was read may not have been answered yet
    writer.write(b"ee\n")
    assert next(lines) == b"three\n"
    assert waits == ["waits"]
    writer.close()
    assert list(lines) == []


def test_a_writer_who_is_quick_is_not_paused_for(pipe):
    reader, writer = pipe
    writer.write(b"one\ntwo")
    writer.close()

    assert list(NonblockingLines(reader).wait()) == []
    assert list(NonblockingLines(reader).lines(reader)) == [b"one\n", b"two"]


def test_peeked_bytes_are_not_waited_for(pipe):
    reader, writer = pipe
    writer.write(b"one\n")
    reader.peek()

    assert next(NonblockingLines(reader).lines(reader)) == b"one\n"


def test_before_the_first_line_there_is_a_pause_too(pipe):
    reader, _ = pipe

    assert list(NonblockingLines(reader).wait()) == [PAUSE]


def test_a_pause_behind_every_line_can_be_asked_for(tmp_path):
    (tmp_path / "text").write_bytes(b"one\ntwo\n")
    for file in (io.BytesIO(b"one\ntwo\n"), (tmp_path / "text").open("rb")):
        with file:
            lines = list(NonblockingLines(file, after_each=True).lines(file))
        assert lines == [b"one\n", PAUSE, b"two\n", PAUSE]


def test_of_a_file_there_is_no_pause(tmp_path):
    (tmp_path / "text").write_bytes(b"one\n" * 99_999)
    with open(tmp_path / "text", "rb") as file:
        assert list(NonblockingLines(file).lines(file)) == [b"one\n"] * 99_999


def test_lines_longer_than_a_chunk_come_whole(pipe, monkeypatch):
    monkeypatch.setattr("headwise.text.nonblocking_lines.CHUNK_BYTES", 3)
    reader, writer = pipe
    content = b"a\nbcd\n\nefghijklmn\nop"
    writer.write(content)
    writer.close()

    assert list(NonblockingLines(reader).lines(reader)) == content.splitlines(
        keepends=True
    )
