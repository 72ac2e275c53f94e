"""Texts in capitals are found, and written in small letters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.text.placeholders import PLACEHOLDER
from headwise.text.recasing import Casing, casing_of, in_capitals, recase


@pytest.mark.parametrize(
    "text",
    [
        "WHERE IS MY CAT?",
        "I LOVE YOU",
        "HELLO!",
        "C'EST L'ÉTÉ, 30 DEGRÉS.",
        "GROSSE STRASSE",
        f"SEE {PLACEHOLDER} FOR MORE",
    ],
)
def test_capitals_are_found(text):
    assert casing_of(text) is Casing.CAPITALS


@pytest.mark.parametrize(
    "text",
    [
        "My Cat Does Not Sleep.",
        "Don't Go To L'Isle, I Say",
        "Mein Hund Schläft Nicht",
    ],
)
def test_a_capital_at_the_start_of_each_word_is_found(text):
    assert casing_of(text) is Casing.TITLE


@pytest.mark.parametrize(
    "text",
    [
        *("", "?", "3.50", "I", "NATO", "USA!", "A B C", PLACEHOLDER),
        *("My cat sleeps.", "my cat sleeps", "I saw the USA and NASA."),
        *("New York City", "Tom Loves Mary", "McDonald And Sons Eat Here"),
        *("مرحبا بالعالم", "你好 世界"),
    ],
)
def test_ordinary_text_names_and_scripts_without_capitals_are_left(text):
    assert casing_of(text) is Casing.ORDINARY


def test_small_letters_begin_with_a_capital():
    assert recase("WHERE IS MY CAT?") == "Where is my cat?"
    assert recase("« L'ÉTÉ À PARIS »") == "« L'été à paris »"
    assert recase("Großer Hund Ist Da") == "Großer hund ist da"


def test_placeholders_are_no_text():
    """What stands first, and is copied, is the beginning of the sentence."""
    assert recase(f"ASK {PLACEHOLDER} NOW") == f"Ask {PLACEHOLDER} now"
    assert recase(f"{PLACEHOLDER} IS HERE") == f"{PLACEHOLDER} is here"
    assert in_capitals(f"Frag {PLACEHOLDER}, Straße") == f"FRAG {PLACEHOLDER}, STRASSE"


@given(st.text(st.sampled_from("aB ß'é1<é")))
def test_recased_text_is_not_recased_again(text):
    """A law: once is enough."""
    assert recase(recase(text)) == recase(text)
