"""The grammar of linearized trees: what it allows is what can be completed."""

import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.text.tree_strategies import tokens, trees

from headwise.errors import UsageError
from headwise.text.linearized_trees import linearize, parse_linearized
from headwise.text.tree_grammar import AllowedTokens, TreeGrammar

LABELS = ("A", "B")


def follow(grammar, sequence, num_words):
    """Return the state after ``sequence``."""
    state = grammar.start(num_words)
    for token in sequence:
        state = grammar.advance(state, token)
    return state


def choices(allowed, labels=LABELS):
    """Return the allowed tokens; None stands for the end."""
    found = [f"({label}" for label in labels] if allowed.open else []
    found += ["XX"] if allowed.word else []
    found += [f"){allowed.close}"] if allowed.close is not None else []
    return found + ([None] if allowed.end else [])


def unary_chain(tree):
    """Return how many brackets around the same words ``tree`` has at most."""

    def chains(node):  # that of the node itself, and the longest below
        if node.is_preterminal:
            return 0, 0
        below = [chains(child) for child in node.children]
        own = below[0][0] + 1 if len(below) == 1 else 1
        return own, max(own, *(longest for _, longest in below))

    return chains(tree)[1]


@pytest.mark.parametrize(
    ("prefix", "allowed"),
    [
        ("", AllowedTokens(open=True, word=False, close=None, end=False)),
        ("(S", AllowedTokens(open=True, word=True, close=None, end=False)),
        ("(S (NP", AllowedTokens(open=True, word=True, close=None, end=False)),
        ("(S (NP XX", AllowedTokens(open=True, word=True, close="NP", end=False)),
        ("(S (NP XX )NP", AllowedTokens(open=True, word=True, close=None, end=False)),
        ("(S (NP XX XX", AllowedTokens(open=False, word=False, close="NP", end=False)),
        (
            "(S (NP XX XX )NP",
            AllowedTokens(open=False, word=False, close="S", end=False),
        ),
        (
            "(S (NP XX XX )NP )S",
            AllowedTokens(open=False, word=False, close=None, end=True),
        ),
    ],
)
def test_what_may_follow_in_a_sentence_of_two_words(prefix, allowed):
    grammar = TreeGrammar(max_unary=2)
    assert grammar.allowed(follow(grammar, prefix.split(), 2)) == allowed


def test_brackets_that_begin_together_are_bounded_by_the_words_that_are_left():
    """Worked by hand: one bracket around the same words, and two words, a and b.

    S and NP begin at a, so they need different ends: b stands between them. A third
    bracket that begins at a would need a third end.
    """
    grammar = TreeGrammar(max_unary=1)
    state = follow(grammar, ["(S", "(NP"], 2)

    assert not grammar.allowed(state).open
    assert not grammar.allowed(grammar.advance(state, "XX")).word
    assert grammar.allowed(grammar.advance(state, "XX")).close == "NP"


@cache
def brackets(num_words, max_unary, chain):
    """Return all phrases of ``chain`` brackets around the same words, as token tuples.

    By recursion over what is inside: independent of the grammar.
    """
    if chain > 1:
        inside = brackets(num_words, max_unary, chain - 1)
    else:
        inside = [
            first + rest
            for split in range(1, num_words)
            for first in constituents(split, max_unary)
            for rest in sequences(num_words - split, max_unary)
        ] + ([("XX",)] if num_words == 1 else [])
    return [(f"({x}", *tokens, f"){x}") for x in LABELS for tokens in inside]


@cache
def constituents(num_words, max_unary):
    words = [("XX",)] if num_words == 1 else []
    chains = range(1, max_unary + 1)
    return words + [b for c in chains for b in brackets(num_words, max_unary, c)]


@cache
def sequences(num_words, max_unary):
    """Return all lists of one or more constituents."""
    return constituents(num_words, max_unary) + [
        first + rest
        for split in range(1, num_words)
        for first in constituents(split, max_unary)
        for rest in sequences(num_words - split, max_unary)
    ]


def completions(grammar, state, prefix=()):
    for token in choices(grammar.allowed(state)):
        if token is None:
            yield prefix
        else:
            yield from completions(
                grammar, grammar.advance(state, token), (*prefix, token)
            )


