"""Which builds of the native library there are, and which of them this processor runs.

``hatch_build.py`` compiles them. Linux reports in ``/proc/cpuinfo`` what the processor
has and the operating system saves at a change of context; both must allow it.
"""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_X86 = ("x86_64", "AMD64")
_ARM = ("aarch64", "arm64")

_V3 = frozenset(("avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"))
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_V4_BF16 = _V4 | {"avx512_bf16"}


@dataclass(frozen=True, slots=True)
class Variant:
    """A build of the native library for one kind of processor."""

    name: str
    """As in its file name and in ``HEADWISE_NATIVE``."""

    vectors: str
    """The common name of its instruction set."""

    machines: tuple[str, ...]
    """As ``platform.machine`` names them."""

    features: frozenset[str] = frozenset()
    """What the processor must have, in the words of ``/proc/cpuinfo``."""


VARIANTS = (
    Variant("amx", "AMX", _X86, _V4_BF16 | {"amx_tile", "amx_bf16"}),
    Variant("v4-bf16", "AVX-512 BF16", _X86, _V4_BF16),
    Variant("v4", "AVX-512", _X86, _V4),
    Variant("v3", "AVX2", _X86, _V3),
    Variant("neon", "NEON", _ARM),
)
"""The fastest first. v3 and v4 are levels of the x86-64 architecture; v4-bf16 has dot
products of bfloat16 pairs, and is the same as v4 in float32."""


def usable() -> tuple[Variant, ...]:
    """Return the variants that this processor can run, the fastest first."""
    return tuple(
        each
        for each in VARIANTS
        if platform.machine() in each.machines and not missing_features(each)
    )


def missing_features(variant: Variant) -> list[str]:
    """Return the features of ``variant`` that this processor does not have."""
    return sorted(variant.features - cpu_features()) if variant.features else []


@cache
def cpu_features() -> frozenset[str]:
    """Return the instruction set extensions of this processor, in lower case.

    Empty where the system does not tell.
    """
    if platform.system() == "Darwin":
        names = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
        command = ["sysctl", "-n", *names]
        try:
            said = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return frozenset()
        return frozenset(said.stdout.lower().split())
    return frozenset(_cpuinfo("flags", "Features").split())


@cache
def cpu_vendor() -> str:
    """Return the vendor as the processor names it, such as ``AuthenticAMD``.

    Empty where the system does not tell.
    """
    return _cpuinfo("vendor_id")


def _cpuinfo(*names: str) -> str:
    """Return the first value in ``/proc/cpuinfo`` under one of ``names``, or ""."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    found = next((line for line in lines if line.startswith(names)), "")
    return found.partition(":")[2].strip()
