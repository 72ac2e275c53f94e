"""The split shares no sentence between its parts, and is the one that others have."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.public.tatoeba import set_aside_of
from headwise.data.public.tatoeba_split import clean, components, key, read_pairs, split


def test_a_key_is_letters_and_digits_in_lower_case():
    assert key("“Don't,” said TOM\u00a0.") == "dont said tom"
    assert key("ﬁve €5!") == "five 5"
    assert key("…") == ""


def test_spaces_are_plain_and_single():
    assert clean("Va\u202f! ") == "Va !"
    assert clean("a\u00a0\u00a0 b\u200bc\u00ad") == "a bc"
    assert clean("e\u0301") == "é"


def test_pairs_are_distinct_and_in_the_order_of_the_file():
    text = "Go.\tVa !\tCC-BY\r\nRun.\tCours !\nGo.\tVa\u202f!\n\n"
    assert read_pairs(text) == [("Go.", "Va !"), ("Run.", "Cours !")]


def test_components_are_connected_by_either_side():
    """0-1 share "a", 1-2 share "y"; 3 is alone; an English "y" is not a French one."""
    keys = [("a", "x"), ("a", "y"), ("b", "y"), ("y", "z")]
    assert sorted(map(sorted, components(keys))) == [[0, 1, 2], [3]]


WORDS = st.sampled_from("abcdefghijklmnopqrst")
PAIRS = st.lists(st.tuples(WORDS, WORDS), unique=True, min_size=30, max_size=60)


@given(PAIRS, st.sets(st.integers(0, 29), max_size=5))
def test_no_sentence_is_on_two_sides_of_the_split(pairs, aside):
    try:
        found = split(pairs, aside, held_out=2, max_component=8)
    except ValueError:
        return  # too few small components
    parts = [
        found.train,
        [(row[0], each) for row in found.dev for each in row[1:]],
        [(row[0], each) for row in found.test for each in row[1:]],
    ]
    for side in (0, 1):
        texts = [{pair[side] for pair in part} for part in parts]
        assert not texts[0] & texts[1]
        assert not texts[0] & texts[2]
        assert not texts[1] & texts[2]
        assert not (texts[1] | texts[2]) & {pairs[index][side] for index in aside}
    everything = [pair for part in (*parts, found.set_aside) for pair in part]
    assert sorted(everything) == sorted(pairs)


def test_the_order_of_the_file_changes_no_part_of_the_split():
    pairs = [(f"{n} e", f"{n} f") for n in range(50)]
    one, other = split(pairs, {7}, held_out=5), split(pairs[::-1], {42}, held_out=5)
    assert one == other


def test_too_few_small_components_are_an_error():
    with pytest.raises(ValueError, match="only 1 English sentences"):
        split([("a", "x"), ("b", "y")], {1}, held_out=2)


def rows(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        return [tuple(x.split("\t")) for x in file.read().decode().split("\n")[:-1]]


@pytest.mark.parametrize("other", ["de", "fr"])
def test_the_split_is_the_one_that_scores_were_measured_on(corpora, other):
    """The pairs of its files, in an order in which references keep theirs."""
    folder = corpora / f"tatoeba-en-{other}"
    train = rows(folder / "train.tsv.gz")
    aside = rows(folder / "set_aside.tsv.gz")
    dev = rows(folder / "dev.allrefs.tsv")
    test = rows(folder / "test.allrefs.tsv")
    held = [(row[0], each) for row in dev + test for each in row[1:]]
    assert len(set_aside_of(f"tatoeba-en-{other}")) == len(aside)

    found = split([*aside, *held, *train], set(range(len(aside))))

    assert found.train == train
    assert found.dev == dev
    assert found.test == test
    assert found.set_aside == aside
