import math

import pytest

from headwise.errors import UsageError
from headwise.metrics.perplexity import perplexity


def test_an_even_choice_among_four_has_perplexity_four():
    assert perplexity(10 * math.log(4), 10) == pytest.approx(4)


def test_a_sure_model_has_perplexity_one():
    assert perplexity(0.0, 5) == 1.0


def test_a_loss_beyond_all_numbers_is_infinite():
    assert perplexity(1e6, 1) == math.inf


def test_no_tokens_have_no_perplexity():
    with pytest.raises(UsageError, match="num_tokens must be 1 or more, not 0"):
        perplexity(0.0, 0)
