import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.text.normalization import Symbols, normalize, one_line


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("  two\u2003 words\t", "two words"),
        ("ﬁne ½", "fine 1⁄2"),  # a ligature; a fraction, with the fraction slash
        ("e\u0301", "é"),
        ("a\x00b\x07c", "abc"),
        ("zero\u200bwidth", "zero width"),
        ("a\u2028b\x85c", "a b c"),
        ("a▁b", "a b"),
        ("half \ud800", "half \ufffd"),
        (" \n ", ""),
    ],
)
def test_nfkc_worked_by_hand(raw, expected):
    assert normalize(raw, "nfkc") == expected


def test_none_changes_only_runs_of_spaces():
    assert normalize("  ﬁne   ½\u2028▁x ", "none") == "ﬁne ½\u2028 x"


@pytest.mark.parametrize("form", ["nfkc", "none"])
@given(text=st.text())
@settings(deadline=None)
def test_normalizing_twice_is_normalizing_once(form, text):
    once = normalize(text, form)
    assert normalize(once, form) == once


@given(st.text())
def test_one_line_is_one_line(text):
    assert not {"\n", "\r"} & set(one_line(text))


def test_the_longest_symbol_is_found_first():
    symbols = Symbols(("<a>", "<a><b>"))
    assert symbols.split("x<a><b>y<a>") == [
        ("x", False),
        ("<a><b>", True),
        ("y", False),
        ("<a>", True),
    ]


def test_symbols_are_not_normalized_and_what_touches_them_keeps_its_spaces():
    symbols = Symbols(("①",))
    assert symbols.normalize(" ①  ②①ﬁ ①", "nfkc") == "① 2①fi ①"


@given(st.text())
def test_without_symbols_a_text_is_one_part(text):
    assert Symbols(()).split(text) == [(text, False)]


@given(st.text("<ab> "))
def test_parts_make_up_the_text(text):
    stretches = Symbols(("<a>", "<b>", "<a><b>")).split(text)
    assert "".join(part for part, _ in stretches) == text
