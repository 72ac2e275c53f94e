import random
from dataclasses import replace

import pytest

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.warning_settings import WarningSettings
from headwise.decoding.warnings import (
    CUT_OFF,
    WARNING_KINDS,
    find_loop,
    kind_of,
    longest_copy,
    merge_warnings,
    search_loops_again,
    warnings_of,
)
from headwise.errors import SettingsError

USUAL = WarningSettings()
UNKNOWN = 3
HOW = {"unknown": UNKNOWN, "limits": USUAL}


def output(tokens, *, finished=True):
    return Hypothesis(tuple(tokens), -1.0, -1.0, finished)


@pytest.mark.parametrize(
    ("tokens", "loop"),
    [
        ([], ()),
        ([5] * 4, ()),  # four times, but only four tokens
        ([5] * 12, (5,)),
        ([1, 2, *[7, 8, 9] * 4], (7, 8, 9)),
        ([1, 2, *[7, 8, 9] * 3], ()),  # three times only
        ([*[7, 8] * 5, 1, *[7, 8] * 5], ()),  # ten tokens in a row, twice
        (list(range(100)), ()),
    ],
)
def test_a_loop_is_a_sequence_repeated_too_often(tokens, loop):
    found = find_loop(tokens, USUAL)

    assert sorted(found) == sorted(loop)


def test_a_loop_is_searched_again_with_a_warning():
    asked = []

    def search(places, settings):
        asked.append((list(places), settings.no_repeat_ngram))
        return [[output([1, 2])] for _ in places]

    found = [[output([4])], [output([5] * 20)], [], [output([6, 7] * 9)]]
    outputs, notes = search_loops_again(search, found, DecodingSettings(), USUAL)

    assert asked == [([1, 3], 3)]
    assert [each[0].tokens if each else None for each in outputs] == [
        (4,),
        (1, 2),
        None,
        (1, 2),
    ]
    assert set(notes) == {1, 3}
    assert "searched again with no_repeat_ngram=3" in notes[1]


def test_a_loop_that_is_not_searched_again_still_gives_a_warning():
    def search(places, settings):
        raise AssertionError

    limits = WarningSettings(loop_no_repeat_ngram=0)
    found = [[output([5] * 20)]]
    outputs, notes = search_loops_again(search, found, DecodingSettings(), limits)

    assert outputs == found
    assert notes == {0: "the translation repeats itself"}


def said(source, source_tokens, text, tokens, *, finished=True, limits=USUAL):
    return list(
        warnings_of(
            source,
            source_tokens,
            text,
            output(tokens, finished=finished),
            unknown=UNKNOWN,
            limits=limits,
        )
    )


def test_a_good_output_gives_no_warning():
    assert said("a dog runs", [5, 6, 7], "ein Hund rennt", [8, 9, 10]) == []


def test_each_warning_has_its_reason():
    (cut,) = said("a", [5], "b", [6], finished=False)
    (long,) = said("a b", [5] * 4, "c", [6] * 13)
    (short,) = said("a", [5] * 13, "c", [6] * 3)
    (copied,) = said("one two three four", [5], "one two three four", [6])
    (strange,) = said("a", [5, UNKNOWN], "b", [6])
    (unknown,) = said("a", [5], "b", [UNKNOWN, UNKNOWN])

    assert "length limit" in cut
    assert long == "the translation is long: 13 tokens for 4 of the source"
    assert short == (
        "the translation is short: 3 tokens for 13 of the source; something may be "
        "missing"
    )
    assert copied == "4 of 4 words were copied from the source"
    assert strange.startswith("the source has 1 unknown token:")
    assert unknown.startswith("the output has 2 unknown tokens:")


def test_an_output_that_is_too_short_gives_a_warning():
    """What once came of "The wolf didn't cross the road because it was too sick."

    14 pieces became 5, "Le loup n'a", without a word: 0.36 of them, where 0.25 was
    the threshold. Half of them is no reason: one of 100 good translations is so short.
    """
    (short,) = said("a", [5] * 14, "c", [6] * 5)

    assert "5 tokens for 14" in short
    assert said("a", [5] * 14, "c", [6] * 7) == []
    assert said("a", [5] * 7, "c", [6]) == []  # too few to tell


