"""The settings of training; the defaults are the paper's (Sections 5.1 to 5.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from headwise.errors import SettingsError

ScheduleName = Literal["paper", "linear", "constant"]
Objective = Literal["mean", "sum"]
Precision = Literal["auto", "float32", "bf16"]
KernelsName = Literal["fast", "eager", "readable", "compiled"]
NotFinite = Literal["stop", "skip"]
Devices = Literal["replicate", "shard"]

LOWER_IS_BETTER = ("loss", "ter", "word-error-rate", "token-error-rate")
"""Measures of a validation of which less is better."""

MEASURES = ("loss", "bleu", "chrf", "ter", "exact-match", *LOWER_IS_BETTER[2:])
"""What validation can judge by."""

MAX_EPOCHS = 10_000
"""Each is planned before training begins, to know how many updates there will be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSettings:
    """How a model learns, when it is looked at, and when it stops."""

    steps: int | None = 100_000
    """Updates of the weights at most; none where ``epochs`` alone says how many. A
    recipe that sets ``epochs`` and no ``steps`` means none."""

    epochs: int | None = None
    """Passes over the training text at most, each pair as often as its corpus weighs;
    not set: ``steps`` alone says how long."""

    max_minutes: float | None = None
    """Minutes of training at most; not set: no limit. Counted from the making of the
    model to the last thing saved: updates end early enough for the validation after."""

    batch_tokens: int = 25_000
    """Target tokens of a batch at most, padding counted, and as many source tokens."""

    batch_pairs: int | None = None
    """Pairs of a batch instead, however long: 1 makes each sentence a batch."""

    accumulate: int = 1
    """Batches that make one update together, on however many devices: these deal the
    batches out among themselves, so there must be at least one for each."""

    objective: Objective = "mean"
    """Mean of the loss over the target tokens of an update, or its plain sum."""

    label_smoothing: float = 0.1
    """Share of the right answer spread over the whole vocabulary (ε_ls)."""

    schedule: ScheduleName = "paper"
    """Equation 3; or up during warm-up and straight down to 0 after the last update,
    by ``steps`` or ``epochs``; or up during warm-up and level."""

    learning_rate: float | None = None
    """Highest learning rate; not set: that of Equation 3 for d_model and warm-up."""

    warmup_steps: int = 4000
    """Updates during which the learning rate rises."""

    adam_beta1: float = 0.9
    """Memory of Adam's mean of gradients (β₁)."""

    adam_beta2: float = 0.98
    """Memory of Adam's mean of squared gradients (β₂)."""

    adam_epsilon: float = 1e-9
    """What Adam adds to a denominator (ε)."""

    clip_norm: float | None = None
    """Length that a gradient is cut down to; not set, as in the paper: no limit."""

    precision: Precision = "auto"
    """Numbers in products: float32, bf16 (weights stay float32), or auto: bf16 on a
    GPU and on a CPU that multiplies matrices of it (AMX), float32 elsewhere."""

    kernels: KernelsName = "fast"
    """The way through the model: fast, on a CPU by kernels of our own in C where they
    can be had and were measured to be faster than PyTorch; or eager, by PyTorch alone;
    or readable, which computes the same box by box as the paper draws them and takes a
    multiple of the time; or compiled, for a GPU, by torch's compiler and batches whose
    shape stays the same, of pairs of all lengths."""

    processes: int | None = None
    """Processes that learn from a share of each batch on a CPU, the cores divided among
    them; not set: as many as there are threads and thousands of batch_tokens, up to 4;
    1 where ``torchrun`` starts several."""

    activation_checkpointing: bool = False
    """Forget what is inside a block on the way up and compute it again on the way back:
    a third more work for a fraction of the memory."""

    devices: Devices = "replicate"
    """What several devices hold: a copy of the model each (data parallel), or a share
    of weights, gradients and Adam's moments (FSDP2), for a model that does not fit."""

    data_workers: int = 0
    """Threads that read batches ahead; 0 reads each when it is needed."""

    not_finite: NotFinite = "stop"
    """What follows a loss or gradient that is no number: the run stops, or the update
    is skipped and said so."""

    ema_decay: float | None = None
    """Share of the running mean of weights that an update keeps; this mean is then what
    is validated and kept as the best model. Not set: the weights themselves."""

    validate_every: int = 1000
    """Updates from one validation, and checkpoint, to the next."""

    measure: str = "bleu"
    """What decides which model is best: loss, bleu, chrf, ter, exact-match,
    word-error-rate or token-error-rate."""

    validation_pairs: int = 1000
    """Held-out pairs that are translated at each validation, at most."""

    patience: int | None = None
    """Validations without a gain after which training ends; not set: never."""

    average_last: int = 5
    """Checkpoints at the end whose mean is tried as the best model; 1 for none."""

    def __post_init__(self) -> None:
        problems = [*self._counts(), *self._numbers(), *self._choices()]
        problems += self._conflicts_with_compiled()
        if not problems and self.objective == "sum" and self.label_smoothing:
            problems.append(
                "objective = 'sum' is the plain sum of -ln p; "
                "set label_smoothing = 0.0 with it"
            )
        if problems:
            raise SettingsError(problems)

    @property
    def num_steps(self) -> int:
        """Updates at most, once epochs were counted (``training.epochs``)."""
        assert self.steps is not None, "epochs are still to be counted"
        return self.steps

    @property
    def keep_checkpoints(self) -> int:
        """Checkpoints that stay on disk: enough to average, and never fewer than 2."""
        return max(2, self.average_last)

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value of ``measure`` is a better one."""
        return self.measure in LOWER_IS_BETTER

    def _counts(self) -> list[str]:
        required = [
            *("batch_tokens", "accumulate", "warmup_steps"),
            *("validate_every", "validation_pairs", "average_last"),
        ]
        optional = [
            name
            for name in ("steps", "epochs", "batch_pairs", "patience", "processes")
            if getattr(self, name) is not None
        ]
        return (
            [
                f"{name} must be 1 or more, not {getattr(self, name)}"
                for name in [*required, *optional]
                if getattr(self, name) < 1
            ]
            + (
                [f"data_workers must be 0 or more, not {self.data_workers}"]
                if self.data_workers < 0
                else []
            )
            + (
                [f"epochs must be at most {MAX_EPOCHS:,}, not {self.epochs:,}"]
                if self.epochs is not None and self.epochs > MAX_EPOCHS
                else []
            )
            + (
                ["steps or epochs must say when training ends; set one of them"]
                if self.steps is None and self.epochs is None
                else []
            )
        )

    def _numbers(self) -> list[str]:
        problems = [
            f"{name} must be more than 0 and finite, not {getattr(self, name)}"
            for name in ("max_minutes", "learning_rate", "clip_norm", "adam_epsilon")
            if getattr(self, name) is not None
            and not 0 < getattr(self, name) < math.inf
        ]
        problems += [
            f"{name} must be 0 or more and less than 1, not {getattr(self, name)}"
            for name in ("label_smoothing", "adam_beta1", "adam_beta2", "ema_decay")
            if getattr(self, name) is not None and not 0 <= getattr(self, name) < 1
        ]
        return problems

    def _conflicts_with_compiled(self) -> list[str]:
        """Say what a compiled model cannot be trained with."""
        if self.kernels != "compiled":
            return []
        reasons = {
            "batch_pairs": "fills rows by tokens; leave it unset",
            "processes": "learns in one process; leave it unset",
            "devices": "needs all weights on each device; 'replicate' has them",
        }
        allowed = {"processes": (None, 1), "devices": ("replicate",)}
        return [
            f"{name} = {getattr(self, name)!r}, but kernels = 'compiled' {reason}"
            for name, reason in reasons.items()
            if getattr(self, name) not in allowed.get(name, (None,))
        ]

    def _choices(self) -> list[str]:
        choices = {
            "objective": get_args(Objective),
            "schedule": get_args(ScheduleName),
            "precision": get_args(Precision),
            "kernels": get_args(KernelsName),
            "not_finite": get_args(NotFinite),
            "devices": get_args(Devices),
            "measure": MEASURES,
        }
        return [
            f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}"
            for name, known in choices.items()
            if getattr(self, name) not in known
        ]
