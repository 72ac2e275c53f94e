"""Train small models that decide what explanations of the paper say in words.

python benchmarks/claims.py [--only recurrence,residual] [--seeds 1,2,3]

Each claim has choices, which are trained with each seed on a generated task, and a rule
that is applied to the figures: it holds, does not hold, or is undecided. A trial is
written to the result file as soon as it is done, and not run again there; what was
measured with other settings is forgotten. One thread, some processor minutes a claim.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from claims_judged import CLAIMS, Claim
from result_file import MODEL, Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "claims.json"
SOURCES = [*MODEL, "src/headwise/demo_corpus/*", "benchmarks/small_training.py"]
SOURCES += ["benchmarks/claims_*.py"]

Table = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*CLAIMS])
    parser.add_argument(
        "--seeds",
        type=lambda text: [*map(int, text.split(","))],
        help="default: those of each claim",
    )
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if unknown := {*arguments.only} - {*CLAIMS}:
        parser.error(
            f"there is no claim {', '.join(sorted(unknown))}; choose from "
            f"{', '.join(CLAIMS)}"
        )
    torch.set_num_threads(1)
    measurement = Measurement.begin(SOURCES)
    place = place_of(arguments)
    ledger: Table = {}
    if place is not None and place.is_file():
        ledger = json.loads(place.read_text(encoding="utf-8"))["claims"]
    for name in arguments.only:
        claim = CLAIMS[name]
        trials = kept(ledger.get(name, {}), claim)
        for seed in arguments.seeds or claim.seeds:
            for choice in claim.choices:
                if any((x["choice"], x["seed"]) == (choice, seed) for x in trials):
                    continue
                trials.append(run(claim, choice, seed, arguments.rehearse))
                ledger[name] = measurement.provenance() | entry(claim, trials)
                measurement.write(place, {"claims": ledger})
        if trials:
            ledger[name] = ledger[name] | entry(claim, trials)
            measurement.write(place, {"claims": ledger})
            found = {**ledger[name]["figures"], "verdict": ledger[name]["verdict"]}
            print(json.dumps({name: found}, indent=1), file=sys.stderr)


def run(claim: Claim, choice: str, seed: int, rehearse: bool) -> Table:
    """Run one trial; return its figures with what it took."""
    began = time.process_time()
    figures = claim.trial(claim.choices[choice], seed, rehearse)
    minutes = (time.process_time() - began) / 60
    found = {"choice": choice, "seed": seed, "processor_minutes": minutes, **figures}
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def kept(known: Mapping[str, Any], claim: Claim) -> list[Table]:
    """Return the trials of an entry of the ledger, if it had the same settings."""
    return [*known["trials"]] if known.get("settings") == digest(claim) else []


def entry(claim: Claim, trials: Sequence[Table]) -> Table:
    """Return what the ledger says of a claim."""
    by_choice = {
        choice: sorted(
            (x for x in trials if x["choice"] == choice), key=lambda x: int(x["seed"])
        )
        for choice in claim.choices
    }
    seeds = [{x["seed"] for x in found} for found in by_choice.values()]
    complete = set.intersection(*seeds)
    of_all = {
        choice: [x for x in found if x["seed"] in complete]
        for choice, found in by_choice.items()
    }
    judged = claim.judge(of_all) if complete else {}
    return {
        "claim": claim.text,
        "said_by": claim.said_by,
        "rule": claim.rule,
        "settings": digest(claim),
        "seeds": sorted(complete),
        "processor_minutes_of_all": sum(x["processor_minutes"] for x in trials),
        "verdict": judged.pop("verdict", "undecided"),
        "figures": judged,
        "trials": [x for found in by_choice.values() for x in found],
    }


def digest(claim: Claim) -> str:
    """Return a digest of the choices and settings of a claim."""
    text = json.dumps([claim.choices, claim.settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


if __name__ == "__main__":
    main()
