"""What memory there is, and how much of it was held at most.

On a CPU that is the resident memory of this process, all of it: the libraries too. On a
GPU it is what tensors take there.
"""

from __future__ import annotations

import gc
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Protocol

import torch

from headwise.training.allocator import give_back_freed_memory


class Gauge(Protocol):
    """Measures memory, in bytes."""

    def start(self) -> None:
        """Give back what is not in use, and begin to look for a peak."""

    def held(self) -> int:
        """Return what is held now."""

    def peak(self) -> int:
        """Return the most that was held since the start."""

    def free(self) -> int | None:
        """Return how much more may be held; None where the system does not say."""


class ProcessGauge:
    """The memory of this process, as Linux accounts for it."""

    def __init__(
        self, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
    ) -> None:
        self._proc = proc
        self._cgroups = cgroups
        self._began_anew = False

    def start(self) -> None:
        """Forget the peak so far, where the system allows that."""
        gc.collect()
        give_back_freed_memory()
        self._began_anew = False
        with suppress(OSError):
            (self._proc / "self" / "clear_refs").write_text("5")
            self._began_anew = True

    def held(self) -> int:
        """Return the resident memory; where nobody says, the most there ever was."""
        found = _sizes(self._proc / "self" / "status").get("VmRSS")
        return _largest_ever() if found is None else found

    def held_alone(self) -> int:
        """Return the resident memory that no other process of ours holds as well.

        Left out are what is set aside for several, and libraries: they are the same
        files in each process, and lie in memory once.
        """
        sizes = _sizes(self._proc / "self" / "status")
        shared = sizes.get("RssShmem", 0) + sizes.get("RssFile", 0)
        return max(0, self.held() - shared)

    def peak(self) -> int:
        """Return the peak since the start.

        Where an older peak could not be forgotten, this is what is held now: as freed
        memory is kept while a model trains, that is hardly less.
        """
        found = _sizes(self._proc / "self" / "status").get("VmHWM")
        return self.held() if found is None or not self._began_anew else found

    def free(self) -> int | None:
        """Return what the system has to give, or a control group, if that is less."""
        available = _sizes(self._proc / "meminfo").get("MemAvailable")
        if available is None:
            return None
        return max(0, min([available, *self._left_by_groups()]))

    def _left_by_groups(self) -> Iterator[int]:
        """Yield what is left of each limit on this process."""
        for folder, limit, usage, unused in self._groups():
            try:
                most = int(_text(folder / limit))
                used = int(_text(folder / usage))
            except ValueError:  # "max", or no such file
                continue
            stat = dict(
                re.findall(r"^(\w+) (\d+)$", _text(folder / "memory.stat"), re.M)
            )
            yield most - used + int(stat.get(unused, 0))

    def _groups(self) -> Iterator[tuple[Path, str, str, str]]:
        """Yield the folders that may limit us, with the names of files in them.

        A container may see its own group at the root, so that is looked at as well.
        """
        for line in _text(self._proc / "self" / "cgroup").splitlines():
            _, controllers, name = line.split(":", 2)
            inner = PurePosixPath(name.lstrip("/"))
            for place in (inner, *inner.parents):
                if not controllers:
                    yield self._cgroups / place, *_VERSION_2
                elif "memory" in controllers.split(","):
                    yield self._cgroups / "memory" / place, *_VERSION_1


_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
"""Where control groups say: limit, usage, and in memory.stat what they could drop."""


class GpuGauge:
    """The memory of tensors on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def start(self) -> None:
        """Give back what is not in use, and begin to look for a peak."""
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self._device)

    def held(self) -> int:
        """Return what tensors take now."""
        return torch.cuda.memory_allocated(self._device)

    def peak(self) -> int:
        """Return the most that tensors took since the start."""
        return torch.cuda.max_memory_allocated(self._device)

    def free(self) -> int | None:
        """Return what is free on the GPU, and what torch keeps there unused."""
        free, _ = torch.cuda.mem_get_info(self._device)
        unused = torch.cuda.memory_reserved(self._device) - self.held()
        return int(free) + unused


def gauge_of(device: torch.device) -> Gauge:
    """Return what measures the memory of a model on ``device``."""
    return GpuGauge(device) if device.type == "cuda" else ProcessGauge()


def _sizes(path: Path) -> dict[str, int]:
    """Read lines such as ``VmRSS:  1234 kB``."""
    found = re.findall(r"^(\w+):\s+(\d+) kB$", _text(path), re.M)
    return {name: 1024 * int(size) for name, size in found}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _largest_ever() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest
