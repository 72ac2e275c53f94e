"""The result as tables of text, as tab-separated values and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from headwise.complexity.benchmark import Complexity, PathLength
from headwise.complexity.path_lengths import PATHS
from headwise.complexity.power_law import PowerLaw
from headwise.complexity.sizes import SYMBOLS, Sizes
from headwise.reports.formatting import columns

POOR_FIT = 0.99
"""A fit of times with a lower R² is named."""

FLAT = 0.1
"""With a lower exponent there is next to no variance, which R² could explain."""

Rows = list[tuple[str, ...]]


def layer_rows(result: Complexity) -> Rows:
    """Return Table 1: complexity, multiply-adds, sequential operations, speed."""
    head = (
        *("layer", "complexity", "multiply-adds", "counted", "sequential"),
        *("longest chain", "GFLOP/s"),
    )
    return [
        head,
        *(
            (
                layer.name,
                layer.kind.paper,
                layer.kind.formula,
                f"{layer.middle.counted:,}",
                layer.kind.sequential,
                chain_text(layer.chain),
                f"{layer.operations_per_second / 1e9:.1f}",
            )
            for layer in result.layers
        ),
    ]


def exponent_rows(result: Complexity) -> Rows:
    """Return the exponents of multiply-adds, time and memory in each size."""
    head = ("layer", "in", "multiply-adds", "time", "R²", "memory")
    return [
        head,
        *(
            (
                layer.name,
                SYMBOLS[each.size],
                f"{each.multiply_adds:.2f}",
                interval(each.time),
                f"{each.time.r_squared:.4f}",
                interval(each.memory),
            )
            for layer in result.layers
            for each in layer.exponents
        ),
    ]


def path_rows(result: Complexity) -> Rows:
    """Return the path lengths: a row for each kind of network and direction."""
    lengths = sorted({each.length for each in result.paths})
    head = (
        *("layer", "directions", "maximum path length", "layers needed"),
        *(f"n = {length}" for length in lengths),
    )
    rows: Rows = [head]
    for name, causal in dict.fromkeys((p.name, p.causal) for p in result.paths):
        found = {
            each.length: each
            for each in result.paths
            if (each.name, each.causal) == (name, causal)
        }
        network, size = PATHS[name], next(iter(found.values())).size
        value = "" if network.size is None else f", {SYMBOLS[network.size]} = {size}"
        rows.append(
            (
                name,
                "one" if causal else "both",
                network.paper,
                f"{network.formulas[causal] or 'never all'}{value}",
                *(hops_text(found[length]) for length in lengths),
            )
        )
    return rows


def crossover_rows(result: Complexity) -> Rows:
    """Return where self-attention takes as long as another layer."""
    head = (
        "self-attention as slow as",
        "d",
        "n by multiply-adds",
        "n by time",
        "ratio",
    )
    return [
        head,
        *(
            (
                each.other,
                f"{each.width}",
                f"{each.predicted:.0f}",
                "not reached" if each.measured is None else f"{each.measured:.0f}",
                ""
                if each.measured is None
                else f"{each.measured / each.predicted:.2f}",
            )
            for each in result.crossovers
        ),
    ]


def as_lines(result: Complexity) -> list[str]:
    """Return all tables as lines for a terminal."""
    lines = []
    for title, rows in (
        (f"One layer, counted at {sizes_text(result.settings.middle)}", layer_rows),
        (f"Exponents of one layer, by {result.clock}", exponent_rows),
        ("Maximum path length, by the support of the Jacobian", path_rows),
        ("Crossovers", crossover_rows),
    ):
        lines += [title, "", *columns(rows(result)), ""]
    return lines[:-1]


def as_tsv(result: Complexity) -> str:
    """Return a line for each kind of layer; what it does not have is empty."""
    head = [
        *("layer", "complexity", "multiply_adds", "counted", "sequential"),
        *("chain_per_position", "chain_more", "seconds", "gflops", "peak_bytes"),
    ]
    for symbol in SYMBOLS.values():
        head += [f"time_{symbol}", f"time_{symbol}_low", f"time_{symbol}_high"]
        head += [f"time_{symbol}_r2", f"memory_{symbol}"]
    lines = ["\t".join(head)]
    for layer in result.layers:
        cells: list[object] = [
            *(layer.name, layer.kind.paper, layer.middle.multiply_adds),
            *(layer.middle.counted, layer.kind.sequential, *layer.chain),
            *(layer.middle.seconds, layer.operations_per_second / 1e9),
            layer.middle.peak_bytes,
        ]
        exponents = {each.size: each for each in layer.exponents}
        for size in SYMBOLS:
            found = exponents.get(size)
            if found is None:
                cells += [""] * 5
                continue
            time = found.time
            cells += [time.exponent, time.low, time.high, time.r_squared]
            cells.append(found.memory.exponent)
        lines.append("\t".join(map(_cell, cells)))
    return "\n".join(lines)


def as_json(result: Complexity) -> str:
    """Return everything as JSON."""
    return json.dumps(as_table(result), indent=2, ensure_ascii=False)


def as_table(result: Complexity) -> dict[str, object]:
    """Return everything as what JSON can hold, with the formulas in words."""
    table = asdict(result)
    for layer, cost in zip(table["layers"], result.layers, strict=True):
        kind = cost.kind
        layer["complexity"], layer["formula"] = kind.paper, kind.formula
        layer["sequential"] = kind.sequential
        layer["operations_per_second"] = cost.operations_per_second
    for path in table["paths"]:
        path["maximum_path_length"] = PATHS[path["name"]].paper
    for crossover in table["crossovers"]:
        ratios = {str(length): ratio for length, ratio in crossover["ratios"].items()}
        crossover["ratios"] = ratios
    return table


def notes(result: Complexity) -> list[str]:
    """Return what a reader should know about these numbers."""
    found = []
    unequal = [
        x.name for x in result.layers if x.middle.counted != x.middle.multiply_adds
    ]
    if unequal:
        found.append(f"torch counts something else than the formula: {_list(unequal)}")
    poor = [
        f"{layer.name} in {SYMBOLS[each.size]} ({each.time.r_squared:.3f})"
        for layer in result.layers
        for each in layer.exponents
        if each.time.r_squared < POOR_FIT and each.multiply_adds > FLAT
    ]
    if poor:
        found.append(
            f"R² of times is below {POOR_FIT}: {_list(poor)}; small sizes have a "
            "constant cost, caches have limits, and other work on the machine disturbs"
        )
    few = min(point.samples for layer in result.layers for point in layer.points)
    found.append(f"each time is the median of {few} samples or more")
    return found


def interval(law: PowerLaw) -> str:
    """Return an exponent with its 95% interval."""
    if law.high - law.low < 0.005:
        return f"{law.exponent:z.2f}"
    return f"{law.exponent:z.2f} ± {law.high - law.exponent:.2f}"


def chain_text(chain: tuple[int, int]) -> str:
    """Return a n + b."""
    slope, offset = chain
    if not slope:
        return f"{offset}"
    times = "n" if slope == 1 else f"{slope} n"
    return f"{times} + {offset}" if offset else times


def hops_text(path: PathLength) -> str:
    """Return the measured number of layers; with the formula's where they differ."""
    text = "–" if path.measured is None else f"{path.measured}"
    return text if path.measured == path.formula else f"{text} (not {path.formula})"


def sizes_text(sizes: Sizes) -> str:
    """Return sizes by their letters."""
    parts = [f"{symbol} = {getattr(sizes, size)}" for size, symbol in SYMBOLS.items()]
    return ", ".join([*parts, f"{sizes.batch} sequences"])


def _list(parts: Sequence[str]) -> str:
    return ", ".join(parts)


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
