"""Models small enough to follow by hand, enumerate by force, or write out again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch
from torch import Tensor

START = 0


@dataclass
class Nothing:
    """The state of a model that remembers nothing; it notes what was asked of it."""

    indexes: list[list[int]] = field(default_factory=list)

    def index_select(self, index: Tensor) -> Nothing:
        self.indexes.append(index.tolist())
        return self


class Table:
    """A model whose next token depends on the last one only: p[last][next]."""

    def __init__(self, probabilities: list[list[float]]) -> None:
        self.logits = torch.tensor(probabilities).log()
        self.num_rows: list[int] = []  # of each step

    def state(self, num_rows: int = 1) -> Nothing:
        return Nothing()

    def step(self, tokens: Tensor, state: Nothing) -> tuple[Tensor, Nothing]:
        self.num_rows.append(len(tokens))
        return self.logits[tokens], state

    def log_probabilities(self, written: tuple[int, ...]) -> list[float]:
        last = written[-1] if written else START
        return self.logits[last].double().log_softmax(-1).tolist()


@dataclass
class Path:
    """One number a row, which depends on every token written there."""

    hashes: Tensor

    def index_select(self, index: Tensor) -> Path:
        return Path(self.hashes[index])


class History:
    """A random model whose next token depends on all tokens and on the sentence."""

    def __init__(self, *, seed: int, vocabulary: int, values: int | None = None):
        generator = torch.Generator().manual_seed(seed)
        shape = (997, vocabulary)
        self.logits = 2 * torch.randn(shape, generator=generator)
        if values is not None:  # few different logits: many exact ties
            self.logits = torch.randint(values, shape, generator=generator).float()

    def state(self, sentences: list[int]) -> Path:
        return Path(torch.tensor(sentences))

    def step(self, tokens: Tensor, state: Path) -> tuple[Tensor, Path]:
        hashes = (state.hashes * 31 + tokens + 7) % 997
        return self.logits[hashes], Path(hashes)

    def log_probabilities_of(
        self, sentence: int
    ) -> Callable[[tuple[int, ...]], list[float]]:
        def log_probabilities(written: tuple[int, ...]) -> list[float]:
            state = self.state([sentence])
            for token in (START, *written):
                logits, state = self.step(torch.tensor([token]), state)
            return logits[0].double().log_softmax(-1).tolist()

        return log_probabilities


@pytest.fixture
def table() -> type[Table]:
    return Table


@pytest.fixture
def history() -> type[History]:
    return History


@pytest.fixture
def forced_score() -> Callable[..., float]:
    """Return ln p of a whole output, read off a table cell by cell."""

    def score(model: Table, *path: int) -> float:
        log_p = model.logits.double().log_softmax(-1)
        return sum(log_p[a, b].item() for a, b in pairwise((START, *path)))

    return score
