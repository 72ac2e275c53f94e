"""Count and measure every layer of Table 1, in sizes that a user may choose."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from headwise.complexity.counting import count_multiply_adds, longest_chain
from headwise.complexity.crossovers import (
    ATTENTION,
    PARTNERS,
    Crossover,
    find_crossover,
    predicted_length,
)
from headwise.complexity.layers import LAYERS, LayerKind
from headwise.complexity.memory import peak_bytes
from headwise.complexity.path_lengths import PATHS, path_length
from headwise.complexity.power_law import PowerLaw, fit_power_law
from headwise.complexity.sizes import ComplexitySettings, Size, Sizes
from headwise.complexity.timing import Timing, clock_of, measure

CROSSOVER_SHARE = 0.4
"""Part of the time for crossovers; the rest is for the exponents."""

CROSSOVER_WIDTHS = 4
"""The narrowest widths, whose crossovers are looked for."""

CHAIN_LENGTHS = (8, 16, 32)
CHAIN_WIDTH = 8
"""Sizes at which chains of operations are counted: any give the same formula."""

PATH_LENGTHS = (8, 16, 32, 64)
PATH_SIZES: Mapping[Size | None, int] = {None: 1, "kernel": 3, "window": 9}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One layer at one size."""

    sizes: Sizes
    multiply_adds: int
    counted: int | None
    """What torch counted; None where only the formula was asked."""

    seconds: float
    """Median of the samples, of one forward pass."""

    fastest: float
    samples: int
    peak_bytes: int


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """How cost grows with one size, the others being fixed."""

    size: Size
    multiply_adds: float
    """Of the formula at the same sizes."""

    time: PowerLaw
    memory: PowerLaw


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """What is known of one kind of layer."""

    name: str
    middle: Point
    """At the sizes that are fixed while another one varies."""

    points: list[Point]
    exponents: list[Exponent]
    chain: tuple[int, int]
    """(a, b): the longest chain has a n + b operations."""

    @property
    def kind(self) -> LayerKind:
        """The kind of layer."""
        return LAYERS[self.name]

    @property
    def operations_per_second(self) -> float:
        """Additions and multiplications of matrix products, at the middle sizes."""
        return 2 * self.middle.multiply_adds / self.middle.seconds

    def along(self, size: Size) -> list[Point]:
        """Return the points at which ``size`` varies, the smallest first."""
        fixed = replace(self.middle.sizes, **{size: 0})
        found = [p for p in self.points if replace(p.sizes, **{size: 0}) == fixed]
        return sorted(found, key=lambda each: getattr(each.sizes, size))


@dataclass(frozen=True, kw_only=True)
class PathLength:
    """The path length of one kind of network at one length."""

    name: str
    length: int
    size: int | None
    """k or r."""

    causal: bool
    formula: int | None
    measured: int | None


@dataclass(frozen=True, kw_only=True)
class Complexity:
    """Table 1, counted and measured."""

    settings: ComplexitySettings
    layers: list[LayerCost]
    paths: list[PathLength]
    crossovers: list[Crossover]
    clock: str
    machine: dict[str, str]
    measured_seconds: float


def measure_complexity(
    settings: ComplexitySettings, say: Callable[[str], None] = lambda text: None
) -> Complexity:
    """Count, measure and fit; takes about as long as ``settings.seconds`` says.

    ``say`` is called with what is being done. The number of threads of torch is set
    meanwhile.
    """
    began = time.monotonic()
    with _threads(settings.threads):
        say("counting multiply-adds, chains of operations and path lengths")
        paths = list(_path_lengths())
        cases = {
            (name, sizes): None
            for name, kind in LAYERS.items()
            for sizes in grid(kind, settings)
        }
        torch.manual_seed(1)
        inputs = _Inputs()
        layers = {(name, sizes): LAYERS[name].make(sizes) for name, sizes in cases}
        say(f"measuring the memory of {len(cases)} layers and sizes")
        memory = {
            case: peak_bytes(layer, inputs.of(case[1]))
            for case, layer in layers.items()
        }
        seconds = settings.seconds * (1 - CROSSOVER_SHARE)
        say(f"timing them in turn for {seconds:.0f} s")
        clock_name, clock = clock_of(settings.threads)
        calls = {
            case: partial(layer, inputs.of(case[1])) for case, layer in layers.items()
        }
        timings = measure(calls, seconds, clock)
        costs = [_layer_cost(name, settings, timings, memory) for name in LAYERS]
        crossovers = list(_crossovers(settings, clock, say))
    return Complexity(
        settings=settings,
        layers=costs,
        paths=paths,
        crossovers=crossovers,
        clock=clock_name,
        machine=describe_machine(),
        measured_seconds=time.monotonic() - began,
    )


def grid(kind: LayerKind, settings: ComplexitySettings) -> list[Sizes]:
    """Return the sizes at which a layer is measured: each varies by itself."""
    middle = settings.middle
    varied = [
        replace(middle, **{size: value})
        for size in kind.sizes
        for value in settings.values_of(size)
    ]
    return list(dict.fromkeys([middle, *varied]))


