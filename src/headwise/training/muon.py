"""Muon: momentum, orthogonalized, for the matrices inside a model (Jordan et al. 2024).

As ``torch.optim.Muon`` with ``adjust_lr_fn="match_rms_adamw"``, but for all matrices of
a shape together, and in float32 on a CPU without instructions for bfloat16, where
products of small matrices would take 40 times as long in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from headwise.backends.native.cpu_variants import cpu_features
from headwise.openmp import torch_in_all_threads

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial of Newton–Schulz: they bring singular values near 1 soonest."""

ITERATIONS = 5
RMS = 0.2
"""Root mean square of an update at a learning rate of 1, about as of Adam (Liu et al.
2025, "Muon is Scalable for LLM Training"), so that both have the same learning rate."""


class Muon(torch.optim.Optimizer):
    """Update matrices by their momentum, with all singular values brought near 1."""

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        *,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        lr: float = 1e-3,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(matrices, defaults)

    @torch.no_grad()
    def step(  # type: ignore[override]
        self,
        closure: Callable[[], Any] | None = None,
        *,
        found_inf: Tensor | None = None,
    ) -> None:
        """Update all matrices that have a gradient, unless ``found_inf`` is 1.

        It is a flag on the device, which is not waited for: then momenta may be NaN.
        """
        assert closure is None, "no line search"
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape[matrix.shape].append(matrix)
            for shape, matrices in by_shape.items():
                momenta = torch.stack(self._momenta(matrices, group["momentum"]))
                with torch_in_all_threads():
                    updates = orthogonalized(momenta, fastest_dtype(momenta.device))
                rate = group["lr"] * RMS * max(shape) ** 0.5
                decay = group["lr"] * group["weight_decay"]
                if found_inf is None:
                    torch._foreach_mul_(matrices, 1 - decay)
                else:
                    updates = torch.where(found_inf > 0, 0.0, updates)
                    torch._foreach_mul_(matrices, 1 - decay * (1 - found_inf))
                torch._foreach_add_(matrices, updates.unbind(), alpha=-rate)

    def _momenta(self, matrices: list[Tensor], momentum: float) -> list[Tensor]:
        """Update the means of the gradients; return Nesterov's estimates of the next.

        All matrices in one call: on a GPU they are one kernel.
        """
        gradients = [x.grad for x in matrices if x.grad is not None]
        for matrix, gradient in zip(matrices, gradients, strict=True):
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(gradient)
        means = [self.state[x]["momentum_buffer"] for x in matrices]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        return [*torch._foreach_lerp(gradients, means, momentum)]


def fastest_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype in which a device multiplies fastest."""
    has_bf16 = device.type == "cuda" or "avx512_bf16" in cpu_features()
    return torch.bfloat16 if has_bf16 else torch.float32


def orthogonalized(matrices: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return ``matrices`` [N R C] with singular values between about 0.7 and 1.2.

    Newton–Schulz: an odd polynomial of the matrix, five times, computed in ``dtype``.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = (matrices.mT if tall else matrices).to(dtype)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)
