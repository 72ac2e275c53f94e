import pytest
from hypothesis import given
from tests.text.tree_strategies import trees

from headwise.text.tree_normalization import normalize_tree, syntactic_label
from headwise.text.trees import parse_tree


def normalized(text, **switches):
    tree = normalize_tree(parse_tree(text), **switches)
    return tree and str(tree)


SUBJECT = "(TOP (S (NP-SBJ-1 (NN a)) (VP (VB b) (SBAR (-NONE- 0) (S (-NONE- *T*-1))))))"


def test_traces_and_what_they_leave_empty_are_removed():
    """The SBAR holds traces only, so it goes too; the VP has a word left."""
    assert normalized(SUBJECT) == "(S (NP (NN a)) (VP (VB b)))"


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        (
            "remove_traces",
            "(S (NP (NN a)) (VP (VB b) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))))",
        ),
        ("strip_function_tags", "(S (NP-SBJ-1 (NN a)) (VP (VB b)))"),
        ("remove_root", "(TOP (S (NP (NN a)) (VP (VB b))))"),
    ],
)
def test_each_switch_leaves_one_thing_as_it_is(switch, expected):
    assert normalized(SUBJECT, **{switch: False}) == expected


def test_of_traces_only_nothing_is_left():
    assert normalized("(S (NP (-NONE- *)) (VP (-NONE- *?*)))") is None


@pytest.mark.parametrize(
    ("label", "bare"),
    [
        *(("NP", "NP"), ("NP-SBJ", "NP"), ("NP-SBJ-1", "NP"), ("NP=2", "NP")),
        *(("NP=2-SBJ", "NP"), ("-LRB-", "-LRB-"), ("-RRB-", "-RRB-"), ("-", "-")),
        *(("-NONE-", "-NONE-"), ("=", "="), ("PRP$", "PRP$"), ("ADVP|PRT", "ADVP|PRT")),
        *(("''", "''"), ("``", "``"), (":", ":"), ("", "")),
    ],
)
def test_function_tags_and_indices_are_stripped_and_tags_of_brackets_kept(label, bare):
    assert syntactic_label(label) == bare


def test_chains_of_unary_brackets_stay():
    text = "(S (NP (NP (NN a))))"
    assert normalized(text) == text


@pytest.mark.parametrize("root", ["TOP", "ROOT", "S1"])
def test_a_root_is_removed_around_one_phrase_only(root):
    assert normalized(f"({root} (NP (NN a)))") == "(NP (NN a))"
    for kept in (f"({root} (NN a))", f"({root} (NP (NN a)) (. .))"):
        assert normalized(kept) == kept


@given(trees())
def test_normalizing_twice_changes_nothing_more(tree):
    once = normalize_tree(tree, remove_root=False)

    assert (once is None) == (set(tree.tags) == {"-NONE-"})
    if once:
        assert normalize_tree(once, remove_root=False) == once
        assert "-NONE-" not in once.tags
        assert once.words == [
            word
            for word, tag in zip(tree.words, tree.tags, strict=True)
            if tag != "-NONE-"
        ]


def test_a_deep_tree_is_normalized():
    depth = 20_000
    text = "(S-X " * depth + "(NN a)" + ")" * depth
    assert normalized(text) == text.replace("-X", "")
