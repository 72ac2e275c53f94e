"""Progress on stderr: a live progress bar in a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from collections import deque

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from headwise.data.prepared import PreparedFacts
from headwise.training.callbacks import StepMetrics
from headwise.training.epochs import steps_done_reason
from headwise.training.settings import TrainingSettings
from headwise.training.state import LIVE, TrainingState
from headwise.training.time_left import TimeLeft
from headwise.training.validation import Validation
from headwise.wording import count_of, duration

RECENT = 50
"""Steps that the displayed loss and speed are averaged over."""

SECONDS_BETWEEN_LINES = 20.0


class TrainingProgress:
    """A callback that shows the step, loss, tokens per second and time left."""

    def __init__(
        self, console: Console | None = None, *, facts: PreparedFacts | None = None
    ) -> None:
        self.console = console or Console(file=sys.stderr, highlight=False)
        self._time_left = TimeLeft(facts)
        self._recent: deque[StepMetrics] = deque(maxlen=RECENT)
        self._bar: Progress | None = None
        self._epochs: int | None = None
        self._epoch_batches = 1
        self._last_line = time.monotonic()

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Print the plan, and show the bar."""
        self._time_left.on_start(state, settings, epoch_batches)
        updates = max(1, epoch_batches // settings.accumulate)
        how = f"going on from step {state.step:,}" if state.step else "training"
        limit = settings.max_minutes
        end = f", {duration(60 * limit)} at most" if limit is not None else ""
        self._epochs, self._epoch_batches = settings.epochs, epoch_batches
        passes = (
            ""
            if self._epochs is None
            else f", {count_of(self._epochs, 'epoch')} at most"
        )
        if state.step >= settings.num_steps:
            reason = steps_done_reason(settings, state, settings.num_steps)
            self.on_message(f"no step is left to train: {reason}")
        else:
            self.on_message(
                f"{how}: up to {count_of(settings.num_steps, 'step')}{passes}{end}; "
                f"an epoch has about {updates:,}"
            )
        if self.console.is_terminal:
            self._bar = Progress(
                TextColumn("step {task.completed:,.0f}/{task.total:,.0f}"),
                BarColumn(bar_width=None),
                TextColumn("{task.description}"),
                console=self.console,
                transient=True,
            )
            self._bar.add_task("", total=settings.num_steps, completed=state.step)
            self._bar.start()

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Move the bar, or print a line every ``SECONDS_BETWEEN_LINES``."""
        self._recent.append(update)
        self._time_left.on_step(update, state)
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                completed=state.step,
                total=self._time_left.last_step(state),
                description=self._figures(state),
            )
        elif time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self.on_message(f"step {state.step:,}: {self._figures(state)}")
        if state.cooldown_start == state.step + 1:
            steps = count_of(state.cooldown_end - state.step, "step")
            self.on_message(f"the learning rate falls to 0 over the last {steps}")

    def on_validation(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Print the scores, and one sample."""
        self._time_left.on_validation()
        scores = ", ".join(str(score) for score in validation.scores.values())
        where = f"step {state.step:,}" if name == LIVE else name
        perplexity = validation.perplexity
        about = "" if perplexity is None else f", perplexity {perplexity:.2f}"
        self.on_message(
            f"{where} after {duration(state.seconds)}: validation loss "
            f"{validation.loss:.3f}{about}{', ' if scores else ''}{scores}"
            f"{' (best so far)' if best else ''}"
        )
        for sample in validation.samples[:1]:
            self.on_message(f"    {sample.source}\n    → {sample.output}")

    def on_message(self, text: str) -> None:
        """Print a line."""
        self._last_line = time.monotonic()
        self.console.print(text, markup=False, emoji=False, soft_wrap=True)

    def on_end(self, state: TrainingState, reason: str) -> None:
        """Remove the bar, and print the reason."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self.on_message(
            f"training ended: {reason} (step {state.step:,}, "
            f"{duration(state.seconds)}, {count_of(state.tokens, 'token')})"
        )

    def _figures(self, state: TrainingState) -> str:
        seconds = sum(each.seconds for each in self._recent)
        loss = sum(each.loss for each in self._recent) / len(self._recent)
        speed = sum(each.tokens for each in self._recent) / max(seconds, 1e-9)
        left = self._time_left.seconds(state)
        ahead = "" if left is None else f", {duration(left)} left"
        epoch = f"epoch {state.epochs(self._epoch_batches):.1f}"
        if self._epochs is not None:
            epoch += f" of {self._epochs:,}"
        return f"{epoch}, loss {loss:.3f}, {speed:,.0f} tokens/s{ahead}"
