import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.text.tree_strategies import tokens, trees

from headwise.errors import DataError, UsageError
from headwise.text.lines import Line
from headwise.text.trees import (
    Tree,
    escape_brackets,
    parse_tree,
    parse_trees,
    unescape_brackets,
)

DOG = Tree(
    "S",
    (
        Tree("NP", (Tree("DT", "the"), Tree("NN", "dog"))),
        Tree("VP", (Tree("VBZ", "barks"),)),
    ),
)
DOG_TEXT = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"


def read(text, **options):
    lines = [Line(number, line) for number, line in enumerate(text.split("\n"), 1)]
    return list(parse_trees(lines, name="wsj.mrg", **options))


def test_brackets_are_read_and_written():
    assert parse_tree(DOG_TEXT) == DOG
    assert str(DOG) == DOG_TEXT
    assert repr(DOG) == f"parse_tree({DOG_TEXT!r})"


def test_words_and_tags_are_in_order():
    assert DOG.words == ["the", "dog", "barks"]
    assert DOG.tags == ["DT", "NN", "VBZ"]


def test_walk_opens_and_closes_phrases_as_the_text_does():
    assert [(event, node.label) for event, node in DOG.walk()] == [
        *(("open", "S"), ("open", "NP"), ("word", "DT"), ("word", "NN")),
        *(("close", "NP"), ("open", "VP"), ("word", "VBZ"), ("close", "VP")),
        ("close", "S"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        DOG_TEXT,
        f"( {DOG_TEXT} )",
        f"({DOG_TEXT})",
        "\n( (S\n    (NP (DT the)\t(NN dog))\n\n    (VP (VBZ\nbarks)) ))\n",
        "( S(NP(DT the)(NN dog))(VP(VBZ barks)))",
    ],
)
def test_lines_blanks_and_an_outer_bracket_without_label_make_no_difference(text):
    assert read(text) == [DOG]


def test_a_file_has_several_trees_on_a_line_or_on_several_lines():
    assert read(f"{DOG_TEXT} {DOG_TEXT}\n( {DOG_TEXT}\n) \n\n{DOG_TEXT}") == [DOG] * 4
    assert read("") == []


def test_an_outer_bracket_without_label_stays_around_several_brackets():
    (tree,) = read("( (NP (NN a)) (. .))")

    assert (tree.label, len(tree.children)) == ("", 2)
    assert str(tree) == "( (NP (NN a)) (. .))"


def test_an_outer_bracket_without_label_may_be_kept():
    (tree,) = read(f"({DOG_TEXT})", keep_outer=True)
    assert tree == Tree("", (DOG,))


def test_a_tree_may_be_a_word_with_its_tag():
    assert read("((NN Results))") == [Tree("NN", "Results")]


def test_only_blanks_of_ascii_separate_words():
    """U+00A0 and U+2028 are in words of real treebanks."""
    words = ["5\u00a0km", "a\u2028b", "\u3000", "犬", "e\u0301", "-LRB-", "[", "=-="]
    text = "(X " + " ".join(f"(NN {word})" for word in words) + ")"

    assert read(text)[0].words == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "(S (NP (NN a)))\n(S (NN b)))",
            "wsj.mrg, line 2, column 11: ')' closes nothing; no bracket is open here",
        ),
        (
            "(S\n\n (NP (NN a) ",
            "the file wsj.mrg ends while (NP of line 3, column 2 is open, and 1 "
            "bracket around it; each '(' needs its ')'",
        ),
        (
            "(",
            "the file wsj.mrg ends while ( of line 1, column 1 is open; each '(' needs "
            "its ')'",
        ),
        (
            "(S (NP (NN a))) b",
            "wsj.mrg, line 1, column 17: 'b' is outside of all brackets; a tree begins "
            "with '('",
        ),
        (
            "(S (NP (NN a)) (VP ))",
            "wsj.mrg, line 1, column 20: (VP of line 1, column 16 is empty; a bracket "
            "holds a word, or brackets",
        ),
        (
            "( )",
            "wsj.mrg, line 1, column 3: ( of line 1, column 1 is empty; a bracket "
            "holds a word, or brackets",
        ),
        (
            "(S (NN a dog))",
            "wsj.mrg, line 1, column 10: 'dog' follows the word 'a' in (NN of line 1, "
            "column 4; each word needs a bracket of its own with its tag, as in "
            "(NN dog); join_words makes one word of several",
        ),
        (
            "(S (NN a)\ndog)",
            "wsj.mrg, line 2, column 1: 'dog' follows a bracket in (S of line 1, "
            "column 1; each word needs a bracket of its own with its tag, as in "
            "(NN dog)",
        ),
        (
            "(S a (NN dog))",
            "wsj.mrg, line 1, column 6: a bracket follows the word 'a' in (S of line "
            "1, column 1; a bracket holds one word, or brackets",
        ),
        (
            "(S ((NN a)))",
            "wsj.mrg, line 1, column 5: the bracket of line 1, column 4 has no label; "
            "only the outermost one may have none, and that of line 1, column 1 is "
            "open: if another tree begins here, a ')' is missing before it",
        ),
    ],
)
def test_a_fault_is_named_with_its_place_and_what_is_open(text, message):
    with pytest.raises(DataError) as caught:
        read(text)
    assert str(caught.value) == message


