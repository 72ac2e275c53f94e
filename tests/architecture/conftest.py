"""The depth of calls in training is counted with the trainers that training has."""

from tests.training.conftest import corpus, make_trainer

__all__ = ["corpus", "make_trainer"]
