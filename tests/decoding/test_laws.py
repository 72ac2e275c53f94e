"""Laws that hold for every search: whatever the model, the sentence or the setting.

The models are toys with the memory of all that was written; every search that a user
can name is tried, with every rule on scores.
"""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.conftest import START, History
from tests.reference.beam_search import readable_beam_search

from headwise.decoding.ensemble import AVERAGES, Ensemble
from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.length_penalty import LENGTH_PENALTIES
from headwise.decoding.rule_context import RuleContext
from headwise.decoding.search import SEARCHES, SearchRequest, search
from headwise.decoding.sequence_scoring import score_sequences
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.stopping import STOPPING

A, B, END = 1, 2, 3
PIECES = ["", "▁a", "b", "", "▁ab", "▁c", "c", ""]
VOCABULARY = len(PIECES)
UNKNOWN = 7

few = settings(max_examples=25, deadline=None)

seeds = st.integers(0, 10_000)
ways = st.one_of(
    st.builds(DecodingSettings, beam=st.integers(1, 5)),
    st.builds(
        DecodingSettings,
        beam=st.integers(1, 5),
        length_penalty=st.sampled_from(sorted(LENGTH_PENALTIES)),
        alpha=st.floats(0, 2),
        stopping=st.sampled_from(sorted(STOPPING)),
        patience=st.floats(0.3, 3),
    ),
    st.builds(
        DecodingSettings,
        search=st.just("diverse-beam"),
        groups=st.just(2),
        beam=st.sampled_from([2, 4]),
        diversity=st.floats(0, 3),
    ),
    st.builds(
        DecodingSettings,
        search=st.just("sampling"),
        samples=st.integers(1, 4),
        temperature=st.floats(0.3, 2),
        top_k=st.integers(0, 4),
        top_p=st.floats(0.1, 1),
        epsilon=st.floats(0, 0.3),
        seed=seeds,
    ),
)


def all_found(settings):
    """Return the same search, asked for all that it comes to."""
    return replace(settings, num_best=settings.num_candidates)


def searched(model, sentences, settings, **facts):
    lengths = [1 + sentence % 4 for sentence in sentences]
    return search(
        model,
        model.state(sentences),
        replace(settings, max_length_factor=1.0, max_length_offset=4),
        SearchRequest(
            source_lengths=lengths,
            sources=[[sentence] for sentence in sentences],
            start=START,
            end=END,
            unknown=UNKNOWN,
            forbidden=(START,),
            pieces=PIECES,
            **facts,
        ),
    )


def test_every_search_is_tested():
    assert {"beam", "diverse-beam", "sampling"} == set(SEARCHES)