def test_several_words_in_a_bracket_may_be_joined():
    assert read("(S (NN a big dog))", join_words="_")[0].words == ["a_big_dog"]
    with pytest.raises(DataError, match="'b' follows a bracket"):
        read("(S (NN a) b)", join_words="_")


def test_trees_before_a_fault_are_read():
    found = parse_trees([Line(1, DOG_TEXT), Line(2, ")")], name="x")

    assert next(found) == DOG
    with pytest.raises(DataError, match="line 2, column 1"):
        next(found)


@pytest.mark.parametrize(("text", "found"), [("", "0 trees"), ("(A b)(A b)", "2 tree")])
def test_one_tree_is_asked_for(text, found):
    with pytest.raises(DataError, match=f"sample has {found}.*; one is needed"):
        parse_tree(text, name="sample")


@pytest.mark.parametrize(
    ("label", "children", "message"),
    [
        ("N P", "a", "a label must not have white space or brackets: 'N P'"),
        ("NN", "(", r"a word must not have .*: '\('; escape_brackets writes"),
        ("NN", "", r"\(NN: a word is empty"),
        ("NP", (), r"\(NP: a phrase has no children"),
        ("", "a", "the word 'a' has an empty tag; use XX"),
        ("S", (Tree("", (DOG,)),), r"a bracket in \(S has no label"),
    ],
)
def test_what_could_not_be_read_again_is_no_tree(label, children, message):
    with pytest.raises(UsageError, match=message):
        Tree(label, children)


@given(st.lists(trees(labels=tokens, tags=tokens), max_size=4), st.sampled_from(" \n"))
def test_what_is_written_is_read_again(written, separator):
    assert read(separator.join(map(str, written))) == written


@given(trees(), trees())
def test_trees_are_equal_if_all_their_labels_and_words_are(one, other):
    def facts(tree):
        below = tree.children
        return tree.label, below if isinstance(below, str) else list(map(facts, below))

    assert (one == other) == (facts(one) == facts(other))
    assert one == parse_tree(str(one))
    assert hash(one) == hash(parse_tree(str(one)))
    assert one != str(one)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_a_tree_is_copied_and_pickled(duplicate):
    for tree in (DOG, Tree("", (DOG,))):
        assert duplicate(tree) == tree


def test_a_tree_may_be_deeper_than_the_recursion_limit():
    depth = 50_000
    text = "(S " * depth + "(NN a)" + ")" * depth

    tree = parse_tree(text)

    assert str(tree) == text
    assert tree.words == ["a"]
    assert tree == copy.deepcopy(tree)
    assert len({tree, parse_tree(text)}) == 1


def test_brackets_in_words_are_escaped():
    assert escape_brackets("f(x)") == "f-LRB-x-RRB-"
    assert unescape_brackets("-LSB-f-LRB-x-RRB-") == "[f(x)"
    assert unescape_brackets(escape_brackets(")LRB(")) == ")LRB("


@given(st.text(st.characters(exclude_characters="-")))
def test_escaped_brackets_come_back(word):
    assert unescape_brackets(escape_brackets(word)) == word
