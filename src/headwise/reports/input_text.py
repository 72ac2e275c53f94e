"""What goes into a model, positions and embeddings, as text for a terminal."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from headwise.reports.formatting import columns, evenly_spaced
from headwise.reports.heat_map import readable

if TYPE_CHECKING:
    from headwise.inspection.embeddings import Embeddings
    from headwise.inspection.positions import Positions

CHANNELS = 6
"""Channels that are printed of each encoding."""

WAVES = 8
"""Pairs of channels whose wavelengths are printed."""

NO_POSITIONS = (
    "this model has no positional encodings (model.positions = 'none'): its encoder "
    "sees a bag of tokens, its decoder the order by causal masks alone"
)


def positions_text(found: Positions) -> list[str]:
    """Return the wavelengths, and a line for each position."""
    if found.kind == "none":
        return [NO_POSITIONS]
    width = found.encodings.shape[1]
    lines = [f"{found.kind}, {width} channels", ""]
    if found.wavelengths is not None:
        waves = list(enumerate(found.wavelengths))
        if found.kind != "sinusoidal_halves":
            waves = waves[::2]
        lines += columns(
            [
                ("channel", "repeats after, positions"),
                *((str(x), f"{wave:,.1f}") for x, wave in evenly_spaced(waves, WAVES)),
            ]
        )
        lines.append("")
    shown = min(CHANNELS, width)
    names = [f"channel {each}" for each in range(shown)]
    rows = [("position", "source", "decoder input", "binary", *names)]
    pieces = zip_longest(found.source, found.decoder_input, fillvalue="")
    for position, (ours, theirs) in enumerate(pieces):
        digits = "".join(str(x) for x in reversed(found.binary[position].tolist()))
        numbers = [f"{x:.3f}" for x in found.encodings[position, :shown].tolist()]
        sides = readable(ours) if ours else "", readable(theirs) if theirs else ""
        rows.append((str(position), *sides, digits, *numbers))
    return [*lines, *columns(rows)]


def embeddings_text(found: Embeddings) -> list[str]:
    """Return a line for each token, with the pieces that are most similar."""
    rows = [("side", "token", "norm", "most similar, by cosine")]
    for each in found.points:
        if each.side == "neighbour":
            continue
        similar = "  ".join(f"{readable(x.piece)} {x.cosine:.2f}" for x in each.nearest)
        rows.append((each.side, readable(each.piece), f"{each.norm:.3f}", similar))
    x, y = (f"{100 * share:.0f}%" for share in found.explained)
    return [*columns(rows), "", f"x and y of the map have {x} and {y} of the variance"]
