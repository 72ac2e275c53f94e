"""Which processes a run is made of, and what is made of their results."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ENVIRONMENTS = {
    "default": {},
    "tuned": {
        "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:"
        "glibc.malloc.trim_threshold=4294967296"
    },
}
"""Environment variables of each, set before a process starts."""

ONE_PLACE = ("headwise", "marian")
"""Trainers that have dropout in the paper's places by themselves."""


@dataclass(frozen=True)
class Case:
    """One process: a trainer as it is set here."""

    trainer: str
    size: str
    precision: str
    environment: str
    places: str = "usual"
    path: str = "auto"
    seed: int = 1

    @property
    def words(self) -> list[str]:
        """The options that name this case to :mod:`training.measure`."""
        names = ("size", "precision", "places", "path", "seed")
        return [
            self.trainer,
            *(w for name in names for w in (f"--{name}", str(getattr(self, name)))),
        ]

    def __str__(self) -> str:
        return " ".join([self.trainer, self.size, self.precision, self.environment])


def cases(
    trainers: Sequence[str],
    sizes: Sequence[str],
    precisions: Sequence[str],
    environments: Sequence[str],
    places: Mapping[str, Sequence[str]],
) -> list[Case]:
    """Return the processes of one round; trainers of a kind follow each other."""
    return [
        Case(trainer, size, precision, environment, place)
        for size in sizes
        for precision in precisions
        for environment in environments
        for trainer in trainers
        for place in (("usual",) if trainer in ONE_PLACE else places[size])
    ]


def spread(values: Iterable[float], digits: int = 0) -> dict[str, float]:
    """Return median, least and most."""
    found = sorted(values)
    parts = {"median": statistics.median(found), "min": found[0], "max": found[-1]}
    return {name: round(value, digits or None) for name, value in parts.items()}


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """Return the 50th and the 95th percentile of single updates, and their number."""
    found = list(values)
    hundredths = statistics.quantiles(found, n=100, method="inclusive")
    return {
        "p50": round(hundredths[49], 4),
        "p95": round(hundredths[94], 4),
        "updates": len(found),
    }


def row(
    case: Case, rounds: Sequence[Mapping[str, Any]], rates: Mapping[str, float]
) -> dict[str, Any]:
    """Sum up what the rounds of one case found."""
    speed = [each["flops_per_second"] for each in rounds]
    last = rounds[-1]
    return {
        "trainer": case.trainer,
        "size": case.size,
        "precision": case.precision,
        "environment": case.environment,
        "dropout": "usual = equal" if case.trainer in ONE_PLACE else case.places,
        "tokens_per_second": spread(each["tokens_per_second"] for each in rounds),
        "target_tokens_per_second": spread(
            each["target_tokens_per_second"] for each in rounds
        ),
        "seconds_per_update": spread((e["seconds_per_update"] for e in rounds), 4),
        "seconds_of_an_update": percentiles(
            seconds for each in rounds for seconds in each["seconds_of_updates"]
        ),
        "share_of_products": round(statistics.median(speed) / rates[case.precision], 3),
        "gflop_per_update": round(last["flops_per_update"] / 1e9, 2),
        "peak_memory_mib": max(each["peak_memory_mib"] for each in rounds),
        "page_faults_per_update": round(
            statistics.median(each["page_faults_per_update"] for each in rounds)
        ),
        "loss_of_last_update": last["losses"][-1],
        "threads": last["threads"],
        "rounds": len(rounds),
    }


def ratios(
    found: Mapping[Case, Sequence[Mapping[str, Any]]],
) -> list[dict[str, Any]]:
    """Divide headwise by each rival of like size, precision and environment."""
    table = []
    for case, rounds in found.items():
        if case.trainer == "headwise" or not rounds:
            continue
        own = Case("headwise", case.size, case.precision, case.environment)
        if not found.get(own):
            continue
        ours, theirs = (
            [e["tokens_per_second"] for e in r] for r in (found[own], rounds)
        )
        each = sorted(o / t for o, t in zip(ours, theirs, strict=False))
        table.append(
            {
                "size": case.size,
                "precision": case.precision,
                "environment": case.environment,
                "dropout": "equal" if case.trainer in ONE_PLACE else case.places,
                "rival": case.trainer,
                "times_as_fast": round(
                    statistics.median(ours) / statistics.median(theirs), 2
                ),
                "min": round(each[0], 2),
                "max": round(each[-1], 2),
            }
        )
    return table


def fastest_peers(table: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pick the peer that comes nearest in each setting; the plain loop is none."""
    nearest: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in table:
        if line["rival"] == "plain":
            continue
        key = (line["size"], line["precision"], line["environment"])
        best = nearest.get(key)
        if best is None or line["times_as_fast"] < best["times_as_fast"]:
            nearest[key] = dict(line)
    return list(nearest.values())
