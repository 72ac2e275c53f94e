"""Draw the learning curves of the tasks, as they stand in the result files.

python benchmarks/learning_curves.py [--out docs/learning-curves.png]

Each panel is one training: the first seed of a recipe, or of a generated sample of
``headwise demo NAME``. The scripts of the result files trained them; here nothing is
measured. A training whose script has not noted its curve yet has no panel.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
RESULT_FILES = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "learning-curves.png"
COLUMNS = 4

TRAININGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "film reviews (SST)": ("sentiment", ("data", "sst", "runs")),
    "the same, pre-trained": ("sentiment", ("data", "sst", "pretrained", "runs")),
    "Shakespeare's characters": (
        "tinyshakespeare",
        ("recipes", "tinyshakespeare-cpu", "runs"),
    ),
    "parsing (CRAFT)": ("parsing", ("recipes", "craft-parsing-muon", "runs")),
    "summaries (CRAFT)": ("summarization", ("runs",)),
    "digits (scikit-learn)": ("digits", ("folds",)),
    "SCAN, simple": ("scan", ("recipes", "scan", "simple", "runs")),
    "SCAN, jump": ("scan", ("recipes", "scan-symmetries", "jump", "runs")),
    "SCAN, length": ("scan", ("recipes", "scan-recombination", "length", "runs")),
    "phones, 15 languages": ("g2p", ("models", "all", "runs")),
    "phones, Bulgarian": ("g2p", ("models", "bul", "runs")),
}
"""Title -> result file, and where in it the runs are; the samples follow."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE)
    draw(curves(RESULT_FILES), parser.parse_args().out)


def curves(results: Path) -> dict[str, Any]:
    """Return the curve of the first run of each training that has one, by title."""
    trainings = {title: runs(results, *where) for title, where in TRAININGS.items()}
    samples = runs(results, "uses", ("uses",))
    trainings |= {f"demo {name}": each["runs"] for name, each in samples.items()}
    return {
        title: each[0]["curve"]
        for title, each in trainings.items()
        if "curve" in each[0]
    }


def runs(results: Path, file: str, path: tuple[str, ...]) -> Any:
    """Return what stands at ``path`` of a result file."""
    found = json.loads((results / f"{file}.json").read_text(encoding="utf-8"))
    for name in path:
        found = found[name]
    return found


def draw(found: Mapping[str, Any], picture: Path) -> None:
    """Draw each curve in a panel of its own."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(found) / COLUMNS)
    figure = Figure(figsize=(11, 2.2 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False)
    for axis in axes.flat[len(found) :]:
        axis.set_axis_off()
    for axis, (title, curve) in zip(axes.flat, found.items(), strict=False):
        draw_one(axis, title, curve)
    figure.supxlabel("updates", fontsize=9)
    figure.supylabel("training loss", color="C0", fontsize=9)
    figure.savefig(picture, dpi=110)


def draw_one(axis: Axes, title: str, curve: Mapping[str, Any]) -> None:
    """Draw the training loss, and what each validation measured, of one training."""
    axis.plot(*zip(*curve["loss"], strict=True), color="C0")
    axis.set_yscale("log")
    axis.set_title(title, fontsize=9)
    axis.tick_params(axis="y", colors="C0", labelsize=7, which="both")
    axis.tick_params(axis="x", labelsize=7)
    if len(curve["validation"]) > 1:
        right = axis.twinx()
        right.plot(*zip(*curve["validation"], strict=True), "o-", color="C1", ms=3)
        right.tick_params(axis="y", colors="C1", labelsize=7)
        right.set_ylabel(curve["measure"], color="C1", fontsize=8)


if __name__ == "__main__":
    main()