@few
@given(ways, seeds, st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_a_sentence_does_not_depend_on_its_batch_its_neighbours_or_their_order(
    way, seed, sentences
):
    model = History(seed=seed, vocabulary=VOCABULARY)
    way = replace(all_found(way), no_repeat_ngram=2, token_scores=True)
    together = searched(model, sentences, way)
    backwards = searched(model, sentences[::-1], way)

    assert backwards[::-1] == together
    for sentence, found in zip(sentences, together, strict=True):
        assert searched(model, [sentence], way) == [found]


@few
@given(ways, seeds)
def test_equal_seeds_give_equal_outputs(way, seed):
    model = History(seed=seed, vocabulary=VOCABULARY)

    assert searched(model, [3, 4], way) == searched(model, [3, 4], way)


@few
@given(ways, seeds, st.floats(1, 3))
def test_the_score_of_a_hypothesis_is_its_forced_score(way, seed, penalty):
    """Rules change what is found, never what the model says of it."""
    model = History(seed=seed, vocabulary=VOCABULARY)
    way = replace(all_found(way), token_scores=True, repetition_penalty=penalty)

    for sentence, outputs in zip([5, 6], searched(model, [5, 6], way), strict=True):
        log_p = cache(model.log_probabilities_of(sentence))
        for each in outputs:
            path = (*each.tokens, END) if each.finished else each.tokens
            trace = [log_p(path[:place])[token] for place, token in enumerate(path)]
            assert each.token_log_probabilities == pytest.approx(trace, abs=1e-5)
            assert each.log_probability == pytest.approx(sum(trace), abs=1e-5)
            if each.finished:
                logits = [log_p(path[:place]) for place in range(len(path))]
                (given_it,) = score_sequences(
                    torch.tensor([logits]), [each.tokens], end=END, score=way.score
                )
                assert given_it.log_probability == pytest.approx(
                    each.log_probability, abs=1e-5
                )
                if penalty == 1 and way.search != "diverse-beam":
                    assert given_it.score == pytest.approx(each.score, abs=1e-4)


@few
@given(ways, seeds)
def test_returning_token_scores_changes_no_output(way, seed):
    model = History(seed=seed, vocabulary=VOCABULARY)
    plain = searched(model, [1, 2, 3], all_found(way))
    traced = searched(model, [1, 2, 3], replace(all_found(way), token_scores=True))

    for one, other in zip(plain, traced, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [e.score for e in one] == pytest.approx([e.score for e in other])
        for each in one:
            assert each.token_log_probabilities == ()


@few
@given(seeds, st.sampled_from(sorted(LENGTH_PENALTIES)), st.floats(0, 2))
def test_a_beam_of_1_is_greedy_search(seed, form, alpha):
    """The groups of a diverse beam go through the beam: one group of one hypothesis."""
    model = History(seed=seed, vocabulary=VOCABULARY)
    greedy = DecodingSettings(beam=1, length_penalty=form, alpha=alpha)
    one_group = replace(greedy, search="diverse-beam", groups=1)

    for rules in ({}, {"repetition_penalty": 1.5}, {"no_repeat_ngram": 1}):
        found = searched(model, list(range(9)), replace(greedy, **rules))
        same = searched(model, list(range(9)), replace(one_group, **rules))
        assert [[e.tokens for e in each] for each in found] == [
            [e.tokens for e in each] for each in same
        ]


@few
@given(seeds, st.sampled_from([1, 2, 3]))
def test_one_group_without_rivals_is_an_ordinary_beam(seed, beam):
    """The first group of any is never held back by the others."""
    model = History(seed=seed, vocabulary=VOCABULARY)
    plain = searched(model, [1, 2], all_found(DecodingSettings(beam=beam)))
    diverse = searched(
        model,
        [1, 2],
        all_found(DecodingSettings(search="diverse-beam", beam=3 * beam, groups=3)),
    )

    for one, many in zip(plain, diverse, strict=True):
        assert {each.tokens for each in one} <= {each.tokens for each in many}


def everything(log_p, longest):
    """Yield all outputs, ended or cut off: their tokens, length with END, and ln p."""
    for length in range(1, longest + 1):
        for path in product([START, A, B, END], repeat=length):
            if END in path[:-1] or (path[-1] != END and length < longest):
                continue
            total = sum(log_p(path[:place])[each] for place, each in enumerate(path))
            yield path[:-1] if path[-1] == END else path, length, total


@settings(max_examples=15, deadline=None)
@given(
    seeds,
    st.sampled_from(sorted(LENGTH_PENALTIES)),
    st.floats(0, 2),
    st.integers(0, 2),
)
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all(seed, form, alpha, least):
    """By force: four words, outputs of at most three tokens, all of them enumerated."""
    model = History(seed=seed, vocabulary=4)
    way = DecodingSettings(
        beam=64,
        num_best=3,
        length_penalty=form,
        alpha=alpha,
        stopping="exact",
        max_length_factor=0.0,
        max_length_offset=3,
        min_length_offset=least,
    )
    asked = SearchRequest(source_lengths=[1], start=START, end=END)
    (found,) = search(model, model.state([0]), way, asked)

    outputs = [
        (tokens, way.score(total, length))
        for tokens, length, total in everything(cache(model.log_probabilities_of(0)), 3)
        if len(tokens) >= least
    ]
    best = sorted((score for _, score in outputs), reverse=True)[:3]
    assert [each.score for each in found] == pytest.approx(best, abs=1e-5)


@settings(max_examples=80, deadline=None)
@given(
    seeds,
    st.sampled_from(sorted(LENGTH_PENALTIES)),
    st.floats(0, 2),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sampled_from([1.0, 1.7]),
    st.booleans(),
    st.sampled_from([0.5, 2.0, 5.0]),
)
def test_exact_stopping_finds_what_never_stopping_finds(
    seed, form, alpha, beam, least, penalty, all_of_them, sharpness
):
    """A sharp model writes on at no cost, so that much may come after an early END."""
    model = History(seed=seed, vocabulary=5)
    model.logits *= sharpness
    exact = DecodingSettings(
        beam=beam,
        num_best=beam if all_of_them else 1,
        length_penalty=form,
        alpha=alpha,
        stopping="exact",
        min_length_offset=least,
        repetition_penalty=penalty,
    )
    never = replace(exact, stopping="never")
    sentences = list(range(20))

    assert searched(model, sentences, exact) == searched(model, sentences, never)


@few
@given(
    st.builds(
        DecodingSettings,
        beam=st.integers(2, 4),
        length_penalty=st.sampled_from(sorted(LENGTH_PENALTIES)),
        alpha=st.floats(0, 1.5),
        stopping=st.sampled_from(sorted(STOPPING)),
        patience=st.sampled_from([0.5, 1.0, 2.0]),
        no_repeat_ngram=st.sampled_from([0, 1, 2]),
        repetition_penalty=st.sampled_from([1.0, 1.5]),
        min_length_offset=st.integers(0, 2),
    ),
    seeds,
)
def test_the_reference_search_applies_the_same_rules(way, seed):
    model = History(seed=seed, vocabulary=VOCABULARY)
    way = replace(all_found(way), max_length_factor=1.0, max_length_offset=4)
    asked = SearchRequest(source_lengths=[2], start=START, end=END, forbidden=(START,))
    (found,) = search(model, model.state([7]), way, asked)

    def by_rows(rule):
        def readable(before, scores):
            row = torch.tensor([scores], dtype=torch.double)
            tokens = torch.tensor([before], dtype=torch.long)
            return rule(row, RuleContext(tokens, torch.tensor([0]), row.clone()))[
                0
            ].tolist()

        return readable

    plain = readable_beam_search(
        cache(model.log_probabilities_of(7)),
        end=END,
        beam=way.beam,
        penalty=way.penalty,
        reward=way.reward,
        patience=way.patience,
        stopping=STOPPING[way.stopping],
        max_length=way.max_length(2),
        num_best=way.num_best,
        forbidden=(START,),
        rules=[by_rows(rule) for rule in asked.all_rules(way)],
    )

    assert [each.tokens for each in found] == [each.tokens for each in plain]
    assert [each.score for each in found] == pytest.approx(
        [each.score for each in plain], abs=1e-4
    )
    assert [each.log_probability for each in found] == pytest.approx(
        [each.log_probability for each in plain], abs=1e-4
    )


@few
@given(ways, seeds, st.sampled_from(sorted(AVERAGES)))
def test_an_ensemble_of_a_model_with_itself_is_the_model(way, seed, average):
    class Starting(History):
        def start(self, sentences):
            return self.state(sentences.tolist())

    model = Starting(seed=seed, vocabulary=VOCABULARY)
    twice = Ensemble([model, model], average=average)
    twice.state = lambda sentences: twice.start(torch.tensor(sentences))
    one, two = (searched(each, [1, 2, 3], all_found(way)) for each in (model, twice))

    for found, same in zip(one, two, strict=True):
        assert [each.tokens for each in found] == [each.tokens for each in same]
        assert [each.score for each in found] == pytest.approx(
            [each.score for each in same], abs=1e-5
        )


def spelled(tokens):
    return "".join(PIECES[token] for token in tokens).replace("▁", " ").split()


def ngrams(tokens, size):
    return [tokens[place : place + size] for place in range(len(tokens) - size + 1)]


BROKEN = {
    "banned": (
        {"banned": ("ab", "a c")},
        lambda tokens: (
            "ab" in spelled(tokens) or " a c " in f" {' '.join(spelled(tokens))} "
        ),
    ),
    "no_repeat_ngram": (
        {"no_repeat_ngram": 2},
        lambda tokens: len(set(ngrams(tokens, 2))) < len(ngrams(tokens, 2)),
    ),
    "suppress_unknown": (
        {"suppress_unknown": True},
        lambda tokens: UNKNOWN in tokens,
    ),
    "min_length": (
        {"min_length_offset": 2},
        lambda tokens: len(tokens) < 2,
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
@few
@given(ways, seeds)
def test_no_search_breaks_a_rule_on_scores(rule, way, seed):
    changes, broken = BROKEN[rule]
    model = History(seed=seed, vocabulary=VOCABULARY)
    ruled = replace(all_found(way), **changes)

    for outputs in searched(model, list(range(6)), ruled):
        for each in outputs:
            assert not broken(each.tokens)


@pytest.mark.parametrize("rule", BROKEN)
def test_without_the_rule_it_would_be_broken(rule):
    """Or the law above would say nothing."""
    _, broken = BROKEN[rule]
    models = [History(seed=seed, vocabulary=VOCABULARY) for seed in range(20)]
    outputs = [
        each.tokens
        for model in models
        for found in searched(model, list(range(20)), DecodingSettings())
        for each in found
    ]

    assert any(map(broken, outputs))


@few
@given(ways, seeds, st.lists(st.sampled_from([A, B, 4, 5, 6]), max_size=4))
def test_every_output_starts_with_its_forced_prefix(way, seed, tokens):
    """Whatever other rules say: the beginning is the user's own."""
    model = History(seed=seed, vocabulary=VOCABULARY)
    way = replace(all_found(way), no_repeat_ngram=1, suppress_unknown=True)
    prefixes = [Prefix(tuple(tokens)), Prefix()]
    found, free = searched(model, [1, 2], way, prefixes=prefixes)

    for each in found:
        assert each.tokens[: len(tokens)] == tuple(tokens)
    assert [free] == searched(model, [2], way)


@few
@given(ways, seeds, st.sampled_from(["▁a", "▁ab", "▁ab▁c", "▁abc"]), st.booleans())
def test_every_output_spells_its_forced_prefix_in_some_segmentation(
    way, seed, text, closed
):
    model = History(seed=seed, vocabulary=VOCABULARY)
    found, _ = searched(
        model, [1, 2], all_found(way), prefixes=[Prefix((), text, closed), Prefix()]
    )

    for each in found:
        written = "".join(PIECES[token] for token in each.tokens)
        assert written.startswith(text)
        if closed and len(written) > len(text):
            assert not written[len(text)].isalnum()


def test_a_closed_prefix_is_a_whole_word():
    """Behind "a" the model would write b; closed, it may only begin another word."""
    for seed in range(20):
        model = History(seed=seed, vocabulary=VOCABULARY)
        prefix = [Prefix((), "▁a", closed=True)]
        ((best,),) = searched(model, [1], DecodingSettings(), prefixes=prefix)
        assert best.tokens[0] == A
        assert best.tokens[1:2] not in ((B,), (6,))


def test_finite_scores_everywhere():
    model = History(seed=1, vocabulary=VOCABULARY)
    for found in searched(model, list(range(20)), DecodingSettings(num_best=4)):
        assert all(math.isfinite(each.score) for each in found)
