"""What the specs of tasks with an encoder alone share; nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from headwise.errors import SettingsError
from headwise.model.config import Stack, TransformerConfig
from headwise.tasks.spec import CROSS_ENTROPY, stack_problems
from headwise.text.settings import TextSettings

if TYPE_CHECKING:
    from headwise.consistency import TwoPassLoss

Pooling = Literal["first", "mean", "context"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolingSettings:
    """How one vector of a text is made of those of its tokens."""

    pooling: Pooling = "mean"
    """first: the vector of the start token, as BERT's [CLS]; mean: of all tokens;
    context: a weighted mean, with weights by a trained context vector."""

    tanh_layer: bool = False
    """BERT's linear layer with tanh between pooling and the output."""

    def __post_init__(self) -> None:
        if self.pooling not in get_args(Pooling):
            raise SettingsError(
                [
                    f"pooling must be one of {', '.join(get_args(Pooling))}, not "
                    f"{self.pooling!r}"
                ]
            )


class EncoderSpec:
    """Base class of specs whose model is an encoder with a head.

    ``target_tokenizer`` is the only one that suits the target side; the first of
    ``measures`` is the default.
    """

    name: ClassVar[str]
    target_tokenizer: ClassVar[str]
    measures: ClassVar[tuple[str, ...]]

    stacks: tuple[Stack, ...] = ("encoder",)
    loss_name = CROSS_ENTROPY
    command = "predict"
    searches = False
    has_two_pass_loss = False

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Settings that differ from those of presets."""
        return {
            "text": {"joint": False, "target_tokenizer": self.target_tokenizer},
            "model": {"decoder_layers": 0},
            "training": {"measure": self.measures[0]},
        }

    @property
    def final_measures(self) -> tuple[str, ...]:
        """Metrics that are reported at the end of ``headwise run``: all."""
        return self.measures

    def problems(self, config: TransformerConfig, text: TextSettings) -> list[str]:
        """Return the problems of settings that do not suit the task."""
        problems = stack_problems(config, self.stacks)
        if text.joint or text.target_kind != self.target_tokenizer:
            problems.append(
                f"task = {self.name!r} needs text.joint = false and "
                f"text.target_tokenizer = {self.target_tokenizer!r}, which are its "
                "defaults: leave both out"
            )
        return problems

    def two_pass_loss(self) -> Callable[..., TwoPassLoss] | None:
        """Return None: there is no loss of two passes."""
        return None
