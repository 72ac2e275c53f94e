"""Random trees for property tests."""

from hypothesis import strategies as st

from headwise.text.trees import Tree

BLANKS_AND_BRACKETS = "() \t\n\r\f\v"

tokens = st.text(
    st.characters(exclude_characters=BLANKS_AND_BRACKETS, codec="utf-8"),
    min_size=1,
    max_size=4,
)
"""Words and labels of any script, control characters too."""

LABELS = st.sampled_from(["S", "NP", "VP", "NP-SBJ-1", "ADVP", "PRT", "TOP", "WHNP=2"])
TAGS = st.sampled_from(["DT", "NN", ",", ".", "-LRB-", "``", "-NONE-", "XX"])


def trees(labels=LABELS, tags=TAGS, words=tokens, max_leaves=12):
    """Draw trees in which every word has a tag."""
    preterminals = st.builds(Tree, tags, words)

    def phrases(inner):
        children = st.lists(inner, min_size=1, max_size=4).map(tuple)
        return st.builds(Tree, labels, children)

    return phrases(st.recursive(preterminals, phrases, max_leaves=max_leaves))


def with_words(tree, words):
    """Return ``tree`` with other words, as many as it has."""
    rest = iter(words)

    def copy(node):
        if node.is_preterminal:
            return Tree(node.label, next(rest))
        return Tree(node.label, tuple(map(copy, node.children)))

    return copy(tree)
