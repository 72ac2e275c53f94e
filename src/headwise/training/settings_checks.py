"""Which settings of training go together.

``settings`` is a ``TrainingSettings``, whose module imports this one.
"""

from __future__ import annotations

from typing import Any


def combination_problems(settings: Any) -> list[str]:
    """Return the problems of settings that do not go together."""
    problems = _conflicts_with_torch_compile(settings)
    if settings.r_drop and settings.simcut:
        problems.append(
            f"r_drop = {settings.r_drop} and simcut = {settings.simcut} exclude each "
            "other: leave one of them out"
        )
    if settings.optimizer == "muon" and settings.devices == "shard":
        problems.append(
            "optimizer = 'muon' needs whole matrices, and devices = 'shard' holds "
            "parts of them; 'replicate' has them"
        )
    if settings.teacher:
        problems += _teacher_problems(settings)
    if settings.on_plateau == "cooldown":
        problems += _plateau_problems(settings)
    return problems


def _teacher_problems(settings: Any) -> list[str]:
    """Return the problems of settings that exclude teachers."""
    reasons = {
        "backend = 'native'": (
            settings.backend == "native",
            "C kernels do not return the distribution of each token; 'auto' and "
            "'torch' train by PyTorch",
        ),
        "backend = 'torch_compile'": (
            settings.backend == "torch_compile",
            "teachers read no packed batches; 'auto' and 'torch' do not pack",
        ),
        "devices = 'shard'": (
            settings.devices == "shard",
            "each rank runs whole teachers; 'replicate' does so with the model too",
        ),
        f"processes = {settings.processes}": (
            settings.processes not in (None, 1),
            "teachers run in the main process, with all its threads; leave it out",
        ),
        f"r_drop = {settings.r_drop}": (
            settings.r_drop > 0,
            "its loss is of two passes; leave one of them out",
        ),
        f"simcut = {settings.simcut}": (
            settings.simcut > 0,
            "its loss is of two passes; leave one of them out",
        ),
    }
    return [
        f"teacher and {name} exclude each other: {reason}"
        for name, (is_set, reason) in reasons.items()
        if is_set
    ]


def _plateau_problems(settings: Any) -> list[str]:
    """Return what keeps a plateau from beginning a cooldown."""
    problems = []
    if settings.patience is None:
        problems.append(
            "on_plateau = 'cooldown' waits for patience to be exhausted, which is not "
            "set: set patience, such as 5"
        )
    if settings.cooldown == 0:
        problems.append(
            "on_plateau = 'cooldown' needs a cooldown, and cooldown = 0 is none: leave "
            "cooldown out (0.2), or set it"
        )
    if settings.falls_to_zero:
        problems.append(
            f"on_plateau = 'cooldown' is for schedules that do not end: "
            f"{settings.schedule!r} falls to 0 by itself; 'paper' and 'constant' do not"
        )
    return problems


def _conflicts_with_torch_compile(settings: Any) -> list[str]:
    """Return the problems of settings that torch.compile excludes."""
    if settings.backend != "torch_compile":
        return []
    reasons = {
        "batch_pairs": "fills rows by tokens; leave it unset",
        "processes": "learns in one process; leave it unset",
        "devices": "needs all weights on each device; 'replicate' has them",
        "r_drop": "makes a single pass; 'auto' and 'torch' make two",
        "simcut": "makes a single pass; 'auto' and 'torch' make two",
    }
    allowed = {
        "processes": (None, 1),
        "devices": ("replicate",),
        "r_drop": (0,),
        "simcut": (0,),
    }
    return [
        f"{name} = {getattr(settings, name)!r}, but backend = 'torch_compile' {reason}"
        for name, reason in reasons.items()
        if getattr(settings, name) not in allowed.get(name, (None,))
    ]
