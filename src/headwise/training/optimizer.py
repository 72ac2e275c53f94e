"""Adam with the paper's settings (Section 5.3); its state as plain tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from headwise.errors import ModelError
from headwise.training.fsdp import shard_like
from headwise.training.settings import TrainingSettings
from headwise.training.step_result import PendingStep

MOMENTS = ("exp_avg", "exp_avg_sq")
UPDATES = "updates"


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Adam:
    """Return a fused Adam for all weights of ``model``."""
    return torch.optim.Adam(
        model.parameters(),
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        fused=True,
    )


def apply_update(optimizer: torch.optim.Adam, update: PendingStep) -> None:
    """Apply the gradients to the weights, unless a number is not finite."""
    for group in optimizer.param_groups:
        group["lr"] = update.learning_rate
    # As torch's GradScaler does: 1 on the device makes fused Adam skip the step.
    optimizer.found_inf = update.found_inf()  # type: ignore[attr-defined]
    optimizer.step()
    # Fused Adam does not, so that copies of the weights would pass for current.
    for group in optimizer.param_groups:
        increment_version(group["params"])


def optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Adam
) -> dict[str, Tensor]:
    """Return both moments of each weight under its name, and the number of updates.

    Skipped updates do not count: Adam's bias correction depends on the number.
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
    """Load what :func:`optimizer_tensors` returned; raise ``ModelError`` if amiss."""
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
                moment: shard_like(tensors[f"{name}.{moment}"], parameter)
                for moment in MOMENTS
            },
        }
