"""What is varied, and every combination of it."""

import pytest

from headwise.errors import UsageError
from headwise.sweep.space import (
    NOT_VARIED,
    Choices,
    Range,
    assignments_of,
    check_grid,
    combinations,
    described,
    parse_varied,
    shown,
    split_values,
)


def test_a_list_of_values_is_parsed_as_set_parses_them():
    found = parse_varied(
        ["a.b=1,0.5,true", "c=words, spm", "d=[1, 2],[3]", "e='x,y',z"], []
    )

    assert found == [
        Choices("a.b", (1, 0.5, True)),
        Choices("c", ("words", "spm")),
        Choices("d", ([1, 2], [3])),
        Choices("e", ("x,y", "z")),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1..6", Range("n", 1, 6, log=False)),
        ("0.1 .. 0.5", Range("n", 0.1, 0.5, log=False)),
        ("log:1e-4..1e-2", Range("n", 1e-4, 1e-2, log=True)),
        ("-2..2.0", Range("n", -2, 2.0, log=False)),
    ],
)
def test_a_range_is_two_numbers(text, found):
    assert parse_varied([f"n={text}"], []) == [found]


def test_a_range_is_of_whole_numbers_if_both_ends_are():
    assert Range("n", 1, 6, log=False).is_whole
    assert not Range("n", 1, 6.0, log=False).is_whole


def test_paths_with_two_dots_are_no_range():
    values = ("../a", "../b")
    assert parse_varied(["initialize_from=../a,../b"], []) == [
        Choices("initialize_from", values)
    ]


def test_the_grid_is_the_product_and_the_first_changes_slowest():
    grid = combinations([Choices("a", (1, 2)), Choices("b", ("x", "y"))])

    assert [*grid] == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_a_combination_is_written_as_set_takes_it():
    settings = {"a.b": 0.001, "c": "pre", "d": [1, 2], "e": True}

    assert assignments_of(settings) == [
        "a.b=0.001",
        'c="pre"',
        "d=[1, 2]",
        "e=true",
    ]
    assert described(settings) == "b=0.001 c=pre d=[1, 2] e=true"
    assert described({"a.b": 0.0033594763}) == "b=0.00335948"


def test_a_value_takes_one_cell_of_a_table():
    assert [shown(each) for each in ("a b", "", "a\tb", 1e-05, False)] == [
        *("a b", '""', '"a\\tb"', "1e-05", "false"),
    ]


def test_commas_in_brackets_and_quotes_separate_nothing():
    assert split_values("[1,[2,3]],'a,b',\"c,d\", e") == [
        "[1,[2,3]]",
        "'a,b'",
        '"c,d"',
        "e",
    ]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "nothing is varied"),
        (["a"], "--vary takes NAME=A,B"),
        (["=1,2"], "--vary takes NAME=A,B"),
        (["a..b=1,2"], "--vary takes NAME=A,B"),
        (["a=1"], "--vary a has one value, 1; give two or more, or use --set a=1"),
        (["a=1,,2"], "--vary a has an empty value"),
        (["a=1,2,1"], "--vary a has the value 1 twice"),
        (["a=1,1.5,1.50"], "--vary a has the value 1.5 twice"),
        (["a=1,2", " a =3,4"], "--vary names a twice"),
        (["a={x=1},{x=2}"], "not the table {x=1}"),
        (["a=1,nan"], "finite numbers, not nan"),
        (["a=2..1"], "2 is not below 1"),
        (["a=log:0..1"], "a logarithmic range starts above 0, not at 0"),
        (["a=1..x"], "'x' is none"),
        (["a=log:1.."], "--vary a has an empty value"),
        (["shared=1,2"], "shared is both in --set and in --vary"),
        *(([f"{name}=1,2"], f"{name} cannot be varied") for name in NOT_VARIED),
        (["data.dev.source=a,b"], "data.dev.source cannot be varied"),
    ],
)
def test_what_cannot_be_varied_is_said(texts, said):
    with pytest.raises(UsageError) as caught:
        parse_varied(texts, ["shared=3"])

    assert said in str(caught.value)


def test_all_problems_are_said_at_once():
    with pytest.raises(UsageError) as caught:
        parse_varied(["a=1", "seed=1,2", "b"], [])

    assert len(str(caught.value).split("\n")) == 3


def test_true_and_one_are_two_values():
    assert parse_varied(["a=1,true,1.0"], []) == [Choices("a", (1, True, 1.0))]


def test_a_grid_has_no_ranges():
    lists = [Choices("a", (1, 2))]
    assert check_grid(lists) == lists

    with pytest.raises(UsageError, match="add --search optuna, or list the values"):
        check_grid([Range("a", 1, 2, log=False)])
