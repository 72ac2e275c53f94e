import math

import pytest

from headwise.decoding.beam import beam_search
from headwise.decoding.greedy import greedy_search
from headwise.decoding.length_penalty import LENGTH_PENALTIES
from headwise.decoding.stopping import STOPPING
from headwise.errors import NumericsError, UsageError

START, A, B, END = range(4)


def searched(model, state, *, max_lengths, **changes):
    return greedy_search(
        model,
        state,
        num_rows=len(max_lengths),
        start=START,
        end=END,
        max_lengths=max_lengths,
        **changes,
    )


def test_greedy_search_takes_the_best_token_even_if_misleading(table):
    """A has 0.6 and then splits (A 0.4, END 0.6); B (0.4) would be sure to end."""
    model = table([[0, 0.6, 0.4, 0], [0, 0.4, 0, 0.6], [0, 0, 0, 1.0], [0, 0, 0, 1.0]])

    (found,) = searched(model, model.state(), max_lengths=[9])

    assert found.tokens == (A,)
    assert found.finished
    assert found.log_probability == pytest.approx(math.log(0.36))
    assert found.score == pytest.approx(math.log(0.36) / 2)


@pytest.mark.parametrize("form", LENGTH_PENALTIES)
def test_greedy_search_is_beam_search_with_a_beam_of_one(history, form):
    model = history(seed=2, vocabulary=8)
    sentences = list(range(50))
    limits = [1 + sentence % 9 for sentence in sentences]

    def penalty(length):
        return LENGTH_PENALTIES[form](length, 0.6)

    greedy = searched(
        model,
        model.state(sentences),
        max_lengths=limits,
        forbidden=(START,),
        penalty=penalty,
    )
    narrow = beam_search(
        model,
        model.state(sentences),
        num_sentences=len(sentences),
        start=START,
        end=END,
        beam=1,
        penalty=penalty,
        stopping=STOPPING["first-k"],
        max_lengths=limits,
        forbidden=(START,),
    )

    assert [[each] for each in greedy] == narrow


def test_greedy_search_does_not_depend_on_the_batch(history):
    model = history(seed=4, vocabulary=8, values=2)
    sentences = list(range(40))

    together = searched(model, model.state(sentences), max_lengths=[7] * 40)

    for sentence in sentences:
        alone = searched(model, model.state([sentence]), max_lengths=[7])
        assert alone == [together[sentence]]


def test_finished_rows_are_compacted_away(table):
    """No END is ever written, so each row leaves at its own limit."""
    model = table([[0, 1.0, 0, 0]] * 4)

    found = searched(model, model.state(), max_lengths=[2, 4, 1])

    assert [each.tokens for each in found] == [(A,) * 2, (A,) * 4, (A,)]
    assert not any(each.finished for each in found)
    assert model.num_rows == [3, 2, 1, 1]


def test_the_cache_is_reordered_only_when_the_batch_is_compacted(table):
    model = table([[0, 1.0, 0, 0]] * 4)
    state = model.state()

    searched(model, state, max_lengths=[3, 1, 3])

    assert state.indexes == [[0, 2]]


def test_an_output_can_be_empty(table):
    model = table([[0, 0, 0, 1.0]] * 4)

    (found,) = searched(model, model.state(), max_lengths=[5])

    assert found.tokens == ()
    assert found.finished


def test_no_rows_need_no_step(table):
    model = table([[0, 1.0, 0, 0]] * 4)

    assert searched(model, model.state(), max_lengths=[]) == []
    assert model.num_rows == []


def test_a_model_that_allows_nothing_is_an_error(table):
    model = table([[0, 1.0, 0, 0]] * 4)

    with pytest.raises(NumericsError, match="probability of 0"):
        searched(model, model.state(), max_lengths=[5], forbidden=(A,))


def test_a_limit_without_room_for_end_is_refused(table):
    model = table([[0, 1.0, 0, 0]] * 4)

    with pytest.raises(UsageError, match="1 or more, not 0"):
        searched(model, model.state(), max_lengths=[3, 0])
