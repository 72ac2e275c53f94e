"""Generated trees: well-formed, and only a last noun decides."""

from collections import defaultdict

from tests.sample_data.conftest import everything

from headwise.sample_data.splits import Sizes
from headwise.sample_data.trees import MEANS, tree_examples
from headwise.text.trees import parse_tree

SIZES = Sizes(600, 50, 100)


def test_every_line_is_a_tree_and_none_comes_twice():
    examples = everything(tree_examples(SIZES))
    trees = [parse_tree(each.tree) for each in examples]

    assert len({" ".join(tree.words) for tree in trees}) == len(trees) == 750
    assert {tree.label for tree in trees} == {"S"}
    assert max(len(tree.words) for tree in trees) < 30


def test_the_noun_after_with_decides_where_its_phrase_belongs():
    found = defaultdict(set)
    for example in everything(tree_examples(SIZES)):
        tree = parse_tree(example.tree)
        for event, node in tree.walk():
            if event != "open" or [x.label for x in node.subtrees][-1:] != ["PP"]:
                continue
            phrase = node.subtrees[-1]
            if phrase.words[0] == "with":
                found[node.label].add(phrase.words[-1])

    assert found["VP"] == set(MEANS)
    assert not found["NP"] & found["VP"]


def test_no_pair_of_the_test_is_in_training():
    splits = tree_examples(SIZES)
    known = {pair for each in splits.train + splits.dev for pair in each.pairs}

    assert all(set(each.pairs) - known for each in splits.test)


def test_the_same_seed_gives_the_same_trees():
    assert tree_examples(SIZES) == tree_examples(SIZES)
    assert tree_examples(SIZES, seed=2) != tree_examples(SIZES)
