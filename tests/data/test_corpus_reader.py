"""Reading: whatever is amiss is named by file and line, and nothing is shifted."""

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.data.corpus_reader import RawPair, count_pairs, read_pairs
from headwise.data.settings import CorpusSettings
from headwise.errors import DataError


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a file and gives its path."""

    def write(name: str, content: str | bytes) -> str:
        raw = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(raw)
        return str(tmp_path / name)

    return write


def pairs_of(**settings) -> list[tuple[str, str]]:
    return [(p.source, p.target) for p in read_pairs(CorpusSettings(**settings))]


def refusal(**settings) -> str:
    with pytest.raises(DataError) as raised:
        pairs_of(**settings)
    return str(raised.value)


def notes_of(**settings) -> list[str]:
    notes: list[str] = []
    list(read_pairs(CorpusSettings(**settings), note=notes.append))
    return notes


def test_line_n_of_one_file_goes_with_line_n_of_the_other(written):
    source, target = written("a.en", "one\n\nthree"), written("a.de", "eins\n\ndrei\n")

    pairs = list(read_pairs(CorpusSettings(source=source, target=target)))

    assert pairs == [
        RawPair(1, "one", "eins"), RawPair(2, "", ""), RawPair(3, "three", "drei")
    ]  # fmt: skip
    assert [pair.is_empty for pair in pairs] == [False, True, False]


def test_pairs_are_counted_with_the_empty_ones(written):
    source, target = written("a.en", "one\n\nthree"), written("a.de", "eins\n\ndrei\n")

    assert count_pairs(CorpusSettings(source=source, target=target)) == 3


def test_separators_of_unicode_do_not_end_lines(written):
    source = written("a", "one\u2028still one\x0b\x0c\x1c\x85\none\n")
    target = written("b", "eins\rnoch eins\nzwei\n")

    assert pairs_of(source=source, target=target) == [
        ("one\u2028still one\x0b\x0c\x1c\x85", "eins\rnoch eins"),
        ("one", "zwei"),
    ]


def test_gzip_is_known_by_its_content(written):
    source = written("a.en", gzip.compress(b"one\n"))
    target = written("a.de.gz", "eins\n")

    assert pairs_of(source=source, target=target) == [("one", "eins")]


def test_columns_of_a_tsv_can_be_chosen_and_swapped(written):
    table = written("a.tsv", "1\tone\teins\n2\ttwo\tzwei\tmore\n\n")

    assert pairs_of(source=table, source_column=3, target_column=1) == [
        ("eins", "1"), ("zwei", "2"), ("", "")
    ]  # fmt: skip
    assert pairs_of(source=table) == [("1", "one"), ("2", "two"), ("", "")]


def test_keys_of_json_lines_can_be_chosen(written):
    rows = [{"en": "one\ttwo", "fr": "un", "id": 7}, {"fr": "l'été", "en": ""}]
    text = "\n".join(json.dumps(row) for row in rows) + "\n \n"

    found = pairs_of(
        source=written("a.jsonl", text), source_field="en", target_field="fr"
    )

    assert found == [("one\ttwo", "un"), ("", "l'été"), ("", "")]


@pytest.mark.parametrize("header", ["text\tlabel", "EN\tde", "Sentence \tTags"])
def test_a_header_is_read_as_an_example_and_that_is_said(written, header):
    table = written("a.tsv", f"{header}\nA dog.\tUn chien.\ntext\tlabel\n")

    assert len(pairs_of(source=table)) == 3
    (note,) = notes_of(source=table)
    assert note.startswith(f"{table}, line 1 looks like a header (")
    assert note.endswith(f"to leave it out: tail -n +2 {table}")


def test_a_word_of_a_header_is_no_header(written):
    table = written("a.tsv", "text\tun texte\n")

    assert notes_of(source=table) == []


def test_line_ends_inside_json_become_spaces_and_that_is_said(written):
    table = written("a.jsonl", '{"source": "a\\nb", "target": "c"}\n')

    assert pairs_of(source=table) == [("a b", "c")]
    assert notes_of(source=table) == [
        f"{table}: line ends inside texts became spaces (lines: 1)"
    ]


def test_carriage_returns_and_byte_order_marks_are_dropped_and_said(written):
    source = written("a.en", b"\xef\xbb\xbfone\r\ntwo\n")
    target = written("a.de", "eins\nzwei\n")

    assert pairs_of(source=source, target=target) == [("one", "eins"), ("two", "zwei")]
    notes = notes_of(source=source, target=target)
    assert len(notes) == 2
    assert all(note.startswith(source) for note in notes)


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [
        ("1\n2\n3\n", "1\n", ("3 lines", "1;")),
        ("1\n2", "1\n2\n3\n4\n", ("2 lines", "4;")),
        ("1\n2\n\n", "1\n2\n", ("3 lines", "2;")),
        ("1\n", "1\n2\n", ("has 1 line and", "2;")),
    ],
)
def test_unequal_line_counts_are_refused_with_both_counts(
    written, source, target, counts
):
    message = refusal(source=written("a", source), target=written("b", target))

    assert all(count in message for count in counts)


def test_undecodable_bytes_are_refused_with_file_line_and_byte(written):
    source = written("a.en", "fine\nfine\n")
    target = written("a.de", b"fein\nsch\xf6n\n")

    message = refusal(source=source, target=target)

    assert message.startswith(f"{target}, line 2, byte 4 of the line: 0xf6")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("only one column", "line 2: 1 column, but column 2 is needed"),
        ("a\x85b", "needed: 'a\\x85b'"),
    ],
)
def test_a_tsv_line_with_too_few_columns_is_refused(written, line, said):
    assert said in refusal(source=written("a.tsv", f"one\teins\n{line}\n"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"source": "a"', "line 2: not JSON"),
        ("[" * 100_000, "line 2: not JSON"),
        ('["a", "b"]', "is not a JSON object"),
        (
            '{"source": "a", "traget": "b"}',
            'the key "target" is missing; the keys are "source", "traget".',
        ),
        ('{"source": "a"}', '"target" is missing; the only key is "source".'),
        ("{}", '"source" is missing; the object has no key.'),
        (
            '{"source": "a", "target": [5]}',
            '"target" must be a string or a number, not [5]',
        ),
        (
            '{"source": "a", "target": null}',
            '"target" must be a string or a number, not null',
        ),
        (
            '{"source": "a", "target": true}',
            '"target" must be a string or a number, not true',
        ),
        (
            '{"source": "a", "target": ' + "9" * 5000 + "}",
            'line 2: "target" must be a string or a number, not Infinity',
        ),
        (
            '{"source": "a", "target": "b", "source": "c"}',
            'line 2: the key "source" occurs 2 times in one object',
        ),
        (
            '{"translation": {"source": "a", "target": "b", "target": "b"}}',
            'the key "target" occurs 2 times',
        ),
        ('{"source": "a", "target": "\\ud83d"}', "a lone surrogate"),
    ],
)
def test_a_broken_json_line_is_refused(written, line, said):
    good = '{"source": "one", "target": "eins"}'

    assert said in refusal(source=written("a.jsonl", f"{good}\n{line}\n"))


def test_a_number_of_thousands_of_digits_beside_the_texts_is_no_fault(written):
    """It is JSON, but Python reads no such integer: "not JSON" was said of it."""
    line = '{"id": ' + "9" * 5000 + ', "source": "one", "target": "eins"}\n'

    assert pairs_of(source=written("a.jsonl", line)) == [("one", "eins")]


def test_missing_files_and_folders_are_refused(written, tmp_path):
    text = written("a", "one\n")
    os.mkfifo(tmp_path / "pipe")

    assert "does not exist" in refusal(source=str(tmp_path / "none"), target=text)
    assert "is a folder" in refusal(source=text, target=str(tmp_path))
    assert "standard input (-) cannot be read here" in refusal(source="-", target=text)
    assert "is a pipe" in refusal(source=str(tmp_path / "pipe"), target=text)
    assert "is empty" in refusal(source=written("b", ""), target=text)
    assert "is empty" in refusal(source=written("b.tsv", ""))


@pytest.mark.parametrize("cut", [20, 200], ids=["in the header", "in the text"])
def test_a_damaged_gz_file_is_named_even_beside_a_good_one(written, cut):
    lines = "".join(f"{number**5}\n" for number in range(200))
    source = written("a.gz", gzip.compress(lines.encode())[:cut])
    target = written("b", lines)

    assert refusal(source=source, target=target).startswith(f"{source} is a corrupt")


TEXT = st.text(st.characters(exclude_characters="\n\r\t", exclude_categories=["Cs"]))


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
@settings(deadline=None, max_examples=50)
def test_all_formats_give_the_same_pairs(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("formats")
    pairs = [(source.lstrip("\ufeff"), target) for source, target in pairs]

    def write(name: str, lines: list[str]) -> str:
        text = "".join(f"{line}\n" for line in lines)
        path = Path(folder / name)
        path.write_bytes(text.encode())
        return str(path)

    source = write("a", [source for source, _ in pairs])
    target = write("b", [f" {target}" for _, target in pairs])
    tsv = write("a.tsv", [f"{source}\t {target}" for source, target in pairs])
    rows = [{"source": source, "target": f" {target}"} for source, target in pairs]
    jsonl = write("a.jsonl", [json.dumps(row) for row in rows])

    plain = pairs_of(source=source, target=target)
    assert plain == [(source, f" {target}") for source, target in pairs]
    assert blanks_alike(pairs_of(source=tsv)) == blanks_alike(plain)
    assert pairs_of(source=jsonl) == plain


def blanks_alike(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return pairs where a blank line of a TSV is as good as two blank texts."""
    return [pair if "".join(pair).strip() else ("", "") for pair in pairs]