@pytest.mark.parametrize(
    ("num_words", "max_unary"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]
)
def test_its_sequences_are_all_trees_within_the_bound_and_no_others(
    num_words, max_unary
):
    grammar = TreeGrammar(max_unary)

    found = list(completions(grammar, grammar.start(num_words)))

    assert len(found) == len(set(found))
    assert set(found) == set(constituents(num_words, max_unary))


@given(
    num_words=st.integers(1, 9),
    max_unary=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    eager=st.floats(0, 1),
)
def test_every_path_of_allowed_tokens_ends_in_a_tree(num_words, max_unary, seed, eager):
    """No prefix is a dead end, and no path is endless; ``eager`` ones open more."""
    grammar, rng = TreeGrammar(max_unary), random.Random(seed)
    state, sequence = grammar.start(num_words), []
    while not grammar.allowed(state).end:
        found = choices(grammar.allowed(state))
        opening = [token for token in found if token.startswith("(")]
        others = [token for token in found if token not in opening]
        assert found, sequence
        use_opening = opening and (not others or rng.random() < eager)
        sequence.append(rng.choice(opening if use_opening else others))
        state = grammar.advance(state, sequence[-1])

    words = [f"w{number}" for number in range(num_words)]
    tree = parse_linearized(sequence, words)

    assert state.is_complete
    assert linearize(tree) == sequence
    assert tree.is_preterminal or unary_chain(tree) <= max_unary


@given(tree=trees(labels=tokens), max_unary=st.integers(1, 4))
def test_a_tree_is_a_path_exactly_if_its_unary_chains_are_within_the_bound(
    tree, max_unary
):
    grammar = TreeGrammar(max_unary)
    try:
        state = follow(grammar, linearize(tree), len(tree.words))
    except UsageError:
        assert unary_chain(tree) > max_unary
    else:
        assert unary_chain(tree) <= max_unary
        assert grammar.allowed(state).end


@given(tree=trees())
def test_every_tree_is_a_path_without_a_bound(tree):
    assert follow(TreeGrammar(), linearize(tree), len(tree.words)).is_complete


@given(tree=trees(), max_unary=st.integers(1, 4), data=st.data())
def test_the_fewest_tokens_left_are_those_of_the_shortest_completion(
    tree, max_unary, data
):
    """The shortest takes words first, and closes brackets as soon as it must."""
    grammar, sequence = TreeGrammar(max_unary), linearize(tree)
    state = grammar.start(len(tree.words))
    for number in range(data.draw(st.integers(0, len(sequence)))):
        if sequence[number] not in choices(
            grammar.allowed(state), [sequence[number][1:]]
        ):
            break
        state = grammar.advance(state, sequence[number])

    expected, steps = state.min_tokens_left, 0
    while not grammar.allowed(state).end:
        allowed = grammar.allowed(state)
        if allowed.word:
            token = "XX"
        elif allowed.close is not None:
            token = f"){allowed.close}"
        else:
            token = "(S"
        state, steps = grammar.advance(state, token), steps + 1

    assert steps == expected


def test_states_share_their_stacks_and_stay_as_they_were():
    grammar = TreeGrammar(max_unary=3)
    state = follow(grammar, ["(S", "(NP", "XX"], 3)
    before = grammar.allowed(state)

    closed, longer = grammar.advance(state, ")NP"), grammar.advance(state, "XX")

    assert grammar.allowed(state) == before
    assert closed.innermost is state.innermost.parent
    assert longer.innermost is state.innermost


def test_what_may_not_follow_is_refused():
    grammar = TreeGrammar()
    with pytest.raises(UsageError, match=r"'\)S' may not follow; expected '\(' with a"):
        grammar.advance(grammar.start(2), ")S")


@pytest.mark.parametrize("number", [0, -1])
def test_bounds_are_one_or_more(number):
    with pytest.raises(UsageError, match="max_unary must be 1 or more"):
        TreeGrammar(number)
    with pytest.raises(UsageError, match="at least 1 word"):
        TreeGrammar().start(number)
