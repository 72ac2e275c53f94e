"""Beam search against models that can be followed by hand or enumerated by force."""

import math
from functools import cache, partial
from itertools import product

import pytest
import torch
from tests.reference.beam_search import readable_beam_search

from headwise.decoding.beam import beam_search
from headwise.decoding.length_penalty import LENGTH_PENALTIES, gnmt_penalty, no_penalty
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.stopping import STOPPING
from headwise.errors import NumericsError, UsageError

START, A, B, END = range(4)

TRAP = [[0, 0.6, 0.4, 0], [0, 0.5, 0, 0.5], [0, 0, 0, 1.0], [0, 0, 0, 1.0]]


def searched(model, state=None, **changes):
    """Search one sentence without a penalty, unless ``changes`` say otherwise."""
    asked = {
        "num_sentences": 1,
        "start": START,
        "end": END,
        "beam": 2,
        "penalty": partial(no_penalty, alpha=1.0),
        "stopping": STOPPING["first-k"],
        "max_lengths": [8],
    }
    return beam_search(model, state or model.state(), **(asked | changes))


def test_beam_search_recovers_from_a_misleading_first_token(table):
    """Greedy takes A (0.6) and must then split; B (0.4) is followed by a sure END.

    A END = 0.6 * 0.5 = 0.30, B END = 0.4 * 1.0 = 0.40, so the beam must prefer B.
    """
    ((best,),) = searched(table(TRAP))

    assert best.tokens == (B,)
    assert best.finished
    assert best.log_probability == pytest.approx(math.log(0.4))
    assert best.score == pytest.approx(math.log(0.4))


def test_the_length_penalty_can_change_the_ranking(table):
    """END at once has 0.4; A B END has 0.6 * 1 * 0.6 = 0.36, but is three tokens long.

    By total, ln 0.4 = -0.92 beats ln 0.36 = -1.02. By mean it is -0.92 / 1 against
    -1.02 / 3 = -0.34, and the longer output wins.
    """
    model = table([[0, 0.6, 0, 0.4], [0, 0, 1.0, 0], [0, 0, 0.4, 0.6], [0, 0, 0, 1]])

    ((by_total,),) = searched(model)
    ((by_mean,),) = searched(model, penalty=float)

    assert by_total.tokens == ()
    assert by_mean.tokens == (A, B)
    assert by_mean.score == pytest.approx(math.log(0.36) / 3)


def test_first_k_stops_where_exact_goes_on(table):
    """END ends with 0.6 and A with 0.4; A A A ... has the better mean in the end.

    START -> END 0.6, A 0.4. A -> A 0.5, END 0.5. By mean ln p: END -0.51, A END -0.80,
    A A END -0.77, and ever nearer to -0.69. First-k with a beam of 2 ends after two
    steps, with two hypotheses; exact stopping, asked for the two best, must go on until
    the limit of 5, where A A A A END has -0.74.
    """
    model = table([[0, 0.4, 0, 0.6], [0, 0.5, 0, 0.5], [0, 0, 0, 1], [0, 0, 0, 1]])
    asked = {"penalty": float, "num_best": 2, "max_lengths": [5]}

    (first,) = searched(model, stopping=STOPPING["first-k"], **asked)
    (exact,) = searched(model, stopping=STOPPING["exact"], **asked)

    assert [each.tokens for each in first] == [(), (A,)]
    assert [each.score for each in exact] == pytest.approx(
        [math.log(0.6), (math.log(0.4) + 4 * math.log(0.5)) / 5]
    )


def test_a_confident_model_needs_patience_2(table):
    """A, B, C and END are each 0.98 sure; else the sentence ends at once.

    While the one good output is written, a beam of 2 has nothing else to hold than
    early ends: END (ln 0.02) and A END (ln 0.0196 / 2 = -1.97) are two, and the search
    is over. The fourth that is finished is A B C END, with ln 0.94 / 4 = -0.015. So
    became "Le loup n'a" of a wolf who did not cross the road because it was too sick.
    """
    end, sure, early = 4, 0.98, 0.02
    model = [[0.0] * 5 for _ in range(5)]
    for token in (START, 1, 2):
        model[token][token + 1], model[token][end] = sure, early
    model[3][end] = model[end][end] = 1.0
    asked = {"end": end, "penalty": float}

    ((hasty,),) = searched(table(model), patience=1.0, **asked)
    ((patient,),) = searched(table(model), patience=2.0, **asked)
    ((exact,),) = searched(table(model), stopping=STOPPING["exact"], **asked)

    assert hasty.tokens == (1,)
    assert patient.tokens == exact.tokens == (1, 2, 3)
    assert patient.score > hasty.score


