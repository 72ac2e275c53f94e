"""Train with headwise and its rivals in turn, on the same batches, and compare speed.

python benchmarks/training.py --corpora FOLDER
python benchmarks/training.py --quick --only plain,headwise
python benchmarks/training.py --curves

benchmarks/README.md says what is compared and how. The rivals' environments and the
batches are made in --work and stay there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from result_file import TRAINING, Measurement, add_options, place_of
from training import batches, environments, machine, plan
from training.facts import PLACES, PRECISIONS, SIZES
from training.measure import TRAINERS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "training.json"
UPDATES = {"tiny": (3, 15), "base": (1, 5)}
"""Updates of each size: to warm up, and timed."""

SMALL_PRODUCT = 128
"""Of a rehearsal: bfloat16 takes minutes where the processor does not multiply it."""

CURVE_UPDATES, CURVE_STRETCH = 150, 25
DISTURBING = ("GLIBC_TUNABLES", "MALLOC_", "LD_PRELOAD", "PYTHON")
"""What of this process's environment no trainer is to see."""


class Rivals:
    """Starts trainers, each with a python of its own."""

    def __init__(self, work: Path, trainers: list[str]) -> None:
        self.work = work
        self.pythons = {"headwise": Path(sys.executable)}
        self.versions = {
            "headwise": {name: version(name) for name in ("headwise", "torch", "numpy")}
        }
        self.failures: dict[str, str] = {}
        for name in trainers:
            if name == "headwise":
                continue
            try:
                python = environments.made(name, work)
                self.versions[name] = environments.versions(name, python)
                self.pythons[name] = python
            except (
                environments.InstallationError,
                subprocess.SubprocessError,
            ) as error:
                self.failures[name] = str(error)

    def run(self, case: plan.Case, warm_up: int, updates: int) -> dict[str, Any] | None:
        """Run one case; None, with the error noted, where it did not run."""
        if case.trainer not in self.pythons:
            return None
        words = ["training.measure", *case.words, "--folder", str(self.work)]
        words += ["--warm-up", str(warm_up), "--updates", str(updates)]
        done = self._start(
            case.trainer,
            words,
            plan.ENVIRONMENTS[case.environment],
        )
        if done.returncode:
            self.failures[str(case)] = environments.last_words(done.stderr)
            print(self.failures[str(case)], file=sys.stderr)
            return None
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def product_rates(self, size: int, precisions: list[str]) -> dict[str, float]:
        """Measure large products in a process of their own."""
        words = ["training.machine", str(size), *precisions]
        done = self._start("headwise", words, {})
        rates: dict[str, float] = json.loads(done.stdout)
        return rates

    def _start(
        self, trainer: str, words: list[str], variables: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(DISTURBING)
        }
        kept |= {"PYTHONPATH": str(Path(__file__).parent), **variables}
        return subprocess.run(
            [self.pythons[trainer], "-m", *words],
            env=kept,
            capture_output=True,
            text=True,
            check=False,
        )


def main() -> None:
    arguments = parsed()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    batches.make(arguments.corpora, work)
    measurement = Measurement.begin([*TRAINING, "benchmarks/training/*.py"])
    rivals = Rivals(work, arguments.only)
    out = place_of(arguments)
    result: dict[str, Any] = {"versions_of_trainers": rivals.versions}
    if arguments.curves:
        result |= curves(rivals, arguments)
        measurement.write(out, result)
        print(json.dumps(result["curves"], indent=2))
        return
    for facts in compared(rivals, arguments):
        whole = result | facts | {"failures": rivals.failures}
        measurement.write(out, whole)
    print(
        json.dumps({"ratios": whole["ratios"], "failures": rivals.failures}, indent=2)
    )


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = ROOT.parent / "shared" / "data"
    corpora = Path(os.environ.get("HEADWISE_CORPORA", default))
    parser.add_argument("--corpora", type=Path, default=corpora)
    parser.add_argument("--work", type=Path, default=environments.default_work())
    add_options(parser, RESULTS)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--updates", type=int, help="timed updates of each process")
    parser.add_argument("--only", type=listed(TRAINERS), help="trainers, with commas")
    parser.add_argument("--sizes", type=listed(SIZES))
    parser.add_argument("--precisions", type=listed(PRECISIONS))
    parser.add_argument("--environments", type=listed(plan.ENVIRONMENTS))
    parser.add_argument("--places", type=listed(PLACES), help="of dropout")
    parser.add_argument("--curves", action="store_true", help="compare losses instead")
    arguments = parser.parse_args()
    if arguments.curves:
        arguments.default_out = RESULTS.with_name("training_curves.json")
    quick = arguments.rehearse
    usual = {
        "rounds": 1 if quick else 5,
        "only": ["plain", "marian", "headwise"] if quick else list(TRAINERS),
        "sizes": ["tiny"] if quick else list(SIZES),
        "precisions": ["float32"] if quick else list(PRECISIONS),
        "environments": ["default"] if quick else list(plan.ENVIRONMENTS),
        "updates": 2 if quick else None,
    }
    for name, value in usual.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    return arguments


