"""Adam as the paper sets it (Section 5.3), with a state that is plain tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from headwise.errors import ModelError
from headwise.training.settings import TrainingSettings

MOMENTS = ("exp_avg", "exp_avg_sq")
UPDATES = "updates"


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Adam:
    """Make Adam for all weights of ``model``."""
    return torch.optim.Adam(
        model.parameters(),
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        fused=True,
    )


def optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Adam, step: int
) -> dict[str, Tensor]:
    """Return both moments of each weight under its name, and the number of updates."""
    tensors = {UPDATES: torch.tensor(step)}
    for name, parameter in model.named_parameters():
        for moment in MOMENTS:
            if parameter in optimizer.state:
                tensors[f"{name}.{moment}"] = optimizer.state[parameter][moment]
    return tensors


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Adam, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what :func:`optimizer_tensors` returned."""
    if UPDATES not in tensors:
        raise ModelError(
            f"the optimizer state does not say after how many {UPDATES} it was saved; "
            "it is not whole"
        )
    for name, parameter in model.named_parameters():
        found = [tensors.get(f"{name}.{moment}") for moment in MOMENTS]
        if any(each is None or each.shape != parameter.shape for each in found):
            raise ModelError(
                f"the optimizer state does not fit the model at {name}; it was "
                "saved for another architecture"
            )
        optimizer.state[parameter] = {
            "step": tensors[UPDATES].to(torch.float32).to(parameter.device).clone(),
            **{
                moment: tensors[f"{name}.{moment}"].to(parameter.device).clone()
                for moment in MOMENTS
            },
        }
