"""The settings of training; the defaults are the paper's (Sections 5.1 to 5.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from headwise.data.source_noise import NoiseSettings
from headwise.errors import SettingsError
from headwise.settings import Renamed
from headwise.tasks import MEASURES as TASK_MEASURES
from headwise.training.settings_checks import combination_problems

ScheduleName = Literal["paper", "linear", "cosine", "constant"]
SampledSides = Literal["both", "source", "target"]
Objective = Literal["mean", "sum"]
OptimizerName = Literal["adam", "muon"]
Precision = Literal["auto", "float32", "bf16"]
Backend = Literal["auto", "native", "torch", "reference", "torch_compile"]
NotFinite = Literal["stop", "skip"]
OnPlateau = Literal["stop", "cooldown"]
Devices = Literal["replicate", "shard"]

FALLING_SCHEDULES = ("linear", "cosine")
"""Schedules that are 0 after the last step."""

LOWER_IS_BETTER = ("loss", "ter", "word-error-rate", "token-error-rate", "rmse")
"""Validation measures of which a lower value is better."""

MEASURES = ("loss", *TASK_MEASURES)
"""Values of ``measure``; each task has some of them."""

MAX_EPOCHS = 10_000
"""The batches of each are planned before training, to know the number of steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSettings:
    """Settings of training: length, batches, optimizer, devices, validation.

    Raises ``SettingsError`` with all problems together.
    """

    steps: int | None = 100_000
    """Maximum number of optimizer steps (updates); None: ``epochs`` alone limits it.
    A recipe that sets ``epochs`` and no ``steps`` means None."""

    epochs: int | None = None
    """Maximum number of epochs, each with a pair as often as its corpus weighs; not
    set: ``steps`` alone limits training."""

    max_minutes: float | None = None
    """Time limit in minutes; not set: no limit. It counts from the making of the model
    to the last save: steps end early enough for the last validation. Start-up, one
    step, a validation and a checkpoint are made in any case."""

    batch_tokens: int = 25_000
    """Maximum target tokens of a batch, with padding, and as many source tokens. Both
    passes of R-Drop and SimCut count."""

    batch_pairs: int | None = None
    """Batch size in pairs instead, however long: 1 makes each sentence a batch."""

    accumulate: int = 1
    """Batches per optimizer step (gradient accumulation), over all ranks together: at
    least one for each."""

    objective: Objective = "mean"
    """Mean of the loss over the target tokens of a step, or its plain sum."""

    label_smoothing: float = 0.1
    """Probability mass spread over the whole vocabulary (ε_ls)."""

    word_dropout: float = 0.0
    """Rate at which source tokens are replaced by the unknown symbol in training (word
    dropout, Iyyer et al. 2015): 0 or more, less than 1."""

    r_drop: float = 0.0
    """Weight of R-Drop (α, Liang et al. 2021): each example goes through the model
    twice, with other dropout, and the loss holds both outputs together. 5 for
    translation in the paper; 0: none."""

    simcut: float = 0.0
    """Weight of SimCut (α, Gao et al. 2022): as R-Drop, but tokens of the second pass
    are cut, and the labels are learned in the first alone. 3 in the paper; 0: none."""

    simcut_rate: float = 0.05
    """Rate at which SimCut replaces tokens, of the source and of what the decoder
    reads, by the unknown symbol (p_cut): more than 0, less than 1."""

    teacher: tuple[str, ...] = ()
    """Model or run folders whose distribution of each target token is learned
    (word-level distillation, Hinton et al. 2015, Kim and Rush 2016); of several the
    mean. The model has their tokenizers."""

    teacher_weight: float = 0.5
    """Weight of the divergence from ``teacher`` in the loss; labels have the rest: more
    than 0, at most 1."""

    bpe_dropout: float = 0.0
    """Probability with which each merge of a bpe tokenizer is left out in training
    (BPE-dropout, Provilkov et al. 2020): each epoch sees other segmentations. 0: none;
    1: characters; 0.1 in the paper, 0.6 for Chinese and Japanese."""

    unigram_alpha: float | None = None
    """Draws the segmentations of a unigram tokenizer in training, in proportion to
    their probability to this power (subword regularisation, Kudo 2018, α): 0 or more,
    less is more random; 0.1 to 0.5 in the paper. Not set: the most probable one."""

    sampled_sides: SampledSides = "both"
    """Sides of a pair whose segmentation is drawn: source, target, or both, as far as
    their tokenizers are those of ``bpe_dropout`` and ``unigram_alpha``."""

    source_noise: NoiseSettings = field(default_factory=NoiseSettings)
    """Changes of source texts in training: capitals, missing punctuation, typos."""

    schedule: ScheduleName = "paper"
    """paper: Equation 3, inverse square root decay; linear, or cosine (Loshchilov and
    Hutter 2017): decay to 0 after the last step, by ``steps`` or ``epochs``; constant.
    All with a linear warm-up."""

    learning_rate: float | None = None
    """Peak learning rate; not set: that of Equation 3 for d_model and warm-up."""

    warmup_steps: int = 4000
    """Steps during which the learning rate rises."""

    cooldown: float | None = None
    """Part of training, at its end, over which the learning rate falls to 0 (1 - sqrt,
    Hägele et al. 2024). Not set: 0.2 with a time limit or ``on_plateau = "cooldown"``,
    else 0, as in the paper. Linear and cosine schedules, which fall to 0 by themselves,
    have one only where time ends them first."""

    optimizer: OptimizerName = "adam"
    """adam: the paper's; muon: momentum, orthogonalized (Jordan et al. 2024), for the
    matrices of attention and feed-forward layers, and Adam for all other weights."""

    weight_decay: float = 0.0
    """Decoupled weight decay of matrices (AdamW, Loshchilov and Hutter 2019): each step
    takes this times the learning rate off them. 0, as in the paper: none."""

    adam_beta1: float = 0.9
    """Decay of Adam's first moment (β₁)."""

    adam_beta2: float = 0.98
    """Decay of Adam's second moment (β₂)."""

    adam_epsilon: float = 1e-9
    """Adam's term in the denominator (ε)."""

    clip_norm: float | None = None
    """Maximum L2 norm of the gradient (clipping); not set, as in the paper: none."""

    precision: Precision = "auto"
    """Dtype of matrix products: float32, bf16 (mixed precision: weights stay float32),
    or auto: bf16 on a GPU and on a CPU where it was measured to be faster (AMX),
    float32 elsewhere."""

    backend: Backend = "auto"
    """Training backend. auto: native on a CPU where it was measured to be faster, else
    torch; native: kernels in C, on a CPU; torch: PyTorch, fused; reference: as in the
    paper, several times slower; torch_compile: torch.compile with sequence packing and
    static shapes, for a GPU."""

    processes: int | None = None
    """Data-parallel workers on a CPU, which split each batch and the cores; not set: 1
    where the native backend trains, whose threads split it, or ``torchrun`` starts
    several ranks; else as many as there are threads and thousands of batch_tokens, up
    to 4."""

    activation_checkpointing: bool = False
    """Recompute the activations inside a block during the backward pass: a third more
    work for a fraction of the memory."""

    devices: Devices = "replicate"
    """replicate: each rank holds a copy of the model (data parallel); shard: a shard of
    weights, gradients and Adam's moments (FSDP2), for a model that does not fit."""

    data_workers: int = 0
    """Threads that prefetch batches; 0: load each batch when it is needed."""

    not_finite: NotFinite = "stop"
    """What to do about a NaN or infinite loss or gradient: stop the run, or skip the
    update with a message."""

    ema_decay: float | None = None
    """Decay of an exponential moving average (EMA) of the weights (Polyak and Juditsky
    1992), which is then validated and stored as the best model. Not set: no EMA."""

    validate_every: int = 1000
    """Steps from one validation, and checkpoint, to the next."""

    measure: str = "bleu"
    """Measure that decides which model is best: loss, or a metric of the task.
    translation: bleu, chrf, ter, exact-match, word-error-rate or token-error-rate;
    classification: accuracy or macro-f1; regression: rmse or pearson; tagging:
    tag-accuracy or exact-match; parsing: bracket-f1 or complete-match; language_model
    and masked_language_model: the loss alone."""

    validation_pairs: int = 1000
    """Maximum number of held-out pairs of which a validation scores the outputs."""

    patience: int | None = None
    """Validations without improvement that end training (early stopping); not set:
    never."""

    on_plateau: OnPlateau = "stop"
    """What to do once ``patience`` is exhausted: stop at once, or bring the learning
    rate down first, by a cooldown that is the part ``cooldown`` of the training that
    ends with it."""

    average_last: int = 5
    """Last checkpoints whose average is tried as the best model (Section 6.1);
    1: none."""

    RENAMED: ClassVar[Mapping[str, Renamed]] = {
        "kernels": Renamed(
            "backend",
            {
                "fast": "auto",
                "eager": "torch",
                "readable": "reference",
                "compiled": "torch_compile",
            },
        )
    }

    def __post_init__(self) -> None:
        problems = [*self._counts(), *self._numbers(), *self._choices()]
        problems += combination_problems(self)
        if not problems and self.objective == "sum" and self.label_smoothing:
            problems.append(
                "objective = 'sum' is the plain sum of -ln p; "
                "set label_smoothing = 0.0 with it"
            )
        if problems:
            raise SettingsError(problems)

    @property
    def num_steps(self) -> int:
        """Maximum number of steps, once :func:`epochs_to_steps` has counted epochs."""
        assert self.steps is not None, "epochs are still to be counted"
        return self.steps

    @property
    def num_passes(self) -> int:
        """How often each example of a batch goes through the model."""
        return 2 if self.r_drop or self.simcut else 1

    @property
    def has_divergence(self) -> bool:
        """Whether a divergence between distributions is part of the loss."""
        return self.num_passes > 1 or bool(self.teacher)

    @property
    def example_tokens(self) -> int:
        """Maximum target tokens of the examples of a batch, each counted once."""
        return max(1, self.batch_tokens // self.num_passes)

    @property
    def keep_checkpoints(self) -> int:
        """Number of checkpoints kept on disk: enough to average, at least 2."""
        return max(2, self.average_last)

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value of ``measure`` is better."""
        return self.measure in LOWER_IS_BETTER

    @property
    def falls_to_zero(self) -> bool:
        """Whether the schedule is 0 after the last step, so that it cannot go on."""
        return self.schedule in FALLING_SCHEDULES

    @property
    def draws_texts(self) -> bool:
        """Whether each epoch sees other segmentations or noise in the texts."""
        samples = self.bpe_dropout > 0 or self.unigram_alpha is not None
        return samples or self.source_noise.is_active

    def segmentation_rates(
        self, source_kind: str, target_kind: str
    ) -> tuple[float | None, float | None]:
        """Return what each side of these tokenizers is sampled with; None: nothing."""
        rates = {"bpe": self.bpe_dropout or None, "unigram": self.unigram_alpha}
        source, target = rates.get(source_kind), rates.get(target_kind)
        return (
            None if self.sampled_sides == "target" else source,
            None if self.sampled_sides == "source" else target,
        )

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
            f"{name} must be 0 or more and finite, not {getattr(self, name)}"
            for name in ("r_drop", "simcut", "weight_decay")
            if not 0 <= getattr(self, name) < math.inf
        ]
        if self.weight_decay * (self.learning_rate or 0.0) >= 1:
            problems.append(
                f"weight_decay times learning_rate must be less than 1, not "
                f"{self.weight_decay} * {self.learning_rate}: an update would take off "
                "the whole of each weight"
            )
        if not 0 < self.simcut_rate < 1:
            problems.append(
                f"simcut_rate must be more than 0 and less than 1, not "
                f"{self.simcut_rate}"
            )
        problems += [
            f"{name} must be 0 or more and less than 1, not {getattr(self, name)}"
            for name in (
                *("label_smoothing", "word_dropout", "cooldown"),
                *("adam_beta1", "adam_beta2", "ema_decay"),
            )
            if getattr(self, name) is not None and not 0 <= getattr(self, name) < 1
        ]
        if not 0 < self.teacher_weight <= 1:
            problems.append(
                f"teacher_weight must be more than 0 and at most 1, not "
                f"{self.teacher_weight}"
            )
        if not 0 <= self.bpe_dropout <= 1:
            problems.append(f"bpe_dropout must be from 0 to 1, not {self.bpe_dropout}")
        if self.unigram_alpha is not None and not 0 <= self.unigram_alpha < math.inf:
            problems.append(
                f"unigram_alpha must be 0 or more and finite, not {self.unigram_alpha}"
            )
        return problems

    def _choices(self) -> list[str]:
        choices = {
            "objective": get_args(Objective),
            "optimizer": get_args(OptimizerName),
            "schedule": get_args(ScheduleName),
            "sampled_sides": get_args(SampledSides),
            "precision": get_args(Precision),
            "backend": get_args(Backend),
            "not_finite": get_args(NotFinite),
            "on_plateau": get_args(OnPlateau),
            "devices": get_args(Devices),
            "measure": MEASURES,
        }
        return [
            f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}"
            for name, known in choices.items()
            if getattr(self, name) not in known
        ]
