"""Steps of the native decoders for searches in PyTorch: tensors in, tensors out.

Letters used for sizes in this file:

    B  rows, one a hypothesis          V  vocabulary
    K  tokens kept for each row        T  steps
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.backends.api import WeightVersions
from headwise.backends.native.kv_cache import NativeState
from headwise.backends.native.stack_modules import NativeModel
from headwise.backends.native.steps import NativeSteps
from headwise.model.sequence_model import SequenceModel


class TensorSteps:
    """The steps of a model in memory; tensors share the memory of the arrays."""

    def __init__(self, model: NativeModel, steps: NativeSteps) -> None:
        self.steps = steps
        self._versions = WeightVersions(model)

    def is_current(self, model: SequenceModel) -> bool:
        """Tell whether the copies are of ``model``'s weights as they are now."""
        return self._versions.are_of(model)

    def step(
        self, tokens: Int[Tensor, " B"], state: NativeState
    ) -> tuple[Float[Tensor, "B V"], NativeState]:
        """Append one token to every row; return the scores of the next one."""
        scores, newer = self.steps.scores(tokens.numpy(), state)
        return torch.from_numpy(scores), newer

    def step_topk(
        self,
        tokens: Int[Tensor, " B"],
        state: NativeState,
        k: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"], NativeState]:
        """Append one token to every row; return ln p and tokens of the ``k`` best."""
        log_p, found, newer = self.steps.topk(tokens.numpy(), state, k, forbidden)
        return torch.from_numpy(log_p), torch.from_numpy(found), newer

    def decode_greedily(
        self,
        tokens: Int[Tensor, " B"],
        state: NativeState,
        *,
        max_steps: int,
        end: int,
        stop_at_finished: int,
        forbidden: tuple[int, ...],
    ) -> tuple[Float[Tensor, "T B"], Int[Tensor, "T B"], NativeState]:
        """Decode greedily for several steps; return ln p and tokens of each."""
        log_p, found, newer = self.steps.greedy(
            tokens.numpy(),
            state,
            max_steps=max_steps,
            end=end,
            stop_at_finished=stop_at_finished,
            forbidden=forbidden,
        )
        return torch.from_numpy(log_p), torch.from_numpy(found), newer
