"""Count and measure the layers of the paper's Table 1, as headwise complexity does.

python benchmarks/complexity.py
python benchmarks/complexity.py --rehearse

Writes what the command prints as JSON. Times are processor time of one thread. With
--page FILE it writes the page too.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from result_file import RESULTS, Measurement, add_options, place_of

from headwise.complexity.benchmark import measure_complexity
from headwise.complexity.complexity_page import complexity_page
from headwise.complexity.sizes import ComplexitySettings
from headwise.complexity.tables import as_lines, as_table, notes

RESULT = RESULTS / "complexity.json"

SOURCES = (
    "src/headwise/complexity/*",
    "src/headwise/model/attention.py",
    "src/headwise/model/variants/attention.py",
    "src/headwise/model/variants/scores.py",
)

REHEARSAL = ComplexitySettings(
    lengths=(8, 16, 32), widths=(4, 8, 16), kernels=(3, 5, 7), windows=(3, 5, 9),
    batch=1, seconds=0.0,
)  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--batch", type=int, default=ComplexitySettings().batch)
    parser.add_argument("--page", type=Path)
    add_options(parser, RESULT)
    arguments = parser.parse_args()
    settings = ComplexitySettings(seconds=arguments.seconds, batch=arguments.batch)
    if arguments.rehearse:
        settings = REHEARSAL
    measurement = Measurement.begin(SOURCES)
    result = measure_complexity(settings, lambda text: print(text, file=sys.stderr))
    print("\n".join([*as_lines(result), "", *notes(result)]))
    table = as_table(result)
    del table["machine"]  # the file itself says more of it
    measurement.write(place_of(arguments), table)
    if arguments.page is not None:
        page = complexity_page(result, written=time.time())
        arguments.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
