import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import DataError
from headwise.text.lines import LineTally, split_lines


def lines_of(data, **options):
    return list(split_lines(io.BytesIO(data), **options))


def texts_of(data, **options):
    return [line.text for line in lines_of(data, **options)]


def test_lines_end_at_newline_only():
    text = "a\u2028b\x85c\x0cd\x1ee\rf\nsecond"
    assert texts_of(text.encode()) == ["a\u2028b\x85c\x0cd\x1ee\rf", "second"]


def test_a_last_line_without_newline_counts():
    assert texts_of(b"one\ntwo") == ["one", "two"]
    assert texts_of(b"one\ntwo\n") == ["one", "two"]


def test_blank_lines_are_lines():
    assert texts_of(b"\n\nx\n\n") == ["", "", "x", ""]
    assert texts_of(b"") == []


def test_a_final_carriage_return_is_dropped_and_said():
    one, two, three = lines_of(b"dos\r\nunix\ntwice\r\r\n")

    assert (one.text, one.had_carriage_return) == ("dos", True)
    assert (two.text, two.had_carriage_return) == ("unix", False)
    assert (three.text, three.had_carriage_return) == ("twice\r", True)


def test_a_byte_order_mark_is_dropped_from_the_start_of_the_file_only():
    first, second = lines_of(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")

    assert (first.text, first.had_byte_order_mark) == ("one", True)
    assert (second.text, second.had_byte_order_mark) == ("\ufefftwo", False)


def test_undecodable_bytes_are_refused_with_file_line_byte_and_a_remedy():
    with pytest.raises(DataError) as caught:
        lines_of("gut\nschön\n".encode("latin1"), name="train.de")

    message = str(caught.value)
    assert "train.de, line 2, byte 4 of the line: 0xf6" in message
    assert "iconv -f latin1 -t utf-8 train.de" in message


def test_the_byte_is_counted_from_the_start_of_the_file_even_after_a_mark():
    with pytest.raises(DataError, match="line 1, byte 5 "):
        lines_of(b"\xef\xbb\xbfa\xff\n")


@pytest.mark.parametrize("end", [b"", b"\r"])
def test_text_of_an_old_mac_is_refused(end):
    """It was one line that "ended in \\r\\n", and all but its first words were lost."""
    with pytest.raises(DataError) as caught:
        lines_of(b"one.\rtwo.\rthree." + end, name="mac.txt")

    message = str(caught.value)
    assert f"mac.txt has no \\n, but {2 + len(end)} \\r (line end of old" in message
    assert "tr '\\r' '\\n' < FILE > NEW" in message


def test_text_of_an_old_mac_is_one_line_for_who_can_tell_its_parts():
    (line,) = lines_of(b"one.\rtwo.\r", refuse_old_mac=False)

    assert line.text == "one.\rtwo."
    assert (line.has_lone_returns, line.had_carriage_return) == (True, False)


def test_carriage_returns_inside_lines_are_said():
    tally = LineTally()
    for line in lines_of(b"one\n10%\r20%\n\r\n"):
        tally.add(line)

    ended, inside = tally.notes("x.txt")
    assert ended == "x.txt: 1 line of 3 ended in \\r\\n; the \\r was dropped"
    assert inside.startswith(
        "x.txt: 1 line with \\r without \\n, which does not end a line"
    )
    assert "first line 2" in inside


def test_undecodable_bytes_are_replaced_and_counted_when_asked():
    good, bad = lines_of(b"\xef\xbf\xbd stands here\na\xffb\xfe\n", strict=False)

    assert (good.text, good.num_replaced) == ("\ufffd stands here", 0)
    assert (bad.text, bad.num_replaced) == ("a\ufffdb\ufffd", 2)


def test_a_tally_says_what_was_done_once_for_each_kind():
    tally = LineTally()
    for line in split_lines(
        io.BytesIO(b"\xef\xbb\xbfa\r\nb\r\nc\n\xff\n"), strict=False
    ):
        tally.add(line)

    assert tally.lines == 4
    assert tally.notes("x.txt") == [
        "x.txt: a byte order mark at the start was dropped",
        "x.txt: 2 lines of 4 ended in \\r\\n; the \\r was dropped",
        "x.txt: 1 line with bytes that are not UTF-8, first line 4; they were "
        "replaced by \ufffd",
    ]


def test_a_tally_of_clean_lines_says_nothing():
    tally = LineTally()
    for line in split_lines(io.BytesIO(b"a\nb")):
        tally.add(line)
    assert tally.notes("x.txt") == []


@given(st.binary())
def test_any_bytes_give_as_many_lines_as_they_have_line_ends(data):
    expected = data.count(b"\n") + (data[-1:] not in (b"", b"\n"))
    found = texts_of(data, strict=False, refuse_old_mac=False)
    assert len(found) == expected


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))))
@settings(deadline=None)
def test_written_lines_are_read_back(texts):
    data = "".join(f"{text}\n" for text in texts).encode()
    if not data.startswith(b"\xef\xbb\xbf"):
        assert texts_of(data) == texts


@pytest.mark.parametrize("language", ["de", "en"])
def test_real_text_with_unicode_line_separators_keeps_its_lines(corpora, language):
    """newstest2009.de holds U+2028 and U+0085 inside lines."""
    path = corpora / "newstest" / "en-de" / f"newstest2009.{language}.gz"
    with gzip.open(path) as file:
        texts = [line.text for line in split_lines(file, name=str(path))]

    assert len(texts) == 2525
    if language == "de":
        assert len("\n".join(texts).splitlines()) > 2525


def test_a_tally_counts_lines_with_nul_characters():
    tally = LineTally()
    for line in split_lines([b"a\n", b"b\0c\0\n", b"\0\n"]):
        tally.add(line)

    assert tally.notes("x.txt") == [
        "x.txt: 2 lines with NUL characters, which most tokenizers drop or read as "
        "unknown, first line 2; to delete them: tr -d '\\0' < FILE > NEW"
    ]
