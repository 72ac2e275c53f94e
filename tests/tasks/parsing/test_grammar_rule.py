"""A search that the grammar constrains: well-formed trees, whatever the weights."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.decoding.rule_context import RuleContext
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.model.config import TransformerConfig
from headwise.tasks.parsing.grammar_rule import GrammarRule
from headwise.tasks.parsing.settings import ParsingSettings
from headwise.tasks.parsing.task import Parsing
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import train_tokenizers
from headwise.text.tree_grammar import TreeGrammar
from headwise.text.vocabulary import END

TREES = [
    "(S (NP (DT a) (NN b)) (VP (VB c)))",
    "(S (NP (NN c)) (VP (VB b) (ADVP (RB a))))",
]
PIECES = ["<pad>", "<s>", "</s>", "<unk>", "XX", "(S", ")S", "(NP", ")NP"]
XX, OPEN_S, CLOSE_S, OPEN_NP, CLOSE_NP = range(4, 9)

SEARCHES = {
    **{f"beam-{n}": DecodingSettings(beam=n) for n in (1, 2, 3, 5, 8, 21)},
    "exact": DecodingSettings(beam=4, stopping="exact", length_penalty="gnmt"),
    "diverse": DecodingSettings(search="diverse-beam", beam=4, groups=2),
    "sampling": DecodingSettings(search="sampling", samples=2),
    "hot": DecodingSettings(search="sampling", temperature=5.0),
    "top-p": DecodingSettings(search="sampling", top_p=0.3),
    "n-best": DecodingSettings(beam=4, num_best=4, token_scores=True),
}


def parser(seed, max_unary=4, scale=3.0):
    """Return the task and an untrained model with a clear opinion."""
    words = [
        (" ".join(word for word in "abcabc"), tree) for tree in TREES for _ in range(3)
    ]
    text = TextSettings(
        tokenizer="words",
        target_tokenizer="trees",
        joint=False,
        vocab_size=200,
    )
    tokenizers = train_tokenizers(lambda: words, text, seed=1)
    task = Parsing(tokenizers, settings=ParsingSettings(max_unary=max_unary))
    config = TransformerConfig(
        encoder_layers=1,
        decoder_layers=1,
        d_model=16,
        d_ff=16,
        num_heads=2,
        tie_embeddings="none",
    )
    model = task.new_model(config, seed=seed).eval()
    with torch.no_grad():
        model.output_vectors.mul_(scale)
    return task, model


def longest_unary_chain(tree):
    if tree.is_preterminal:
        return 0
    below = [longest_unary_chain(each) for each in tree.subtrees]
    if len(below) == 1 and not tree.subtrees[0].is_preterminal:
        return max(below[0], chain(tree))
    return max(1, *below)


def chain(tree):
    length = 1
    while len(tree.subtrees) == 1 and not tree.subtrees[0].is_preterminal:
        tree, length = tree.subtrees[0], length + 1
    return length


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(
    ("factor", "offset"), [(1.0, 300), (2.0, 10), (1.0, 3), (0.0, 1)]
)
def test_an_untrained_model_writes_trees_over_exactly_the_words(name, factor, offset):
    """With little room too: the limit is raised to what the shortest tree needs."""
    search = replace(SEARCHES[name], max_length_factor=factor, max_length_offset=offset)
    sentences = [["a"], list("abc"), ["(", "b)", "new"], list("abcabcabcab")]
    if offset == 300 and name != "beam-1":
        sentences = sentences[:2]  # to be fast
    for seed in (1, 2):
        task, model = parser(seed, max_unary=2)
        for words, (tree, best) in zip(
            sentences, task.parse(model, sentences, search), strict=True
        ):
            expected = [w.replace("(", "-LRB-").replace(")", "-RRB-") for w in words]
            assert tree.words == expected
            assert best.finished
            assert longest_unary_chain(tree) <= 2
            (source,) = task.encode([" ".join(words)])
            limit = max(search.max_length(len(source)), len(words) + 3)
            assert len(best.tokens) + 1 <= limit


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(1, 50),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    max_unary=st.integers(1, 4),
    offset=st.integers(0, 30),
    name=st.sampled_from(["beam-1", "beam-3", "beam-8", "sampling", "hot"]),
)
def test_no_search_comes_to_a_dead_end(seed, lengths, max_unary, offset, name):
    task, model = parser(seed, max_unary)
    search = replace(
        SEARCHES[name], max_length_factor=1.0, max_length_offset=offset + 1
    )
    sentences = [["a"] * length for length in lengths]

    for words, (tree, best) in zip(
        sentences, task.parse(model, sentences, search), strict=True
    ):
        assert tree.words == words
        assert best.finished


def test_the_word_that_follows_is_that_of_the_sentence():
    """Each word has its own token; one that training saw once or never is XX."""
    pieces = [*PIECES, "a", "b"]
    a, b = 9, 10
    rule = GrammarRule(pieces, words=[[a, b, XX]], max_lengths=[50], max_unary=4)

    def leaves_after(tokens):
        scores = torch.zeros(1, len(pieces))
        context = RuleContext(torch.tensor([tokens]), torch.tensor([0]), scores)
        allowed = rule(scores, context)[0] > -torch.inf
        return {pieces[n] for n in (XX, a, b) if allowed[n]}

    assert leaves_after([OPEN_S]) == {"a"}
    assert leaves_after([OPEN_S, a]) == {"b"}
    assert leaves_after([OPEN_S, a, b]) == {"XX"}
    assert leaves_after([OPEN_S, a, b, XX]) == set()


def test_the_word_that_follows_has_the_probability_of_all_words():
    """By hand: words have 0.1 + 0.2 + 0.3 of it, whichever of them comes."""
    pieces = [*PIECES, "a", "b"]
    scores = torch.full((1, len(pieces)), 1e-9).log()
    scores[0, [XX, 9, 10, OPEN_NP]] = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
    rule = GrammarRule(pieces, words=[[9, 10]], max_lengths=[50], max_unary=4)
    context = RuleContext(torch.tensor([[OPEN_S]]), torch.tensor([0]), scores)

    found = rule(scores, context)[0].exp()
    assert found[9].item() == pytest.approx(0.6)
    assert found[OPEN_NP].item() == pytest.approx(0.4)
    assert found[[XX, 10]].tolist() == [0, 0]


def scores_after(tokens, *, num_words, limit=100, max_unary=4):
    """Return which tokens may follow ``tokens``, by their pieces."""
    rule = GrammarRule(
        PIECES, words=[[XX] * num_words], max_lengths=[limit], max_unary=max_unary
    )
    scores = torch.zeros(1, len(PIECES))
    context = RuleContext(
        torch.tensor([tokens], dtype=torch.long), torch.tensor([0]), scores
    )
    return {
        piece
        for piece, score in zip(PIECES, rule(scores, context)[0], strict=True)
        if score == 0
    }


@pytest.mark.parametrize(
    ("tokens", "words", "allowed"),
    [
        ([], 2, {"(S", "(NP"}),
        ([], 1, {"(S", "(NP", "XX"}),
        ([OPEN_S], 2, {"(S", "(NP", "XX"}),
        ([OPEN_S, XX], 2, {"(S", "(NP", "XX"}),
        ([OPEN_S, XX, XX], 2, {")S"}),
        ([OPEN_S, OPEN_NP, XX], 2, {"(S", "(NP", "XX", ")NP"}),
        ([OPEN_S, XX, XX, CLOSE_S], 2, {"</s>"}),
    ],
)
def test_what_may_follow_by_hand(tokens, words, allowed):
    assert scores_after(tokens, num_words=words) == allowed


@pytest.mark.parametrize(
    ("limit", "allowed"), [(7, {"(S", "(NP", "XX"}), (6, {"XX"}), (5, {"XX"})]
)
def test_a_bracket_opens_only_if_the_tree_fits_with_it(limit, allowed):
    """After (S of two words come XX XX )S END, or (NP XX XX )NP )S END: 5 or 7."""
    assert scores_after([OPEN_S], num_words=2, limit=limit) == allowed


def test_a_limit_without_room_for_a_tree_is_refused():
    with pytest.raises(UsageError, match="takes 5 tokens or more, and the most is 4"):
        GrammarRule(PIECES, words=[[XX] * 2], max_lengths=[4], max_unary=4)


def test_a_label_without_its_closing_bracket_never_opens():
    rule = GrammarRule(
        [*PIECES[:8], "(VP"], words=[[XX] * 2], max_lengths=[50], max_unary=4
    )
    scores = torch.zeros(1, 9)
    context = RuleContext(
        torch.empty(1, 0, dtype=torch.long), torch.tensor([0]), scores
    )
    allowed = (rule(scores, context)[0] == 0).nonzero()[:, 0].tolist()

    assert allowed == [OPEN_S]


def test_one_step_at_a_time_equals_all_at_once():
    """The states that a rule keeps are those that the prefix alone gives."""
    tokens = [OPEN_S, OPEN_NP, XX, CLOSE_NP, XX, XX, CLOSE_S, END]
    rule = GrammarRule(PIECES, words=[[XX] * 3], max_lengths=[20], max_unary=4)
    for length in range(len(tokens)):
        scores = torch.zeros(1, len(PIECES))
        context = RuleContext(
            torch.tensor([tokens[:length]], dtype=torch.long),
            torch.tensor([0]),
            scores,
        )
        allowed = {
            piece
            for piece, score in zip(PIECES, rule(scores, context)[0], strict=True)
            if score == 0
        }
        assert allowed == scores_after(tokens[:length], num_words=3, limit=20)
        assert PIECES[tokens[length]] in allowed


def test_the_grammar_itself_agrees_on_every_tree():
    state = TreeGrammar(4).start(3)
    for token in ["(S", "(NP", "XX", ")NP", "XX", "XX", ")S"]:
        state = TreeGrammar(4).advance(state, token)
    assert state.is_complete