def test_lengths_are_compared_from_eight_tokens_of_the_longer_side():
    assert said("a", [5, 7], "c", [6] * 7) == []
    assert said("a", [5] * 7, "c", [6, 7]) == []
    assert len(said("a", [5, 7], "c", [6] * 8)) == 1
    assert len(said("a", [5] * 8, "c", [6, 7])) == 1


@pytest.mark.parametrize(
    ("setting", "case"),
    [
        ({"longer_than": 0.0}, ("a b", [5] * 4, "c", [6] * 13)),
        ({"shorter_than": 0.0}, ("a", [5] * 13, "c", [6] * 3)),
        ({"copied": 0.0}, ("one two three four", [5], "one two three four", [6])),
        ({"unknown": False}, ("a", [5], "b", [UNKNOWN])),
        ({"length_from": 14}, ("a b", [5] * 4, "c", [6] * 13)),
        ({"copied_from": 5}, ("one two three four", [5], "one two three four", [6])),
    ],
)
def test_each_warning_has_its_threshold(setting, case):
    assert len(said(*case)) == 1
    assert said(*case, limits=WarningSettings(**setting)) == []


def test_the_longest_copy_is_in_one_piece():
    assert longest_copy(list("abcde"), list("xbcydef")) == 2
    assert longest_copy([], ["a"]) == 0


def test_invalid_thresholds_are_an_error():
    with pytest.raises(SettingsError) as caught:
        WarningSettings(loop_repeats=1, copied=-1.0, longer_than=float("nan"))

    assert len(caught.value.problems) == 3


def test_more_than_all_words_can_never_be_copied():
    """Model folders say "never" so that are older than 0 for it."""
    whole = "one two three four", [5], "one two three four", [6]

    assert said(*whole, limits=WarningSettings(copied=1.0))
    assert not said(*whole, limits=WarningSettings(copied=5.0))


def test_warnings_of_pieces_are_merged_by_kind():
    """Of one with 9 unknown letters there were 9 warnings, nearly the same."""
    unknown = "the source has {} unknown token{}: letters or words"
    found = merge_warnings(
        [
            [unknown.format(1, ""), CUT_OFF],
            [],
            [unknown.format(12, "s"), unknown.format(3, "s")],
            [CUT_OFF],
        ],
        "pieces",
    )

    assert found == [
        "in 2 of 4 pieces: the source has 1 unknown token: letters or words",
        f"in 2 of 4 pieces: {CUT_OFF}",
    ]
    assert merge_warnings([[CUT_OFF, CUT_OFF]], "pieces") == [CUT_OFF]
    assert merge_warnings([], "pieces") == []


def test_find_loop_agrees_with_its_definition():
    """Many outputs are ruled out by how few tokens repeat; none of these has a loop."""
    limits = WarningSettings(loop_repeats=3, loop_tokens=7)
    chance = random.Random(1)

    def has_loop(tokens):
        return any(
            list(tokens[place : place + needed])
            == [tokens[place + each % size] for each in range(needed)]
            for size in range(1, len(tokens) // 3 + 1)
            for needed in [max(3 * size, 7)]
            for place in range(len(tokens) - needed + 1)
        )

    found = []
    for _ in range(2000):
        letters = chance.randint(1, 4)
        tokens = tuple(chance.choices(range(letters), k=chance.randint(0, 14)))
        if chance.random() < 0.5:
            tokens = (9, 8, *tokens[:5] * 3, 7)
        found.append(has_loop(tokens))
        assert bool(find_loop(tokens, limits)) == found[-1], tokens
    assert 200 < sum(found) < 1800


def test_every_warning_about_an_output_has_its_kind():
    """Each is provoked once; a warning about something else has none."""
    words = ["one", "two", "three", "four", "five"]
    source = " ".join(words)
    loop = [[output([5] * 20)]]
    again = search_loops_again(lambda *_: loop, loop, DecodingSettings(), USUAL)[1]
    kept = replace(USUAL, loop_no_repeat_ngram=0)
    repeats = search_loops_again(lambda *_: loop, loop, DecodingSettings(), kept)[1]
    found = [
        *again.values(),
        *repeats.values(),
        *warnings_of(source, [5] * 4, source, output([6] * 40, finished=False), **HOW),
        *warnings_of(source, [5] * 40, "x", output([6, UNKNOWN]), **HOW),
    ]

    assert {kind_of(each) for each in found} == set(WARNING_KINDS)
    assert kind_of("the line is longer than the 40 tokens") is None
