"""What is known of a task without torch: its data, its defaults, how to open it.

``headwise.tasks.TASKS`` lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headwise.data.pair_formats import PairFormat
from headwise.model.config import ModelKind, Stack, TransformerConfig
from headwise.tasks.description import ModelDescription
from headwise.text.settings import TextSettings

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.consistency import TwoPassLoss
    from headwise.model.sequence_model import SequenceModel
    from headwise.tasks.task import Task
    from headwise.text.tokenizer import TokenizerPair


CROSS_ENTROPY = "cross-entropy in nats per target token"
"""What the loss of most tasks is."""

Shapes = Mapping[str, Sequence[int]]
"""Name of a weight -> its shape."""


class TaskSpec(Protocol):
    """One use of the model."""

    @property
    def name(self) -> str:
        """Name in recipes and on the command line."""
        ...

    @property
    def summary(self) -> str:
        """What goes in and what comes out, in a few words."""
        ...

    @property
    def loss_name(self) -> str:
        """What its loss is, in a few words."""
        ...

    @property
    def command(self) -> str:
        """Command of headwise that runs its models."""
        ...

    @property
    def hub_task(self) -> str:
        """Name of the task on model hubs."""
        ...

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The stacks that its model has."""
        ...

    @property
    def pair_format(self) -> PairFormat:
        """What the two sides of its data are."""
        ...

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Settings, as a table of a recipe, that differ from those of presets."""
        ...

    @property
    def measures(self) -> tuple[str, ...]:
        """Metrics of its outputs, the default first; the loss is one for all tasks."""
        ...

    @property
    def final_measures(self) -> tuple[str, ...]:
        """Metrics that are reported at the end of ``headwise run``."""
        ...

    @property
    def options(self) -> type | None:
        """Dataclass of its own settings: the table of its name in a recipe."""
        ...

    def problems(self, config: TransformerConfig, text: TextSettings) -> Sequence[str]:
        """Return the problems of settings that do not suit the task."""
        ...

    @property
    def searches(self) -> bool:
        """Whether outputs are searched for, so that there are decoding settings."""
        ...

    def open(
        self,
        tokenizers: TokenizerPair,
        options: Any,
        *,
        deterministic: bool = False,
        max_tokens: int | None = None,
    ) -> Task:
        """Return the task, which needs torch.

        With ``deterministic`` each text is computed by itself. ``max_tokens`` is the
        longest text that the model was trained on.
        """
        ...

    def build(self, description: ModelDescription, *, seed: int) -> SequenceModel:
        """Return a model with weights drawn from ``seed``."""
        ...

    def vocab_sizes(self, shapes: Shapes) -> tuple[int, int] | None:
        """Return the sizes of both vocabularies by the shapes of a model's weights.

        None if the weights are not of such a model.
        """
        ...

    def loss(self) -> Callable[..., Tensor]:
        """Return the loss function of the task: see ``Task.loss``."""
        ...

    @property
    def has_two_pass_loss(self) -> bool:
        """Whether it has a loss of two passes, as R-Drop and SimCut need it."""
        ...

    def two_pass_loss(self) -> Callable[..., TwoPassLoss] | None:
        """Return ``Task.two_pass_loss``, or None if the task has none."""
        ...


def stack_problems(
    config: TransformerConfig,
    stacks: Sequence[Stack],
    kinds: Sequence[ModelKind] = ("transformer",),
) -> list[str]:
    """Return the problems of a configuration for a model of these stacks and kinds."""
    return [f"model.{each}" for each in config.stack_problems(*stacks, kinds=kinds)]


def one_vocabulary_problems(text: TextSettings, task: str) -> list[str]:
    """Return the problem of settings with two vocabularies, for text alone."""
    if text.joint:
        return []
    return [f"text.joint must be true for task = {task!r}, which has one vocabulary"]