def test_a_complete_output_below_the_beam_does_not_count(table):
    """END is third after START, so a beam of 2 never returns the empty output."""
    model = table([[0, 0.4, 0.35, 0.25], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]])

    (narrow,) = searched(model, beam=2, num_best=2)
    (wide,) = searched(model, beam=3, num_best=3)

    assert [each.tokens for each in narrow] == [(A,), (B,)]
    assert [each.tokens for each in wide] == [(A,), (B,), ()]


def test_exact_stopping_waits_for_what_may_still_win(table):
    """END has 0.6, mean -0.51; A has 0.4, then a sure END, mean -0.92 / 2 = -0.46."""
    model = table([[0, 0.4, 0, 0.6], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]])

    ((best,),) = searched(model, penalty=float, stopping=STOPPING["exact"])

    assert best.tokens == (A,)
    assert best.score == pytest.approx(math.log(0.4) / 2)


def test_exact_stopping_bounds_the_score_by_the_longest_output(table):
    """END has 0.8, mean -0.22; A has 0.2, and behind it A is sure for ever.

    A A cut off has a mean of -1.61 / 2 = -0.80, but at a limit of 10 it is -0.16.
    """
    model = table([[0, 0.2, 0, 0.8], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]])

    ((best,),) = searched(
        model, penalty=float, stopping=STOPPING["exact"], max_lengths=[10]
    )

    assert best.tokens == (A,) * 10
    assert not best.finished


def test_exact_stopping_counts_the_reward_of_the_longest_output(table):
    """As above, with 0.5 for each token: END has -0.22 + 0.5, ten A -1.61 + 5."""
    model = table([[0, 0.2, 0, 0.8], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]])

    ((best,),) = searched(
        model, stopping=STOPPING["exact"], reward=0.5, max_lengths=[10]
    )

    assert best.tokens == (A,) * 10
    assert best.score == pytest.approx(math.log(0.2) + 5)


def test_exact_stopping_stops_when_nothing_can_improve(table):
    """END has 0.9. Without a penalty nothing after the first step can beat it."""
    model = table([[0, 0.1, 0, 0.9], [0, 0.5, 0, 0.5], [0, 0, 0, 1], [0, 0, 0, 1]])

    ((best,),) = searched(model, stopping=STOPPING["exact"])

    assert best.tokens == ()
    assert len(model.num_rows) == 1


def everything(log_probabilities, longest):
    """Yield all outputs, ended or cut off: their tokens, length with END, and ln p."""
    for length in range(1, longest + 1):
        for path in product([START, A, B, END], repeat=length):
            if END in path[:-1] or (path[-1] != END and length < longest):
                continue
            log_p = sum(
                log_probabilities(path[:place])[token]
                for place, token in enumerate(path)
            )
            yield path[:-1] if path[-1] == END else path, length, log_p


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("form", LENGTH_PENALTIES)
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_as_wide_as_the_space_is_exhaustive(history, seed, form, alpha):
    model = history(seed=seed, vocabulary=4)
    settings = DecodingSettings(length_penalty=form, alpha=alpha)

    outputs = list(everything(cache(model.log_probabilities_of(0)), 4))
    scores = {
        tokens: settings.score(log_p, length) for tokens, length, log_p in outputs
    }
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)[:5]
    (found,) = searched(
        model,
        model.state([0]),
        beam=len(outputs),
        penalty=settings.penalty,
        reward=settings.reward,
        stopping=STOPPING["exact"],
        max_lengths=[4],
        num_best=5,
    )

    assert len(outputs) == 1 + 3 + 9 + 27 + 81
    assert [each.tokens for each in found] == ranked
    assert [each.score for each in found] == pytest.approx(
        [scores[tokens] for tokens in ranked],
        abs=1e-6,  # a reward and a total of float32 may nearly cancel
    )


