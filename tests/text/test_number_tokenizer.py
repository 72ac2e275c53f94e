import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import DataError, ModelError
from headwise.text.number_tokenizer import HALF, NumberTokenizer, parse_number
from headwise.text.settings import TextSettings

SETTINGS = TextSettings(joint=False, target_tokenizer="numbers")


def trained(lines):
    return NumberTokenizer.train(lines, vocab_size=8, settings=SETTINGS)


def test_numbers_are_standardised():
    """Of 1, 2, 3 the mean is 2, and the variance 2/3."""
    numbers = trained(["1", " 2.0 ", "", "3e0"])

    assert numbers.mean == pytest.approx(2)
    assert numbers.deviation == pytest.approx(math.sqrt(2 / 3))


def test_a_number_is_two_tokens_which_are_it_again():
    numbers = trained(["0", "10"])
    tokens = numbers.encode("7.25")

    assert len(tokens) == 2
    assert all(0 <= each < HALF == numbers.size for each in tokens)
    assert numbers.decode(tokens) == "7.25"
    assert numbers.encode("5") == [0, 0]  # the mean: 0, whose bits are 0


@given(st.floats(-1e6, 1e6))
def test_numbers_come_back_to_the_digits_that_are_written(value):
    numbers = NumberTokenizer(mean=3.0, deviation=250.0)
    found = float(numbers.decode(numbers.encode(repr(value))))

    assert found == pytest.approx(value, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize(
    ("mean", "deviation", "number", "written"),
    [
        (1_700_000_005, 3.5, 1_700_000_003, "1700000003"),
        (1e6, 2e5, 1_234_567, "1234570"),
        (0.0, 1e-3, 1.25e-05, "1.25e-05"),
        (0.0, 1e20, 3e20, "3e+20"),
    ],
)
def test_large_numbers_are_written_as_exactly_as_they_differ(
    mean, deviation, number, written
):
    numbers = NumberTokenizer(mean=mean, deviation=deviation)
    found = numbers.decode(numbers.encode(repr(number)))

    assert found.startswith(written)
    assert float(found) == pytest.approx(number, abs=2e-5 * deviation)


@pytest.mark.parametrize("text", ["four", "nan", "inf", "1,5", "1 2", "1_5"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(DataError, match="number"):
        parse_number(text)


def test_numbers_that_are_all_the_same_teach_nothing():
    with pytest.raises(DataError, match="the only number of 2 examples is 4;"):
        trained(["4", "4.0"])


def test_it_is_opened_as_it_was_saved_and_nothing_else(tmp_path):
    numbers = trained(["1", "2"])
    numbers.save(tmp_path / "numbers.json")
    opened = NumberTokenizer.open(tmp_path / "numbers.json", SETTINGS)
    assert (opened.mean, opened.deviation) == (numbers.mean, numbers.deviation)

    (tmp_path / "numbers.json").write_text('{"mean": 1, "deviation": 0}')
    with pytest.raises(ModelError, match="deviation above 0"):
        NumberTokenizer.open(tmp_path / "numbers.json", SETTINGS)


def test_a_line_that_is_no_number_is_left_to_who_knows_its_place():
    numbers = trained(["1", "x", "3"])

    assert numbers.mean == 2
    with pytest.raises(DataError, match="'x' is not a number"):
        numbers.encode("x")
    with pytest.raises(DataError, match="'y' is not a number"):
        trained(["x", "", "y"]).encode("y")
