import pytest

from headwise.errors import DataError
from headwise.text.label_tokenizer import MAX_LABELS, LabelTokenizer
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import END, START

SETTINGS = TextSettings(joint=False, target_tokenizer="labels")


def trained(lines):
    return LabelTokenizer.train(lines, vocab_size=8, settings=SETTINGS)


def test_a_line_is_one_token_in_the_order_of_code_points():
    labels = trained(["very good", "bad", "very good"])

    assert labels.labels == ("bad", "very good")
    assert labels.encode("very good") == [5]
    assert labels.decode([START, 5, END]) == "very good"


def test_white_space_around_and_inside_a_label_says_nothing():
    assert trained([" a  b ", "c"]).encode("a\tb") == [4]


def test_a_blank_line_has_no_label():
    assert trained(["a", "b", " "]).encode("  ") == []


@pytest.mark.parametrize("unknown", ["other", "<unk>", "</s>"])
def test_an_unknown_label_is_an_error_that_names_the_known_ones(unknown):
    with pytest.raises(DataError, match=f"label '{unknown}' .* 'a', 'b'"):
        trained(["a", "b"]).encode(unknown)


def test_one_label_only_cannot_be_learned():
    with pytest.raises(
        DataError, match="the only label of 2 examples for training is 'a'"
    ):
        trained(["a", "a"])


def test_a_column_of_text_is_not_taken_for_labels():
    with pytest.raises(DataError, match="is this the column of the labels"):
        trained(f"text {number}" for number in range(MAX_LABELS + 1))


def test_labels_that_hardly_an_example_shares_are_swapped_columns():
    """Of a hundred each may have one example, such as in a list of terms."""
    texts = [f"text {number}" for number in range(101)]
    with pytest.raises(DataError, match=r"101 examples have 101 .* --columns 2 1"):
        trained(texts)

    assert len(trained([*texts, *texts]).labels) == 101
    assert len(trained(texts[:100]).labels) == 100


def test_symbols_of_the_text_are_no_labels(tmp_path):
    trained(["a", "b"]).save(tmp_path / "labels.json")
    settings = TextSettings(joint=False, target_tokenizer="labels", symbols=(">>fr<<",))

    opened = LabelTokenizer.open(tmp_path / "labels.json", settings)
    assert opened.labels == ("a", "b")


def test_it_is_opened_as_it_was_saved(tmp_path):
    before = trained(["a", "b"])
    before.save(tmp_path / "labels.json")

    assert LabelTokenizer.open(tmp_path / "labels.json", SETTINGS).labels == ("a", "b")


def test_labels_that_are_all_called_as_special_symbols_are_refused_as_such():
    labels = trained(["<unk>", "<pad>"])

    with pytest.raises(DataError, match=r"name of a special symbol, .* are: none"):
        labels.encode("<unk>")
