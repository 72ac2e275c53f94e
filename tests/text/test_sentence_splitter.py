import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.text.sentence_splitter import Piece, rejoin, split_long


def split(text, fits):
    return list(split_long(text, fits))


def at_most(length):
    return lambda text: len(text) <= length


def words_at_most(count):
    return lambda text: len(text.split()) <= count


def whole(pieces):
    return "".join(piece.text + piece.separator for piece in pieces)


def sentences_of(text):
    """Split as if the text were too long and each of its sentences were not."""
    return [piece.text for piece in split(text, lambda part: part != text)]


def test_a_text_that_fits_is_one_piece():
    assert split(" One. Two. ", at_most(100)) == [Piece(" One. Two. ", "")]


def test_a_text_that_does_not_fit_is_cut_into_sentences():
    assert split("One here.  Two? Three", at_most(10)) == [
        Piece("One here.", "  "),
        Piece("Two?", " "),
        Piece("Three", ""),
    ]


def test_a_sentence_that_does_not_fit_is_cut_at_colons_then_commas_then_spaces():
    """Joined again as far as they fit: "a b, c" and ", d" would have been 9."""
    assert split("a b, c, d e; f", at_most(8)) == [
        Piece("a b, c,", " "),
        Piece("d e;", " "),
        Piece("f", ""),
    ]
    assert split("one two three four", at_most(9)) == [
        Piece("one two", " "),
        Piece("three", " "),
        Piece("four", ""),
    ]


def test_without_white_space_the_cut_falls_between_characters():
    assert split("abcdefgh", at_most(3)) == [
        Piece("abc", ""),
        Piece("def", ""),
        Piece("gh", ""),
    ]


def test_a_combining_mark_stays_with_its_letter_where_it_can():
    assert split("abc\u0301d", at_most(3)) == [
        Piece("ab", ""),
        Piece("c\u0301d", ""),
    ]
    assert whole(split("a" + "\u0301" * 9, at_most(3))) == "a" + "\u0301" * 9


def test_a_character_that_does_not_fit_is_a_piece():
    assert [piece.text for piece in split("ab", lambda _: False)] == ["a", "b"]


def test_white_space_alone_has_nothing_to_translate():
    assert split("   ", at_most(1)) == [Piece("", "   ")]
    assert split("  ab", at_most(2)) == [Piece("", "  "), Piece("ab", "")]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. Smith met Dr. J. Brown.", "They talked."],
        ["He lives in the U.S. now.", "Really?"],
        ["Es war am 3. Mai.", "Es kostete 12.50 Euro."],
        ["It was 1999.", "Then it ended."],
        ["She wrote No. 123.", "He said no.", "Fine."],
        ['"Go!" he said.', '"Why?" she asked.', "(Nobody knew.)", "«Oui.»", "Ok."],
        ["Wait... what?", "I see…", "Good!!", "¿Y tú?", "Bien."],
        ["Das ist z.B. so.", "Oder d.h. anders."],
        ["See www.example.com/a.b?c=d for more.", "Done."],
        ["The sentence . ", "Another one ."],
    ],
)
def test_sentences_worked_by_hand(sentences):
    sentences = [sentence.strip() for sentence in sentences]
    assert sentences_of(" ".join(sentences)) == sentences


def test_sentences_without_capitals_are_found_too():
    assert sentences_of("first one. second one.") == ["first one.", "second one."]


def test_chinese_and_japanese_sentences_need_no_space():
    assert sentences_of("「はい。」と言った。そう！次") == [
        "「はい。」",
        "と言った。",
        "そう！",
        "次",
    ]


@given(text=st.text(), length=st.integers(1, 9))
@settings(deadline=None)
def test_nothing_is_lost_and_every_piece_fits(text, length):
    pieces = split(text, at_most(length))

    assert whole(pieces) == text
    assert all(len(piece.text) <= length for piece in pieces if piece.text.strip())


