"""Available and peak memory, in bytes.

On a CPU: the resident set size (RSS) of this process, libraries included. On a GPU: the
memory of tensors on the device.
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


class MemoryUsage(Protocol):
    """Memory that is used, was used at most, and is free, in bytes."""

    def reset_peak(self) -> None:
        """Release unused memory, and measure the peak from now on."""

    def used(self) -> int:
        """Return the memory in use."""

    def peak(self) -> int:
        """Return the peak since :meth:`reset_peak`."""

    def free(self) -> int | None:
        """Return how much more can be allocated; None where the system does not say."""


class ProcessMemory:
    """The resident memory (RSS) of this process, as Linux accounts for it."""

    def __init__(
        self, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
    ) -> None:
        self._proc = proc
        self._cgroups = cgroups
        self._peak_was_reset = False

    def reset_peak(self) -> None:
        """Release unused memory, and reset the peak where the system allows that."""
        gc.collect()
        give_back_freed_memory()
        self._peak_was_reset = False
        with suppress(OSError):
            (self._proc / "self" / "clear_refs").write_text("5")
            self._peak_was_reset = True

    def used(self) -> int:
        """Return the RSS; where the system does not say, the largest RSS ever."""
        found = _sizes(self._proc / "self" / "status").get("VmRSS")
        return _max_rss() if found is None else found

    def private(self) -> int:
        """Return the RSS without shared memory and mapped files.

        Libraries are the same files in each of our processes, and in memory once.
        """
        sizes = _sizes(self._proc / "self" / "status")
        shared = sizes.get("RssShmem", 0) + sizes.get("RssFile", 0)
        return max(0, self.used() - shared)

    def peak(self) -> int:
        """Return the peak RSS since :meth:`reset_peak`.

        Where the system cannot reset a peak, this is the RSS: during training freed
        memory is kept, so that is hardly less.
        """
        found = _sizes(self._proc / "self" / "status").get("VmHWM")
        return self.used() if found is None or not self._peak_was_reset else found

    def free(self) -> int | None:
        """Return the available memory of the system, or of a cgroup if that is less."""
        available = _sizes(self._proc / "meminfo").get("MemAvailable")
        if available is None:
            return None
        return max(0, min([available, *self._free_by_cgroups()]))

    def _free_by_cgroups(self) -> Iterator[int]:
        """Yield what each cgroup limit leaves to this process."""
        for folder, limit, usage, unused in self._cgroup_files():
            try:
                most = int(_text(folder / limit))
                used = int(_text(folder / usage))
            except ValueError:  # "max", or no such file
                continue
            stat = dict(
                re.findall(r"^(\w+) (\d+)$", _text(folder / "memory.stat"), re.M)
            )
            yield most - used + int(stat.get(unused, 0))

    def _cgroup_files(self) -> Iterator[tuple[Path, str, str, str]]:
        """Yield (folder, limit, usage, droppable) of each cgroup that may limit us.

        A container may see its own cgroup at the root, so all parents are included.
        """
        for line in _text(self._proc / "self" / "cgroup").splitlines():
            _, controllers, name = line.split(":", 2)
            inner = PurePosixPath(name.lstrip("/"))
            for place in (inner, *inner.parents):
                if not controllers:
                    yield self._cgroups / place, *_CGROUP_V2
                elif "memory" in controllers.split(","):
                    yield self._cgroups / "memory" / place, *_CGROUP_V1


_CGROUP_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_CGROUP_V2 = ("memory.max", "memory.current", "inactive_file")
"""Files with limit and usage, and the key in ``memory.stat`` of droppable cache."""


class GpuMemory:
    """The memory of tensors on one GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset_peak(self) -> None:
        """Empty torch's cache, and measure the peak from now on."""
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self._device)

    def used(self) -> int:
        """Return the memory of tensors."""
        return torch.cuda.memory_allocated(self._device)

    def peak(self) -> int:
        """Return the peak memory of tensors since :meth:`reset_peak`."""
        return torch.cuda.max_memory_allocated(self._device)

    def free(self) -> int | None:
        """Return what is free on the GPU, with what torch caches there unused."""
        free, _ = torch.cuda.mem_get_info(self._device)
        unused = torch.cuda.memory_reserved(self._device) - self.used()
        return int(free) + unused


def memory_usage_of(device: torch.device) -> MemoryUsage:
    """Return the memory usage of ``device``: of a GPU, or else of this process."""
    return GpuMemory(device) if device.type == "cuda" else ProcessMemory()


def _sizes(path: Path) -> dict[str, int]:
    """Return name -> bytes from lines such as ``VmRSS:  1234 kB``."""
    found = re.findall(r"^(\w+):\s+(\d+) kB$", _text(path), re.M)
    return {name: 1024 * int(size) for name, size in found}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _max_rss() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest
