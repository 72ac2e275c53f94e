"""Proposals of Optuna's sampler, replayed from the ledger.

Each proposal is made by a new study in memory, to which the trials of the ledger are
added, and by a sampler whose seed depends on the number of the proposal. So nothing but
the ledger is stored, and a sweep that was interrupted makes the proposals that it would
have made.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Any

from headwise.errors import ResourceError
from headwise.sweep.ledger import Trial, combination_key
from headwise.sweep.space import Range, Settings, Varied

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

LONG_AGO = datetime.datetime(2000, 1, 1)
"""When trials of the ledger are said to have run: Optuna wants a date, and does not
use it."""


SEEDS = 2**32
"""Seeds that Optuna's sampler takes."""

ATTEMPTS = 100
"""Proposals after which one that is new is not expected any more."""


class MissingOptunaError(ResourceError):
    """Optuna is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "--search optuna needs Optuna, which is not installed: pip install "
            "'headwise[sweep]', or pip install optuna"
        )


def import_optuna() -> Any:
    """Return the module ``optuna``; raise ``MissingOptunaError`` without it."""
    try:
        import optuna
    except ImportError:
        raise MissingOptunaError from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@dataclass(frozen=True)
class OptunaSearch:
    """Proposes combinations of ``varied`` by a tree-structured Parzen estimator (TPE).

    ``seed``, the number of the proposal and the attempt determine what is drawn.
    """

    varied: Sequence[Varied]
    seed: int
    lower_is_better: bool

    def propose(self, trials: Sequence[Trial]) -> Settings | None:
        """Return a new combination, given the ``trials`` of the ledger.

        None if ``ATTEMPTS`` proposals were all there already, as in a small space.
        """
        known = {each.combination for each in trials}
        for attempt in range(ATTEMPTS):
            settings = self._draw(ATTEMPTS * len(known) + attempt, trials)
            if combination_key(settings) not in known:
                return settings
        return None

    def _draw(self, number: int, trials: Sequence[Trial]) -> Settings:
        optuna = import_optuna()
        study = optuna.create_study(
            direction="minimize" if self.lower_is_better else "maximize",
            sampler=optuna.samplers.TPESampler(
                seed=(self.seed + number) % SEEDS, constant_liar=True
            ),
        )
        distributions = {each.path: _distribution(each) for each in self.varied}
        for same in _by_combination(trials):
            study.add_trial(self._replayed(optuna, same, distributions))
        params = study.ask(fixed_distributions=distributions).params
        return {
            each.path: params[each.path]
            if isinstance(each, Range)
            else json.loads(params[each.path])
            for each in self.varied
        }

    def _replayed(
        self,
        optuna: Any,
        same: Sequence[Trial],
        distributions: Mapping[str, BaseDistribution],
    ) -> FrozenTrial:
        """Return the trials of one combination as one of Optuna: the mean of seeds."""
        states = optuna.trial.TrialState
        values = [each.value for each in same if each.value is not None]
        value: float | None = mean(values) if values else None
        ends = {each.state for each in same}
        intermediate: dict[int, float] = {}
        if ends & {"waiting", "running"}:
            state, value = states.RUNNING, None
        elif "failed" in ends or value is None:
            state, value = states.FAIL, None
        elif "stopped early" in ends:
            state = states.PRUNED
            intermediate = {max(each.updates for each in same): value}
        else:
            state = states.COMPLETE
        frozen = optuna.trial.FrozenTrial(
            number=-1,  # the study gives it one
            trial_id=-1,
            state=state,
            value=value,
            datetime_start=LONG_AGO,
            datetime_complete=None if state == states.RUNNING else LONG_AGO,
            params={
                each.path: same[0].settings[each.path]
                if isinstance(each, Range)
                else json.dumps(same[0].settings[each.path])
                for each in self.varied
            },
            distributions=dict(distributions),
            user_attrs={},
            system_attrs={},
            intermediate_values=intermediate,
        )
        result: FrozenTrial = frozen
        return result


def _distribution(varied: Varied) -> BaseDistribution:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if not isinstance(varied, Range):
        # Lists are no categories that Optuna stores; their text is.
        return CategoricalDistribution([json.dumps(each) for each in varied.values])
    if varied.is_whole:
        return IntDistribution(int(varied.low), int(varied.high), log=varied.log)
    return FloatDistribution(varied.low, varied.high, log=varied.log)


def _by_combination(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Return the trials that differ in their seed alone together, in order."""
    found: dict[str, list[Trial]] = {}
    for each in trials:
        found.setdefault(each.combination, []).append(each)
    return list(found.values())
