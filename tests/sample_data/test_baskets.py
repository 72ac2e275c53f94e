"""Baskets: every total is right, and the test has sets of things that are new."""

import pytest
from tests.sample_data.conftest import everything

from headwise.sample_data.baskets import PRICES, baskets, price, things


@pytest.fixture(scope="module")
def corpus():
    return baskets(seed=1)


def test_the_price_by_hand():
    assert price("two apples, a loaf and four eggs") == pytest.approx(5.7)
    assert price("an egg and five tomatoes") == pytest.approx(2.9)


def test_every_label_is_the_price(corpus):
    for each in everything(corpus):
        assert each.label == f"{price(each.text):.2f}"


def test_no_test_basket_has_a_set_of_things_of_training(corpus):
    seen = {tuple(things(each.text)) for each in corpus.train}

    assert not seen & {tuple(things(each.text)) for each in corpus.test}
    assert {thing for each in seen for thing in each} == {*PRICES}
