"""The result as an HTML page in one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from headwise.complexity.benchmark import Complexity, LayerCost
from headwise.complexity.crossovers import PARTNERS
from headwise.complexity.log_plot import Curve, Dash, log_plot
from headwise.complexity.path_lengths import PATHS
from headwise.complexity.sizes import SYMBOLS, Size
from headwise.complexity.tables import (
    Rows,
    crossover_rows,
    exponent_rows,
    layer_rows,
    notes,
    path_rows,
    sizes_text,
)
from headwise.reports.page import facts, moment, page
from headwise.wording import count_of, duration

LOOKS: dict[str, tuple[int, Dash]] = {
    "self-attention": (1, ""),
    "fused self-attention": (1, "dashed"),
    "restricted self-attention": (1, "dotted"),
    "Elman recurrence": (2, ""),
    "GRU": (2, "dashed"),
    "LSTM": (2, "dotted"),
    "convolution": (3, ""),
    "dilated convolution": (3, "dashed"),
    "separable convolution": (3, "dotted"),
    "projections of attention": (5, ""),
}
"""Colour and dash of each kind of layer, the same in all plots."""

LAYERS_ABOUT = (
    "Complexity and sequential operations as in the paper; the rest is counted or "
    "measured here. Multiply-adds are those of matrix products and convolutions: by "
    "the formula for one sequence, and as torch counts them for the whole batch, with "
    "recurrent cells unrolled. The longest chain has the operations that wait for one "
    "another, in calls of kernels. GFLOP/s: two operations for each multiply-add, "
    "over the median time."
)
EXPONENTS_ABOUT = (
    "Slopes of straight lines through logarithms, with 95% intervals (Student's t): 2 "
    "in n means that twice the length takes four times as long. Of multiply-adds by "
    "the formula at the same sizes; of the time of a forward pass; of the most memory "
    "that it holds, besides input and weights. R² is that of times."
)
PATHS_ABOUT = (
    "How many layers, or steps of a recurrence, there must be before each output "
    "depends on each input that it may depend on: on all (both directions), or on "
    "those up to its own position (one direction). Found by forward-mode "
    "differentiation through layers with random weights. A dash: never. Centred "
    "kernels of growing dilation reach each distance in one way only, which near the "
    "ends of a sequence leads over positions that are not there."
)
CROSSOVERS_ABOUT = (
    "The length from which self-attention (Equation 1, without its projections) takes "
    "longer than the other layer: where both have as many multiply-adds, and where "
    "both take as long. A ratio above 1: the other layer does fewer operations a "
    "second, so self-attention is ahead for longer than its operations tell."
)


def complexity_page(result: Complexity, *, written: float) -> str:
    """Return the page; ``written`` is its Unix time."""
    body = "\n".join(
        [
            "<header><h1>Table 1, counted and measured</h1></header>",
            '<p class="lead">Layers of self-attention, recurrence and convolution that '
            "map n vectors of d channels to as many, as Section 4 of "
            "<i>Attention Is All You Need</i> compares them.</p>",
            _facts(result),
            "<h2>One layer</h2>",
            _about(f"At {sizes_text(result.settings.middle)}. {LAYERS_ABOUT}"),
            _table("Layers", layer_rows(result)),
            '<section class="plots" aria-label="Plots">',
            *_plots(result),
            "</section>",
            "<h2>Exponents</h2>",
            _about(EXPONENTS_ABOUT),
            _table("Exponents", exponent_rows(result)),
            "<h2>Maximum path length</h2>",
            _about(PATHS_ABOUT),
            _table("Path lengths", path_rows(result)),
            "<h2>Crossovers</h2>",
            _about(CROSSOVERS_ABOUT),
            _table("Crossovers", crossover_rows(result)),
            "<h2>Notes</h2>",
            *(_about(f"{each[0].upper()}{each[1:]}.") for each in notes(result)),
            f"<footer>Written by headwise complexity, {moment(written)}.</footer>",
        ]
    )
    return page("Table 1, counted and measured", body, written=written)


def _facts(result: Complexity) -> str:
    settings, machine = result.settings, result.machine
    threads = count_of(settings.threads, "thread")
    return facts(
        {
            "processor": (
                machine["processor"],
                f"{machine['instructions']}, torch {machine['torch']}",
            ),
            "clock": (result.clock, f"{threads}, float32"),
            "batch": (f"{settings.batch}", "sequences"),
            "measured for": (duration(result.measured_seconds), ""),
        }
    )


def _plots(result: Complexity) -> list[str]:
    def seconds(value: float) -> str:
        return f"{1e3 * value:.3g} ms"

    def megabytes(value: float) -> str:
        return f"{value / 1e6:.3g} MB"

    times: list[tuple[Size, str]] = [
        ("length", "Time by length"),
        ("width", "Time by width"),
        ("kernel", "Time by kernel width"),
        ("window", "Time by window"),
    ]
    drawn = [
        log_plot(
            title,
            f"Forward pass, median; {_fixed(result, size)}. Logarithmic scales.",
            _curves(result.layers, size, lambda point: point.seconds),
            x_name=SYMBOLS[size],
            format_y=seconds,
        )
        for size, title in times
    ]
    memory = log_plot(
        "Memory by length",
        "Most bytes held in a forward pass, besides input and weights; "
        f"{_fixed(result, 'length')}. Logarithmic scales.",
        _curves(result.layers, "length", lambda point: point.peak_bytes),
        x_name="n",
        format_y=megabytes,
    )
    return [*drawn[:2], memory, _path_plot(result), _crossover_plot(result), *drawn[2:]]


def _curves(
    layers: Sequence[LayerCost], size: Size, value: Callable[..., float]
) -> list[Curve]:
    return [
        Curve(
            name=layer.name,
            points=[(getattr(p.sizes, size), value(p)) for p in layer.along(size)],
            colour=LOOKS[layer.name][0],
            dash=LOOKS[layer.name][1],
        )
        for layer in layers
        if size in layer.kind.sizes
    ]


def _fixed(result: Complexity, varied: Size) -> str:
    middle = result.settings.middle
    return ", ".join(
        f"{symbol} = {getattr(middle, size)}"
        for size, symbol in SYMBOLS.items()
        if size != varied
    )


def _path_plot(result: Complexity) -> str:
    curves = []
    for name in PATHS:
        found = [
            each
            for each in result.paths
            if each.name == name and each.causal and each.measured is not None
        ]
        size = PATHS[name].size
        value = f", {SYMBOLS[size]} = {found[0].size}" if size and found else ""
        curves.append(
            Curve(
                name=f"{name}{value}",
                points=[(p.length, p.measured or 0) for p in found],
                colour=LOOKS[name][0],
                dash=LOOKS[name][1],
            )
        )
    return log_plot(
        "Maximum path length",
        "Layers, or steps of a recurrence, until every output depends on every input "
        "up to its position. Logarithmic scales.",
        curves,
        x_name="n",
        format_y=lambda value: f"{value:.0f}",
    )


def _crossover_plot(result: Complexity) -> str:
    curves = []
    for name in PARTNERS:
        found = [each for each in result.crossovers if each.other == name]
        curves.append(
            Curve(
                name=name,
                points=[(x.width, x.measured) for x in found if x.measured is not None],
                predicted=[(x.width, x.predicted) for x in found],
                colour=LOOKS[name][0],
                dash=LOOKS[name][1],
            )
        )
    return log_plot(
        "Crossovers",
        "Length from which self-attention takes longer, by width. Marks: by time; thin "
        "lines: by multiply-adds. Logarithmic scales.",
        curves,
        x_name="d",
        format_y=lambda value: f"{value:,.0f}",
    )


def _table(name: str, rows: Rows) -> str:
    head, *body = rows
    heads = "".join(f"<th scope=col>{escape(each)}</th>" for each in head)
    lines = "".join(
        f"<tr><td>{'</td><td>'.join(map(escape, row))}</td></tr>" for row in body
    )
    return (
        f'<div class="wide fit" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table class="settings"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _about(text: str) -> str:
    return f'<p class="lead">{escape(text)}</p>'
