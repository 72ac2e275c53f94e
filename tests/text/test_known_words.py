"""Names that no training source has are found; words that one has are not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import ModelError
from headwise.text import known_words as module
from headwise.text.known_words import KnownWords, learn_known_words

TEXT = "my sister lives in the house research mr tom big apple ask"
WORDS = frozenset(TEXT.split())
ENGLISH = KnownWords(WORDS)
GERMAN = KnownWords(WORDS, capitals_are_names=False)


def names(text, known=ENGLISH):
    return [text[start:end] for start, end in known.name_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My sister Anna lives in Warsaw.", ["Anna", "Warsaw"]),
        ("my sister anna", []),
        ("Ask Tom in the Big Apple.", []),
        ("The house Katarzyna Nowak lives in", ["Katarzyna Nowak"]),
        ("Ask Katarzyna, Nowak", ["Katarzyna", "Nowak"]),
        ("Kowalski lives in the house.", ["Kowalski"]),
        ("Ask Tom. Kowalski lives in the house.", ["Kowalski"]),
        ("Researchers ask.", []),
        ("Ask Mr. Researchers", ["Researchers"]),
        ("Ask Tom. Researchers ask.", []),
        ("Ask “Researchers”: Researchers (Researchers)", []),
        ("Researchers Kowalski ask.", ["Researchers Kowalski"]),
        ("Tom's sister Anna's house", ["Anna"]),
        ("L'Oslo", ["L", "Oslo"]),
        ("ask NASA, YouTube, eBay", ["NASA", "YouTube", "eBay"]),
        ("Ask-in the Tom-House", ["Tom-House"]),
        ("Anna", ["Anna"]),
        ("Ask Łódź", ["Łódź"]),
        ("東京 Ask 東京", []),
        ("", []),
        ("...", []),
    ],
)
def test_names_are_words_with_a_capital_that_are_not_known(text, expected):
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my sister Anna lives in Warsaw", []),
        ("ask NASA, McKinsey, eBay", ["NASA", "McKinsey", "eBay"]),
        ("E-Mail", []),
        ("S-Bahn-Station", []),
    ],
)
def test_where_nouns_have_capitals_a_name_needs_one_after_its_first_letter(
    text, expected
):
    assert names(text, GERMAN) == expected


@given(st.text(alphabet=st.sampled_from("aAbB. -'É東\"!:1\n_")))
def test_spans_are_in_order_apart_and_begin_and_end_with_words(text):
    end = 0
    for start, stop in ENGLISH.name_spans(text):
        assert end <= start < stop <= len(text)
        assert text[start:stop] == text[start:stop].strip()
        end = stop


def test_a_rare_name_that_both_sides_have_is_none_of_the_words():
    pairs = [
        *[("I saw Tom there", "ich sah Tom dort")] * module.RARE,
        ("I saw Ada there", "ich sah Ada dort"),
        ("I saw Warsaw there", "ich sah Warschau dort"),
        ("Bob saw it", "Bob sah es"),
    ]

    found = learn_known_words(pairs)

    assert "ada" not in found.words
    assert {"i", "saw", "tom", "there", "warsaw", "bob", "it"} == found.words


@pytest.mark.parametrize(("shared", "expected"), [(29, False), (30, True)])
def test_capitals_are_names_if_enough_words_seen_once_are_shared(shared, expected):
    once = ["".join(f"{letter}x" for letter in f"{n:b}") for n in range(100)]
    once = [f"A{each.translate(str.maketrans('01', 'pq'))}" for each in once]
    pairs = [
        (f"see {name}", f"sieh {name if number < shared else 'ihn'}")
        for number, name in enumerate(once)
    ]

    assert learn_known_words(pairs).capitals_are_names is expected


def test_few_words_with_capitals_say_nothing():
    pairs = [(f"see A{'x' * n}", f"sieh A{'x' * n}") for n in range(module.ENOUGH - 1)]

    assert not learn_known_words(pairs).capitals_are_names


def test_words_of_a_script_without_capitals_are_not_kept():
    assert learn_known_words([("東京 Tokyo", "Tokio")]).words == {"tokyo"}


def test_what_is_kept_has_a_limit(monkeypatch):
    monkeypatch.setattr(module, "MOST_WORDS", 2)
    pairs = [("c b b a a a", "")]

    assert learn_known_words(pairs).words == {"a", "b"}


def test_words_seen_once_are_forgotten_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_COUNT", 3)
    pairs = [("often often Rare", "Rare"), ("some other words", ""), ("late", "")]

    assert learn_known_words(pairs).words == {"often", "late"}


def test_a_file_has_the_words_in_order(tmp_path):
    file = tmp_path / "words.json"
    ENGLISH.save(file)

    assert KnownWords.open(file) == ENGLISH
    assert json.loads(file.read_text())["words"].split() == sorted(WORDS)


@pytest.mark.parametrize("text", ["[]", '{"words": []}', '{"words": "a"}', "null"])
def test_a_file_of_anything_else_is_refused(tmp_path, text):
    file = tmp_path / "words.json"
    file.write_text(text)

    with pytest.raises(ModelError, match="is not a list of known words"):
        KnownWords.open(file)


def test_a_model_that_goes_on_knows_the_words_of_both():
    little = learn_known_words([("the new house", "das neue Haus")])

    assert (little | ENGLISH).words == WORDS | {"new"}
    assert (little | ENGLISH).capitals_are_names
    assert not (little | GERMAN).capitals_are_names