def test_a_real_corpus_is_read_completely(corpora):
    folder = corpora / "multi30k"
    captions = pairs_of(
        source=str(folder / "val.en.gz"), target=str(folder / "val.de.gz")
    )
    everyday = pairs_of(source=str(corpora / "tatoeba-en-fr" / "dev.tsv"))

    assert len(captions) == 1014
    assert captions[0][0] == "A group of men are loading cotton onto a truck"
    assert len(everyday) == 2000


PAIR = {"en": "a cat", "de": "eine Katze"}


@pytest.mark.parametrize("row", [PAIR, {"id": 7, "translation": PAIR}])
def test_texts_under_their_languages_are_read_by_naming_these(written, row):
    source = written("a.jsonl", json.dumps(row) + "\n")

    asked = {"source": source, "source_field": "de", "target_field": "en"}
    assert pairs_of(**asked) == [("eine Katze", "a cat")]
    message = refusal(source=source)
    assert 'line 1: the key "source" is missing; ' in message
    assert "such as --fields en de (for training also --languages en de);" in message


def test_two_keys_that_are_not_language_codes_are_named_by_fields(written):
    message = refusal(source=written("a.jsonl", '{"my text": "a", "label": "b"}\n'))

    assert "such as --fields 'my text' label; in a recipe" in message
    assert "--languages" not in message


def test_a_key_at_the_top_wins_over_one_inside(written):
    row = {"source": "top", "target": "oben", "translation": {"source": "in"}}

    assert pairs_of(source=written("a.jsonl", json.dumps(row))) == [("top", "oben")]


def test_utf_16_is_refused_with_a_remedy(written):
    german = written("a.de", "eins\n".encode("utf-16-le"))
    english = written("a.en", "one\n")

    assert "a.de looks like UTF-16 text" in refusal(source=english, target=german)


def test_text_of_an_old_mac_is_refused(written):
    source, target = written("a.en", "one\rtwo\r"), written("a.de", "eins\rzwei\r")

    assert "2 \\r (line end of old Macs)" in refusal(source=source, target=target)


def test_numbers_of_json_lines_are_read_as_they_are_written(written):
    file = written("a.jsonl", '{"source": 5, "target": 0.25}\n')
    (pair,) = read_pairs(CorpusSettings(source=str(file)))

    assert (pair.source, pair.target) == ("5", "0.25")