def _layer_cost(
    name: str,
    settings: ComplexitySettings,
    timings: Mapping[tuple[str, Sizes], Timing],
    memory: Mapping[tuple[str, Sizes], int],
) -> LayerCost:
    kind = LAYERS[name]
    points = []
    for sizes in grid(kind, settings):
        timing = timings[name, sizes]
        is_middle = sizes == settings.middle
        points.append(
            Point(
                sizes=sizes,
                multiply_adds=kind.multiply_adds(sizes),
                counted=counted_at(kind, sizes) if is_middle else None,
                seconds=timing.seconds,
                fastest=timing.fastest,
                samples=timing.samples,
                peak_bytes=memory[name, sizes],
            )
        )
    cost = LayerCost(
        name=name, middle=points[0], points=points, exponents=[], chain=chain_of(kind)
    )
    return replace(cost, exponents=[_exponent(cost, size) for size in kind.sizes])


def counted_at(kind: LayerKind, sizes: Sizes) -> int:
    """Return the multiply-adds that torch counts in a forward pass at ``sizes``."""
    return count_multiply_adds(kind.make_countable(sizes), _input(sizes))


def chain_of(kind: LayerKind) -> tuple[int, int]:
    """Return (a, b) of the longest chain of operations, a n + b.

    Raises ``RuntimeError`` if it is none of that form.
    """
    chains = {}
    for length in CHAIN_LENGTHS:
        sizes = Sizes(length=length, width=CHAIN_WIDTH, kernel=3, window=5)
        chains[length] = longest_chain(kind.make_countable(sizes), _input(sizes))
    first, *_, last = CHAIN_LENGTHS
    slope = (chains[last] - chains[first]) // (last - first)
    offset = chains[first] - slope * first
    if any(chain != slope * n + offset for n, chain in chains.items()):
        raise RuntimeError(f"chains {chains} are not on a line")
    return slope, offset


def _exponent(cost: LayerCost, size: Size) -> Exponent:
    points = cost.along(size)
    xs = [getattr(each.sizes, size) for each in points]
    return Exponent(
        size=size,
        multiply_adds=fit_power_law(
            xs, [each.multiply_adds for each in points]
        ).exponent,
        time=fit_power_law(xs, [each.seconds for each in points]),
        memory=fit_power_law(xs, [each.peak_bytes for each in points]),
    )


def _path_lengths() -> Iterator[PathLength]:
    for name, network in PATHS.items():
        size = PATH_SIZES[network.size]
        for length in PATH_LENGTHS:
            for causal in (True, False):
                yield PathLength(
                    name=name,
                    length=length,
                    size=size if network.size else None,
                    causal=causal,
                    formula=network.num_hops(length, size, causal),
                    measured=path_length(network, length, size, causal=causal),
                )


def _crossovers(
    settings: ComplexitySettings,
    clock: Callable[[], float],
    say: Callable[[str], None],
) -> Iterator[Crossover]:
    widths = settings.widths[:CROSSOVER_WIDTHS]
    seconds = settings.seconds * CROSSOVER_SHARE
    say(f"looking for crossovers for about {seconds:.0f} s")
    each = seconds / len(widths) / len(PARTNERS) / 3
    for name in PARTNERS:
        for width in widths:
            sizes = replace(settings.middle, width=width)
            predicted = predicted_length(LAYERS[name], sizes)
            ratio_at = partial(_time_ratio, name, sizes, each, clock)
            measured, ratios = find_crossover(ratio_at, predicted, settings.longest)
            yield Crossover(
                other=name,
                width=width,
                predicted=predicted,
                measured=measured,
                ratios=ratios,
            )


def _time_ratio(
    name: str, sizes: Sizes, seconds: float, clock: Callable[[], float], length: int
) -> float:
    sizes = replace(sizes, length=length)
    x = _input(sizes)
    calls = {each: partial(LAYERS[each].make(sizes), x) for each in (ATTENTION, name)}
    timings = measure(calls, seconds, clock)
    return timings[ATTENTION].seconds / timings[name].seconds


class _Inputs:
    """Random inputs, one for each shape."""

    def __init__(self) -> None:
        self._by_shape: dict[tuple[int, int], Tensor] = {}

    def of(self, sizes: Sizes) -> Tensor:
        """Return the input of layers of these sizes."""
        shape = sizes.length, sizes.width
        if shape not in self._by_shape:
            self._by_shape[shape] = _input(sizes)
        return self._by_shape[shape]


def _input(sizes: Sizes) -> Tensor:
    return torch.randn(sizes.batch, sizes.length, sizes.width)


def describe_machine() -> dict[str, str]:
    """Return the processor, its instruction set and the version of torch."""
    names: Sequence[str] = ()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [x.partition(":")[2].strip() for x in lines if "model name" in x]
    except OSError:
        pass  # not Linux
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
    }


@contextmanager
def _threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