def listed(known: Any) -> Any:
    """Make a reader of names with commas between, each of which must be known."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        strange = [name for name in names if name not in known]
        if strange:
            raise argparse.ArgumentTypeError(
                f"{', '.join(strange)}: not known; there are {', '.join(known)}"
            )
        return names

    return read


def compared(rivals: Rivals, arguments: argparse.Namespace) -> Any:
    """Let all take turns; yield what is known after each round."""
    usually = {"tiny": PLACES, "base": ("usual",)}
    if arguments.rehearse:
        usually["tiny"] = ("usual",)
    places = {size: arguments.places or usually[size] for size in SIZES}
    cases = plan.cases(
        arguments.only,
        arguments.sizes,
        arguments.precisions,
        arguments.environments,
        places,
    )
    found: dict[plan.Case, list[dict[str, Any]]] = {case: [] for case in cases}
    rates: list[dict[str, float]] = []
    for number in range(arguments.rounds):
        size = SMALL_PRODUCT if arguments.rehearse else machine.PRODUCT
        rates.append(rivals.product_rates(size, arguments.precisions))
        for case in cases:
            warm_up, updates = UPDATES[case.size]
            started = time.monotonic()
            one = rivals.run(case, warm_up, arguments.updates or updates)
            spent = time.monotonic() - started
            if one is None:
                continue
            found[case].append(one)
            print(
                f"round {number + 1}: {case}, dropout {case.places}: "
                f"{one['tokens_per_second']:,.0f} tokens/s ({spent:.0f} s)",
                file=sys.stderr,
            )
        products = {
            name: statistics.median(each[name] for each in rates)
            for name in arguments.precisions
        }
        rows = [plan.row(case, r, products) for case, r in found.items() if r]
        table = plan.ratios(found)
        yield {
            "batch_tokens": batches.BATCH_TOKENS,
            "products_gflop_per_second": {
                name: round(rate / 1e9, 1) for name, rate in products.items()
            },
            "rows": rows,
            "ratios": table,
            "fastest_peers": plan.fastest_peers(table),
        }


def curves(rivals: Rivals, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train longer, and return mean losses of stretches of updates."""
    kinds = {
        "headwise, fast": {"trainer": "headwise"},
        "headwise, fast, other weights": {"trainer": "headwise", "seed": 2},
        "headwise, readable": {"trainer": "headwise", "path": "reference"},
        "plain loop, dropout in equal places": {"trainer": "plain", "places": "equal"},
    }
    found: dict[str, list[float]] = {}
    updates = arguments.updates or CURVE_UPDATES
    for precision in arguments.precisions:
        for name, what in kinds.items():
            if what["trainer"] not in arguments.only:
                continue
            case = plan.Case(
                size="tiny", precision=precision, environment="default", **what
            )
            one = rivals.run(case, 1, updates - 1)
            if one is None:
                continue
            losses = one["losses"]
            found[f"{name}, {precision}"] = [
                round(statistics.fmean(losses[at : at + CURVE_STRETCH]), 4)
                for at in range(0, updates, CURVE_STRETCH)
            ]
            print(name, precision, found[f"{name}, {precision}"], file=sys.stderr)
    return {
        "updates_per_stretch": CURVE_STRETCH,
        "curves": found,
        "failures": rivals.failures,
    }


if __name__ == "__main__":
    main()