@given(
    text=st.text("aB.,;: !?…\"'。、！」é\u0301\u00a0\n5"),
    limit=st.integers(0, 5),
)
@settings(deadline=None)
def test_nothing_is_lost_of_text_full_of_marks(text, limit):
    pieces = split(text, words_at_most(limit))

    assert whole(pieces) == text
    if len(pieces) > 1:
        assert all(piece.text == piece.text.strip() for piece in pieces)
        assert all(not piece.separator.strip() for piece in pieces)


@given(text=st.text("aB. ;,。あ"), limit=st.integers(0, 3))
def test_rejoining_the_pieces_themselves_gives_the_text(text, limit):
    pieces = split(text, words_at_most(limit))
    assert rejoin(pieces, [piece.text for piece in pieces]) == text


def test_translations_are_joined_with_what_stood_between_the_pieces():
    pieces = [Piece("One.", "  "), Piece("Two.", "\u2028"), Piece("Three.", " ")]
    assert rejoin(pieces, ["Un.", "Deux.", "Trois."]) == "Un.  Deux.\u2028Trois. "


def test_what_is_joined_is_one_line():
    pieces = [Piece("one", "\r"), Piece("two", " \n"), Piece("three", "\r")]
    assert rejoin(pieces, ["eins", "zwei", "drei"]) == "eins zwei  drei "


def test_spaces_follow_the_custom_of_the_translation():
    english = [Piece("One.", " "), Piece("Two.", "")]
    japanese = [Piece("一。", ""), Piece("二。", "")]

    assert rejoin(english, ["一。", "二。"]) == "一。二。"
    assert rejoin(japanese, ["One.", "Two."]) == "One. Two."


def test_every_piece_needs_its_translation():
    with pytest.raises(ValueError, match="2 pieces need as many translations, not 1"):
        rejoin([Piece("a", " "), Piece("b", "")], ["x"])


@pytest.mark.parametrize(
    "text",
    [
        "x" * 50_000,
        "." * 50_000,
        "。" * 50_000,
        '."' * 25_000,
        "( " * 25_000,
        "word " * 10_000,
        "A few words, and more. " * 2_500,
        "\u0301" * 50_000,
    ],
)
def test_little_is_asked_of_a_very_long_line(text):
    """What ``fits`` reads in all stays within some 20 times the length of the line."""
    asked = []

    def fits(part):
        asked.append(len(part))
        return len(part) <= 100

    assert whole(split(text, fits)) == text
    assert sum(asked) <= 20 * len(text)


def test_real_text_joined_into_one_line_comes_apart_at_its_sentences(corpora):
    path = corpora / "multi30k" / "val.en.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        sentences = [line.strip() for line in file if line.strip().endswith(".")]
    text = " ".join(sentences)
    assert len(text.split()) > 10_000

    pieces = split(text, words_at_most(60))

    assert whole(pieces) == text
    found = {piece.text for piece in pieces}
    assert sum(sentence in found for sentence in sentences) > 0.97 * len(sentences)


def test_what_a_carriage_return_sets_apart_is_a_text_of_its_own():
    """Lines of an old Mac are one here, and the model ended after the first of them."""
    text = "one two. \rthree\r\rfour five"

    assert split(text, words_at_most(3)) == [
        Piece("one two. ", "\r"),
        Piece("three", "\r\r"),
        Piece("four five", ""),
    ]
    assert split("\rone two three\r", words_at_most(2)) == [
        Piece("", "\r"),
        Piece("one two", " "),
        Piece("three", "\r"),
        Piece("", ""),
    ]


def test_the_first_pieces_are_yielded_before_the_rest_is_split():
    """Else a word of some megabytes would fill memory with its letters' places."""
    asked = []

    def fits(part):
        asked.append(len(part))
        return len(part) <= 100

    pieces = split_long("x" * 100_000, fits)
    assert next(pieces) == Piece("x" * 100, "")
    assert sum(asked) < 2 * 100_000 + 2_000
