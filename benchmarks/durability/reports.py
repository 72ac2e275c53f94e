"""What the four scripts share: their options, and the results as JSON."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"


def arguments_with(text: str | None, **counts: tuple[int, str]) -> argparse.Namespace:
    """Read the command line: each count by its name, and a folder for scratch files."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, (default, what) in counts.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=what)
    parser.add_argument("--scratch", type=Path, help="a folder on a disk to use")
    parser.add_argument("--out", type=Path, help="where the results go")
    return parser.parse_args()


def finish(
    name: str,
    facts: dict[str, Any],
    problems: Iterable[object],
    out: Path | None = None,
) -> None:
    """Write the results; end with status 1 where there is a problem."""
    module = Path(sys.argv[0]).stem
    report = {
        "command": " ".join(
            ["python -m", f"benchmarks.durability.{module}", *sys.argv[1:]]
        ),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}",
            **{package: version(package) for package in ("headwise", "torch")},
        },
        **facts,
    }
    path = out or RESULTS / f"durability_{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(path)
    sys.exit(1 if any(problems) else 0)
