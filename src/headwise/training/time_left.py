"""How long training is going to take: the updates, and the looks between them."""

from __future__ import annotations

from collections import deque

from headwise.data.prepared import PreparedFacts
from headwise.training.callbacks import StepMetrics
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState

RECENT = 50
"""Updates that speed is taken from."""

WARMING_UP = 3
"""First updates of a process, slower than those that follow, which are left out."""

FORWARD = 1 / 3
"""Share of the work of learning from a token that scoring it takes: no way back."""

SEARCHED = 1.5
"""Work of a greedy search for a token, as a share of that of learning from it; what
saving takes is in it. Seen between 1 and 2 on two cores."""


class TimeLeft:
    """Estimates from what happened; told of it by whoever shows it.

    Updates are counted in tokens, of which some hold more than others. A look at the
    model costs what the last one did; before the first, what its share of work says.
    ``facts`` are those of the corpus; without them the looks before the first are
    left out.
    """

    def __init__(self, facts: PreparedFacts | None = None) -> None:
        self._facts = facts
        self._settings = TrainingSettings()
        self._tokens_an_update: float | None = None
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._seen = 0
        self._before: TrainingState | None = None
        self._looked = False
        self._look: float | None = None

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Begin to count."""
        self._settings = settings
        self._tokens_an_update = self._mean_tokens(epoch_batches)

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Learn what an update took, and the look before it if there was one."""
        before, self._before = self._before, state
        spent = update.seconds
        if before is not None:
            between = max(0.0, state.seconds - before.seconds - update.seconds)
            if self._looked:
                self._look = between
            else:
                spent += between
        self._looked = False
        self._seen += 1
        if self._seen == WARMING_UP + 1:
            self._recent.clear()
        self._recent.append((update.tokens, spent))

    def on_validation(self) -> None:
        """Learn that there was a look."""
        self._looked = True

    def seconds(self, state: TrainingState) -> float | None:
        """Return the seconds from ``state`` to the end; None before any update."""
        if not self._recent:
            return None
        a_token = self._seconds_a_token()
        tokens = sum(tokens for tokens, _ in self._recent)
        an_update = a_token * (self._tokens_an_update or tokens / len(self._recent))
        look = self._seconds_a_look(a_token)
        settings = self._settings
        left = max(0, settings.num_steps - state.step) * an_update
        left += self._looks_left(state.step) * look
        at_end = look * (1 if settings.average_last == 1 else 2)
        if settings.max_minutes is not None:
            limit = max(0.0, 60 * settings.max_minutes - state.seconds)
            left = min(left, max(limit, at_end))
        return left

    def of_end(self, state: TrainingState, step: int) -> float:
        """Return the seconds from the update ``step`` on, if training ends after it.

        ``state`` is the one before that update. After it come a look, one at the mean
        of checkpoints, and what is saved with them. If a look is due by itself, it is
        better the last one than followed by a few updates and another; so both count.
        """
        if not self._recent:
            return 0.0
        a_token, settings = self._seconds_a_token(), self._settings
        has_mean = settings.average_last > 1 and state.validated_step > 0
        looks = 1 + has_mean + (step % settings.validate_every == 0)
        update = sum(spent for _, spent in self._recent) / len(self._recent)
        return update + looks * self._seconds_a_look(a_token)

    def _seconds_a_token(self) -> float:
        tokens = sum(tokens for tokens, _ in self._recent)
        return sum(spent for _, spent in self._recent) / max(1, tokens)

    def _seconds_a_look(self, a_token: float) -> float:
        return self._look if self._look is not None else a_token * self._work_of_look()

    def _looks_left(self, step: int) -> int:
        """Count the looks on the way, the one at the end, and that at the mean."""
        settings = self._settings
        if step > settings.num_steps:
            return 0
        rhythm, last = settings.validate_every, settings.num_steps
        on_the_way = last // rhythm - step // rhythm
        at_the_end = 1 if last % rhythm and step < last else 0
        mean = 1 if settings.average_last > 1 and -(-last // rhythm) > 1 else 0
        return on_the_way + at_the_end + mean

    def _mean_tokens(self, epoch_batches: int) -> float | None:
        """Return the tokens of an update, END of both sides counted, over an epoch."""
        facts = self._facts
        if facts is None or any(each.weight != 1.0 for each in facts.corpora):
            return None  # an epoch takes some pairs more often than others
        train = facts.train
        tokens = train.source_tokens + train.target_tokens + 2 * train.pairs
        return tokens * self._settings.accumulate / max(1, epoch_batches)

    def _work_of_look(self) -> float:
        """Return what a look costs, in tokens that are learned from."""
        if self._facts is None:
            return 0.0
        dev = self._facts.dev
        tokens = dev.source_tokens + dev.target_tokens + 2 * dev.pairs
        searched = min(1.0, self._settings.validation_pairs / max(1, dev.pairs))
        return tokens * (FORWARD + SEARCHED * searched)
