"""Time left (ETA): the steps to come, and the validations between them."""

from __future__ import annotations

from collections import deque

from headwise.data.prepared import PreparedFacts
from headwise.training.callbacks import StepMetrics
from headwise.training.settings import TrainingSettings
from headwise.training.state import TrainingState

RECENT = 50
"""Steps that the speed is averaged over."""

WARMUP_STEPS = 3
"""First steps of a process, which are slower, and left out."""

FORWARD = 1 / 3
"""Cost of scoring a token, as a fraction of training on it: no backward pass."""

SEARCHED = 1.5
"""Cost of a greedy search for a token, as a multiple of training on it; the time of
saving is in it. Measured between 1 and 2 on two cores."""


class TimeLeft:
    """Estimates the time left from the steps and validations so far.

    Speed is in tokens per second, as steps hold more tokens or fewer. A validation is
    expected to take as long as the last one; before the first, ``FORWARD`` and
    ``SEARCHED`` give its cost. Without ``facts``, those of the corpus, validations
    before the first cost nothing.
    """

    def __init__(self, facts: PreparedFacts | None = None) -> None:
        self._facts = facts
        self._settings = TrainingSettings()
        self._tokens_per_step: float | None = None
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._seen = 0
        self._before: TrainingState | None = None
        self._was_validated = False
        self._last_validation: float | None = None

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Note the settings, and the batches of an epoch."""
        self._settings = settings
        self._tokens_per_step = self._mean_tokens(epoch_batches)

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Note the time of a step, and of the validation before it if there was one."""
        before, self._before = self._before, state
        spent = update.seconds
        if before is not None:
            between = max(0.0, state.seconds - before.seconds - update.seconds)
            if self._was_validated:
                self._last_validation = between
            else:
                spent += between
        self._was_validated = False
        self._seen += 1
        if self._seen == WARMUP_STEPS + 1:
            self._recent.clear()
        self._recent.append((update.tokens, spent))

    def on_validation(self) -> None:
        """Note that there was a validation."""
        self._was_validated = True

    def seconds(self, state: TrainingState) -> float | None:
        """Return the seconds from ``state`` to the end; None before the first step."""
        if not self._recent:
            return None
        per_token = self._seconds_per_token()
        tokens = sum(tokens for tokens, _ in self._recent)
        per_step = per_token * (self._tokens_per_step or tokens / len(self._recent))
        validation = self._seconds_per_validation(per_token)
        settings = self._settings
        last = self.last_step(state)
        left = max(0, last - state.step) * per_step
        left += self._validations_left(state.step, last) * validation
        at_end = validation * (1 if settings.average_last == 1 else 2)
        if settings.max_minutes is not None:
            limit = max(0.0, 60 * settings.max_minutes - state.seconds)
            left = min(left, max(limit, at_end))
        return left

    def last_step(self, state: TrainingState) -> int:
        """Return the last step of the settings, or of the cooldown that has begun."""
        last = self._settings.num_steps
        return min(last, state.cooldown_end) if state.cooldown_end else last

    def seconds_to_finish(self, state: TrainingState, step: int) -> float:
        """Return the seconds that ``step`` and the end of training after it take.

        ``state`` is the one before that step. After it come a validation, one of the
        checkpoint average, and what is saved with them. If a validation is due at
        ``step`` anyway, it counts twice: better it is the last one than followed by a
        few steps and another.
        """
        if not self._recent:
            return 0.0
        update = sum(spent for _, spent in self._recent) / len(self._recent)
        again = step % self._settings.validate_every == 0
        return update + self.seconds_to_end(state, step, again=again)

    def seconds_to_end(
        self, state: TrainingState, step: int, *, again: bool = False
    ) -> float:
        """Return the seconds that the end of training after the last ``step`` takes.

        ``again``: as if a validation were due once more.
        """
        if not self._recent:
            return 0.0
        has_mean = self._settings.average_last > 1 and 0 < state.validated_step < step
        validations = 1 + has_mean + again
        return validations * self._seconds_per_validation(self._seconds_per_token())

    def steps_within(self, seconds: float, state: TrainingState) -> int:
        """Return how many steps can be made, so that training ends in ``seconds``.

        The validations between them, and the end of training, are counted.
        """
        if not self._recent:
            return 0
        step = sum(spent for _, spent in self._recent) / len(self._recent)
        validation = self._seconds_per_validation(self._seconds_per_token())
        between = validation / self._settings.validate_every
        rest = seconds - self.seconds_to_end(state, state.step + 1)
        return max(0, int(rest / (step + between)))

    def _seconds_per_token(self) -> float:
        tokens = sum(tokens for tokens, _ in self._recent)
        return sum(spent for _, spent in self._recent) / max(1, tokens)

    def _seconds_per_validation(self, per_token: float) -> float:
        return (
            self._last_validation
            if self._last_validation is not None
            else per_token * self._cost_of_validation()
        )

    def _validations_left(self, step: int, last: int) -> int:
        """Count the regular validations, the last one, and that of the average."""
        settings = self._settings
        if step > last:
            return 0
        every = settings.validate_every
        on_the_way = last // every - step // every
        at_the_end = 1 if last % every and step < last else 0
        mean = 1 if settings.average_last > 1 and -(-last // every) > 1 else 0
        return on_the_way + at_the_end + mean

    def _mean_tokens(self, epoch_batches: int) -> float | None:
        """Return the mean tokens of a step over an epoch, END tokens included."""
        facts = self._facts
        if facts is None or any(each.weight != 1.0 for each in facts.corpora):
            return None  # an epoch takes some pairs more often than others
        train = facts.train
        tokens = train.source_tokens + train.target_tokens + 2 * train.pairs
        return tokens * self._settings.accumulate / max(1, epoch_batches)

    def _cost_of_validation(self) -> float:
        """Return the cost of a validation, in tokens trained on."""
        if self._facts is None:
            return 0.0
        dev = self._facts.dev
        tokens = dev.source_tokens + dev.target_tokens + 2 * dev.pairs
        searched = min(1.0, self._settings.validation_pairs / max(1, dev.texts))
        return tokens * (FORWARD + SEARCHED * searched)
