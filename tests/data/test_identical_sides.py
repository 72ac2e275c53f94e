"""A file given for both sides is detected by its content."""

from headwise.data.identical_sides import IdenticalSides


def notes_of(pairs):
    same = IdenticalSides()
    for pair in pairs:
        same.add(*pair)
    return same.notes("a.en", "a.de")


def test_nearly_all_pairs_must_be_the_same():
    assert notes_of([("one", "one ")] * 19 + [("one", "eins")]) == [
        "a.en and a.de: source and target are the same text in 19 of 20 pairs; was "
        "the same file named twice?"
    ]
    assert notes_of([("one", "one")] * 18 + [("one", "eins")] * 2) == []


def test_empty_pairs_do_not_count_as_identical():
    assert notes_of([("", "")] * 9) == []
    assert notes_of([]) == []
    assert len(notes_of([("", " ")] * 9 + [("one", "one")])) == 1
