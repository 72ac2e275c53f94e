"""Placeholders: what is copied, and what a training pair has of them."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.corpus_reader import read_pairs
from headwise.data.settings import CorpusSettings
from headwise.text.placeholders import (
    PLACEHOLDER,
    Masked,
    has_no_words,
    mask_addresses,
    mask_copied,
    mask_shared,
    restore,
)


def is_unknown(character):
    """Of a vocabulary of the first 255 characters."""
    return ord(character) > 255


@pytest.mark.parametrize(
    ("text", "masked", "values"),
    [
        ("See http://a.org/b?c=(d).", "See <copy>.", ["http://a.org/b?c=(d)"]),
        ("(www.a.de, ftp://b.c/)", "(<copy>, <copy>)", ["www.a.de", "ftp://b.c/"]),
        ("Write to a.b+c@d-e.co.uk!", "Write to <copy>!", ["a.b+c@d-e.co.uk"]),
        ("a@b, not @c or d@", "a@b, not @c or d@", []),
        ("Say Привет мир, please.", "Say <copy>, please.", ["Привет мир"]),
        ("Naïve abcш is one word.", "Naïve <copy> is one word.", ["abcш"]),
        ("Good 👍🏽👩‍👩‍👧 day", "Good <copy> day", ["👍🏽👩‍👩‍👧"]),
        ("日本語。", "<copy>", ["日本語。"]),
        ("I wrote <copy> here.", "I wrote <copy> here.", ["<copy>"]),
        ("http://я.рф/ 👍", "<copy> <copy>", ["http://я.рф/", "👍"]),
        ("Nothing here.", "Nothing here.", []),
        ("", "", []),
    ],
)
def test_what_is_copied(text, masked, values):
    assert mask_copied(text, is_unknown) == (masked, tuple(values))


def test_unknown_characters_beside_an_address_are_copied_too():
    """Also where the vocabulary lacks the characters of addresses."""
    text = "See http://a.b/ Привет / 👍 now."

    masked = mask_copied(text, lambda each: is_unknown(each) or each in "/:")

    assert masked == ("See <copy> <copy> now.", ("http://a.b/", "Привет / 👍"))


@given(st.text(st.one_of(st.sampled_from("a b.@:/шщ👍\u200d\u0301"), st.characters())))
def test_restoring_the_source_gives_the_source(text):
    """A law: so nothing is lost, whatever the text."""
    masked, values = mask_copied(text, is_unknown)

    assert restore(masked, values) == text
    assert masked.count(PLACEHOLDER) == len(values)
    rest = masked.replace(PLACEHOLDER, "")
    assert not any(map(is_unknown, rest)) or all(
        each.isspace() for each in rest if is_unknown(each)
    )


ADDRESS = re.compile(r"\b [\w.+-]+ @ [\w-]+ (?: \. [\w-]+ )+", re.VERBOSE)


@given(st.text(st.sampled_from("aщ.+-@ _,"), max_size=40))
def test_addresses_are_found_wherever_they_begin(text):
    """The pattern reads well without its limit, and is quadratic."""
    assert mask_addresses(text).values == tuple(ADDRESS.findall(text))


def test_a_long_line_without_spaces_is_read_in_linear_time():
    begun = time.process_time()

    assert mask_addresses("a." * 20_000).values == ()

    assert time.process_time() - begun < 4  # it was 26 s


@pytest.mark.parametrize(
    ("output", "values", "text"),
    [
        ("Siehe <copy>.", ["x"], "Siehe x."),
        ("<copy> und <copy>", ["x", "y"], "x und y"),
        ("Siehe <copy> <copy>.", ["x"], "Siehe x."),
        ("Siehe.", ["x", "y"], "Siehe. x y"),
        ("", ["x"], "x"),
        ("Siehe <copy>.", ["<copy>"], "Siehe <copy>."),
    ],
)
def test_values_are_put_back_in_order_and_none_is_lost(output, values, text):
    assert restore(output, values) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<copy>", True),
        ("(<copy>, 12 <copy>!)", True),
        ("see <copy>", False),
        ("12", False),
        ("", False),
    ],
)
def test_a_text_of_placeholders_has_no_words(text, expected):
    assert has_no_words(text) == expected


def test_a_shared_name_or_number_is_masked_on_both_sides():
    pair = ("The dog of Tom has 12.", "Der Hund von Tom hat 12.")

    found = {mask_shared(*pair, rate=1.0, seed=seed) for seed in range(50)}

    assert found == {
        ("The dog of <copy> has 12.", "Der Hund von <copy> hat 12."),
        ("The dog of Tom has <copy>.", "Der Hund von Tom hat <copy>."),
        ("The dog of <copy> has <copy>.", "Der Hund von <copy> hat <copy>."),
    }


@pytest.mark.parametrize(
    "pair",
    [
        ("Tom knows Tom.", "Tom kennt Tom."),  # which is which?
        ("It is in the hotel.", "Es ist im hotel."),  # no name
        ("Tomas came.", "Tom kam."),
        ("See http://a.b and http://c.d", "Zu http://c.d und http://a.b"),
    ],
)
def test_what_is_not_clearly_the_same_stays(pair):
    assert all(mask_shared(*pair, rate=1.0, seed=seed) == pair for seed in range(20))


def test_addresses_are_masked_whatever_the_rate():
    pair = ("Tom: see http://a.b now.", "Tom: jetzt http://a.b sehen.")

    masked = mask_shared(*pair, rate=0.0, seed=0)

    assert masked == ("Tom: see <copy> now.", "Tom: jetzt <copy> sehen.")


def test_as_many_real_pairs_are_masked_as_asked_for(corpora):
    corpus = CorpusSettings(source=str(corpora / "tatoeba-en-de" / "dev.tsv"))
    pairs = [(each.source, each.target) for each in read_pairs(corpus)]
    could = [p for p in pairs if mask_shared(*p, rate=1.0, seed=1) != p]

    masked = [p for p in pairs if mask_shared(*p, rate=0.3, seed=1) != p]

    assert len(could) > 200
    assert set(masked) < set(could)
    assert 0.2 < len(masked) / len(could) < 0.4
    for source, target in (mask_shared(*each, rate=1.0, seed=1) for each in could):
        assert source.count(PLACEHOLDER) == target.count(PLACEHOLDER) > 0


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("In 2024, 3 of 12 came.", ("2024", "12")),
        ("At 3:30 pm on 12/03/2024.", ("3:30", "12/03/2024")),
        ("It cost $1,000.50, or 3.5%.", ("$1,000.50", "3.5%")),
        ("It cost 5 €, not 5, or 12 345,60 €.", ("5 €", "12 345,60 €")),
        ("At -15 °C or 40°F, not -5.", ("-15 °C", "40°F")),
        ("Call +49 30 1234567, (030) 123-4567.", ("+49 30 1234567", "(030) 123-4567")),
        ("Or +1 (555) 123-4567 or 030 12345.", ("+1 (555) 123-4567", "030 12345")),
        ("Or (555) 123-4567. (555) 12", ("(555) 123-4567", "555", "12")),
        ("In 2010 300 came, 10 000 000 or 1 000m.", ("2010", "300", "10 000 000")),
        ("The 20-year-old B52 is 21st.", ()),
        ("See http://a.org/2024 or 2024.", ("http://a.org/2024", "2024")),
        ("Version 1.2.3-4 of v10", ("1.2.3-4",)),
    ],
)
def test_numbers_of_two_digits_or_more_are_copied_if_asked_for(text, values):
    masked = mask_copied(text, lambda each: False, numbers=True)

    assert masked.values == values
    assert restore(masked.text, values) == text


@given(st.text(st.sampled_from("0123456789 +-.,()€%a")))
def test_what_is_copied_of_numbers_is_put_back(text):
    masked = mask_copied(text, lambda each: False, numbers=True)

    assert restore(masked.text, masked.values) == text
    assert all(any(map(str.isdigit, value)) for value in masked.values)


def test_values_are_taken_as_they_were_written():
    masked = Masked("Say <copy> and <copy>.", ("kowalski", "ab"))

    assert masked.as_written("SAY KOWALSKI AND AB.").values == ("KOWALSKI", "AB")
    assert masked.as_written("SAY KOWALSKI AND ABC.") == masked


def test_addresses_alone_are_masked_if_asked_for():
    text = "ASK ana@example.org OR Ελένη, https://example.org/A 🦉"

    masked = mask_addresses(text)

    assert masked.values == ("ana@example.org", "https://example.org/A")
    assert masked.text == f"ASK {PLACEHOLDER} OR Ελένη, {PLACEHOLDER} 🦉"
    assert restore(*masked) == text
