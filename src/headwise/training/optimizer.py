"""Adam as the paper sets it (Section 5.3), with a state that is plain tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from headwise.errors import ModelError
from headwise.training.settings import TrainingSettings
from headwise.training.sharding import sharded_like
from headwise.training.step_result import PendingStep

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


def follow(optimizer: torch.optim.Adam, update: PendingStep) -> None:
    """Let the weights follow the gradient, unless a number in it is not finite."""
    for group in optimizer.param_groups:
        group["lr"] = update.learning_rate
    # What torch calls so is 1 where a step is to be left out, as its loss scaler asks.
    optimizer.found_inf = update.found_inf()  # type: ignore[attr-defined]
    optimizer.step()


def optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Adam
) -> dict[str, Tensor]:
    """Return both moments of each weight under its name, and the number of updates.

    Updates that were skipped are not in that number, by which Adam corrects its means.
    """
    tensors = {UPDATES: torch.tensor(0)}
    for name, parameter in model.named_parameters():
        found = optimizer.state.get(parameter)
        if found:
            tensors[UPDATES] = found["step"].to(torch.int64).cpu()
            tensors |= {f"{name}.{moment}": found[moment] for moment in MOMENTS}
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
        if not tensors[UPDATES]:
            continue  # every update so far was skipped
        found = [tensors.get(f"{name}.{moment}") for moment in MOMENTS]
        if any(each is None or each.shape != parameter.shape for each in found):
            raise ModelError(
                f"the optimizer state does not fit the model at {name}; it was "
                "saved for another architecture"
            )
        optimizer.state[parameter] = {
            "step": tensors[UPDATES].to(torch.float32).to(parameter.device).clone(),
            **{
                moment: sharded_like(tensors[f"{name}.{moment}"], parameter)
                for moment in MOMENTS
            },
        }
