"""One corpus for all tests of this folder: large enough to count in, made once."""

import pytest

from headwise.demo_corpus import demo_corpus


@pytest.fixture(scope="session")
def corpus():
    return demo_corpus(num_train=20_000, num_held_out=1_000, seed=1)
