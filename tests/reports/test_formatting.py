"""Formatting that reports share."""

from headwise.reports.formatting import abbreviated, columns, evenly_spaced


def test_evenly_spaced_values_include_the_first_and_the_last():
    assert evenly_spaced(list(range(100)), 4) == [0, 33, 66, 99]
    assert evenly_spaced([1, 2, 3], 4) == [1, 2, 3]
    assert evenly_spaced([], 4) == []


def test_large_counts_are_short():
    assert [abbreviated(each) for each in (999, 12_345, 10_600_000, 2_500_000_000)] == [
        *("999", "12,345", "10.6 million", "2.5 billion")
    ]


def test_columns_are_as_wide_as_they_must_be():
    rows = [("a", "bb", "c"), ("aaa", "b", "")]

    assert columns(rows) == ["a    bb  c", "aaa  b"]
