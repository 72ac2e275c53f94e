"""Files that are not UTF-8 text are named, with a command that converts them."""

import bz2
import gzip
import io
import lzma
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import DataError
from headwise.text.encodings import check_encoding, open_text

TEXTS = {
    "english": "A dog runs.\nIt barks.\n",
    "russian": "Собака бежит по улице. Она лает, и кошка убегает от неё.\n",
    "short": "Hi\n",
}


def zip_of(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("text.en", content)
    return file.getvalue()


def read(content):
    with open_text(io.BytesIO(content), "x.en") as file:
        return file.read()


def refusal(content):
    with pytest.raises(DataError) as caught:
        read(content)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "found", "remedy"),
    [
        (bz2.compress(b"one.\n"), "bzip2", "bzip2 -dc FILE"),
        (bz2.compress(b""), "bzip2", "bzip2 -dc FILE"),
        (lzma.compress(b"one.\n"), "xz", "xz -dc FILE"),
        (zip_of("one.\n"), "a zip archive", "unzip -p FILE"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "Zstandard", "zstd -dc FILE"),
        (b"PAR1\x15\x04", "Apache Parquet", "writes JSON Lines"),
        (b"%PDF-1.7\n", "PDF", "pdftotext FILE -"),
        ("one.".encode("utf-32"), "UTF-32 text", "iconv -f UTF-32 -t UTF-8 FILE"),
        ("one.".encode("utf-16"), "UTF-16 text", "iconv -f UTF-16 -t UTF-8 FILE"),
    ],
)
def test_other_formats_are_named_by_how_they_start(content, found, remedy):
    message = refusal(content)

    assert f"x.en looks like {found}; text must be UTF-8, plain or gzip" in message
    assert remedy in message


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE"])
def test_utf_16_without_a_mark_is_known_by_its_zeros(text, encoding):
    """Russian in it is valid UTF-8, of control characters, and was translated."""
    assert f"iconv -f {encoding} -t UTF-8" in refusal(text.encode(encoding))
    assert f"iconv -f {encoding} -t UTF-8" in refusal((3 * text).encode(encoding)[:-1])


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("encoding", ["UTF-32LE", "UTF-32BE"])
def test_utf_32_without_a_mark_is_known_by_its_zeros(text, encoding):
    """It is valid UTF-8, of letters among NUL characters, and was translated."""
    assert "looks like UTF-32 text" in refusal(text.encode(encoding))
    assert f"iconv -f {encoding} -t UTF-8" in refusal(text.encode(encoding))
    assert f"iconv -f {encoding} -t UTF-8" in refusal((3 * text).encode(encoding)[:-1])


def test_gzip_is_unpacked_whatever_the_name():
    assert read(gzip.compress(b"one.\n")) == b"one.\n"


def test_the_content_of_gzip_is_checked_too():
    assert "looks like UTF-16" in refusal(gzip.compress("one.".encode("utf-16")))
    assert "looks like xz" in refusal(gzip.compress(lzma.compress(b"one.")))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\x00\n\x01\n",
        b"\x00\n" * 9,
        b"\x00\x00\x00\n" * 9,
        b"BZh is how bzip2 files start.\n",
        b"PK or 7z, PAR1 and %PDF are no files.\n",
        b"\xef\xbb\xbfone.\n",
        b"a NUL\x00 or two\x00, of some bytes more than a few\n",
    ],
)
def test_what_may_be_text_is_let_through(content):
    assert read(content) == content


@given(st.text())
def test_no_text_in_utf_8_is_taken_for_another_format(text):
    content = text.replace("\x00", "").encode()
    if not content.startswith((b"%PDF-", b"PK\x03\x04", b"PK\x05\x06")):
        check_encoding(content, "x.en")