@pytest.mark.parametrize("stopping", STOPPING)
@pytest.mark.parametrize("form", LENGTH_PENALTIES)
@pytest.mark.parametrize("beam", [1, 2, 4, 7])
def test_batched_beam_search_agrees_with_the_reference(history, beam, form, stopping):
    model = history(seed=beam, vocabulary=9)
    settings = DecodingSettings(length_penalty=form, alpha=0.7)
    asked = {
        "end": END,
        "beam": beam,
        "penalty": settings.penalty,
        "reward": settings.reward,
        "stopping": STOPPING[stopping],
        "num_best": beam,
        "forbidden": (START,),
    }
    sentences = list(range(20))
    limits = [1 + sentence % 11 for sentence in sentences]

    batched = searched(
        model,
        model.state(sentences),
        num_sentences=len(sentences),
        max_lengths=limits,
        **asked,
    )

    for sentence, limit, found in zip(sentences, limits, batched, strict=True):
        log_probabilities = cache(model.log_probabilities_of(sentence))
        plain = readable_beam_search(log_probabilities, max_length=limit, **asked)
        assert [(each.tokens, each.finished) for each in found] == [
            (each.tokens, each.finished) for each in plain
        ]
        assert [each.score for each in found] == pytest.approx(
            [each.score for each in plain],
            rel=1e-6,
            # Half of the last place of float32 beside 1, twice a token; and that of a
            # total which the reward nearly cancels.
            abs=3e-7 + 1e-6 * settings.reward * limit,
        )


def test_ties_go_to_the_lower_id(table):
    """All tokens are equally likely always, so only the rule for ties decides."""
    model = table([[0.125] * 8] * 8)
    asked = {"end": 3, "beam": 3, "penalty": float, "stopping": STOPPING["first-k"]}

    (found,) = searched(model, max_lengths=[2], num_best=3, **asked)
    plain = readable_beam_search(
        model.log_probabilities, max_length=2, num_best=3, **asked
    )

    assert [each.tokens for each in found] == [(0, 0), (0, 1), (0, 2)]
    assert [each.tokens for each in plain] == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("values", [None, 2])
@pytest.mark.parametrize("stopping", STOPPING)
def test_beam_search_does_not_depend_on_the_batch(history, stopping, values):
    """Alone, in a batch, and in the batch turned round: the very same hypotheses."""
    model = history(seed=1, vocabulary=12, values=values)
    sentences = list(range(30))
    limits = [2 + 3 * sentence % 13 for sentence in sentences]

    def found_in(order):
        outputs = searched(
            model,
            model.state(order),
            num_sentences=len(order),
            beam=4,
            num_best=4,
            penalty=float,
            stopping=STOPPING[stopping],
            max_lengths=[limits[sentence] for sentence in order],
        )
        return dict(zip(order, outputs, strict=True))

    together = found_in(sentences)

    assert found_in(sentences[::-1]) == together
    for sentence in sentences:
        assert found_in([sentence])[sentence] == together[sentence]


def test_hypotheses_are_distinct_and_sorted(history):
    model = history(seed=3, vocabulary=6)

    for found in searched(
        model,
        model.state(list(range(20))),
        num_sentences=20,
        beam=5,
        num_best=5,
        max_lengths=[6] * 20,
    ):
        assert len(found) == 5
        assert len({each.tokens for each in found}) == 5
        assert found == sorted(found, key=lambda each: each.score, reverse=True)


def test_a_score_is_the_log_probability_of_the_hypothesis(table, forced_score):
    generator = torch.Generator().manual_seed(5)
    model = table(torch.randn(4, 4, generator=generator).softmax(-1).tolist())

    (found,) = searched(
        model, beam=4, num_best=4, penalty=partial(gnmt_penalty, alpha=0.6)
    )

    for each in found:
        path = (*each.tokens, END) if each.finished else each.tokens
        log_p = forced_score(model, *path)
        assert each.log_probability == pytest.approx(log_p)
        assert each.score == pytest.approx(log_p / ((5 + len(path)) / 6) ** 0.6)


def test_each_sentence_has_its_own_limit(table):
    """END is never likely, so each output is as long as it may be, and says so."""
    model = table([[0, 0.9, 0.1, 0], [0, 0.9, 0.1, 0], [0, 0.9, 0.1, 0], [0, 0, 0, 1]])

    outputs = searched(model, num_sentences=4, max_lengths=[3, 1, 5, 2])

    assert [best.tokens for (best,) in outputs] == [(A,) * n for n in (3, 1, 5, 2)]
    assert not any(best.finished for (best,) in outputs)


