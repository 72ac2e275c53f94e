"""Peak memory of a layer: bytes that torch allocates, not those of the process."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile

ALLOCATION = "[memory]"
"""The profiler's name for an allocation, and with a negative size for a release."""


def peak_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return the most bytes held at once during a forward pass, with its output.

    Input and weights are not counted. Every allocation of torch's allocator is, those
    inside of a kernel too, so the same call always gives the same number.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it writes to standard error
    with torch.inference_mode():
        layer(x)  # what is prepared in a first call is none of this one's
        with profile(profile_memory=True) as profiler:
            output = layer(x)
    results = profiler.kineto_results
    if results is None:
        raise RuntimeError("torch's profiler gave no result")
    events = [each for each in results.events() if each.name() == ALLOCATION]
    held = peak = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    del output
    return peak