def test_the_last_token_allowed_may_be_the_end(table):
    """A limit of 2 leaves room for one token and END."""
    model = table([[0, 1.0, 0, 0], [0, 0, 0, 1.0], [0, 0, 0, 1], [0, 0, 0, 1]])

    ((best,),) = searched(model, max_lengths=[2])

    assert best.tokens == (A,)
    assert best.finished


def test_an_output_can_be_empty(table):
    model = table([[0, 0, 0, 1.0]] * 4)

    (found,) = searched(model, beam=3, num_best=3)

    assert [(each.tokens, each.finished) for each in found] == [((), True)]
    assert found[0].log_probability == 0.0


def test_one_certain_path_fills_one_slot_of_the_beam(table):
    """Everything but one token has probability 0; the other places stay empty."""
    model = table([[0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0], [0, 0, 0, 1.0]])

    (found,) = searched(model, beam=4, num_best=4)

    assert [(each.tokens, each.log_probability) for each in found] == [((A, B), 0.0)]


def test_no_step_is_run_for_hypotheses_of_probability_0(table):
    """B is never written and nothing stands behind END, so both may be broken."""
    broken = [math.nan] * 4
    model = table([[0, 1.0, 0, 0], [0, 0.5, 0, 0.5], broken, broken])

    (found,) = searched(model, beam=4, num_best=4, max_lengths=[3])

    assert [each.tokens for each in found] == [(A,), (A, A, A), (A, A)]


def test_a_beam_may_be_wider_than_the_vocabulary(table):
    """A A END and A A A (cut off) have 0.15 both; A is the lower id."""
    (found,) = searched(table(TRAP), beam=50, num_best=50, max_lengths=[3])

    assert [each.tokens for each in found] == [(B,), (A,), (A, A, A), (A, A)]


def test_forbidden_tokens_are_not_generated_and_keep_their_probability(table):
    """A has 0.7 and is forbidden; B keeps its 0.3 and does not become sure."""
    model = table([[0, 0.7, 0.3, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]])

    ((best,),) = searched(model, forbidden=(A,))

    assert best.tokens == (B,)
    assert best.log_probability == pytest.approx(math.log(0.3))


def test_finished_sentences_leave_the_batch(history, table):
    """Limits of 1, 2 and 3 and a beam of 2: 3 rows, then 2 * 2, then 1 * 2."""
    model = table([[0, 0.5, 0.5, 0]] * 3 + [[0, 0, 0, 1.0]])

    searched(model, num_sentences=3, max_lengths=[1, 2, 3])

    assert model.num_rows == [3, 4, 2]


def test_an_unchanged_beam_does_not_reorder_the_cache(table):
    """Both hypotheses go on in place, so the state is expanded once and left alone."""
    stay = [[0, 0.6, 0.4, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]]
    model = table(stay)
    state = model.state()

    searched(model, state, max_lengths=[6])

    assert state.indexes == [[0, 0]]


def test_no_sentences_need_no_step(table):
    model = table(TRAP)

    assert searched(model, num_sentences=0, max_lengths=[]) == []
    assert model.num_rows == []


def test_scores_that_are_not_numbers_are_an_error(table):
    with pytest.raises(NumericsError, match="NaN or infinite"):
        searched(table([[math.nan] * 4] * 4))


def test_a_model_that_allows_nothing_is_an_error(table):
    with pytest.raises(NumericsError, match="probability of 0"):
        searched(table([[0, 1.0, 0, 0]] * 4), forbidden=(A,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beam": 0}, "beam must be 1 or more, not 0"),
        ({"num_best": 3}, "num_best must be from 1 to beam=2, not 3"),
        ({"max_lengths": [4, 4]}, "1 sentences and 2 limits"),
        ({"max_lengths": [0]}, "max_lengths must be 1 or more, not 0"),
        ({"forbidden": (END,)}, "must not hold the id of END, 3"),
    ],
)
def test_invalid_beam_arguments_are_refused(table, changes, message):
    with pytest.raises(UsageError, match=message):
        searched(table(TRAP), **changes)
