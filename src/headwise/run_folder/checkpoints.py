"""Checkpoints: all that is needed to go on, in folders that are whole or absent.

docs/checkpoints.md says what is in them, field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise import storage
from headwise.errors import ModelError, SettingsError
from headwise.run_folder.model_folder import WEIGHTS
from headwise.run_folder.paths import CHECKPOINT
from headwise.run_folder.tensors import check_dtypes, read_tensors, write_tensors
from headwise.settings import as_table, read
from headwise.training.optimizer import UPDATES
from headwise.training.state import TrainingState

OPTIMIZER = "optimizer.safetensors"
EMA = "ema.safetensors"
STATE = "state.json"
KIND = "checkpoint"
FORMAT = 1
NUM_WHOLE = 2
"""Checkpoints that were found whole and are kept, whatever else is rotated away."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run goes on from."""

    path: Path
    state: TrainingState
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    ema: dict[str, Tensor] | None = None
    """The running mean of the weights, where the run keeps one."""


class Checkpoints:
    """The folders ``step-00001200`` of one run, oldest first."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        self._read_back: Path | None = None
        self._damaged: set[Path] = set()

    def paths(self) -> list[Path]:
        """Return the folders that are there, oldest first."""
        found = [p for p in self.folder.glob("step-*") if CHECKPOINT.fullmatch(p.name)]
        return sorted(found, key=step_of)

    def save(
        self,
        state: TrainingState,
        weights: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        ema: Mapping[str, Tensor] | None = None,
        *,
        corpus: str,
    ) -> Path:
        """Write a checkpoint; after this the disk holds it, and it was read back."""
        path = self._path(state.step)
        storage.make_way(path, KIND)  # a damaged one of the same step
        describe = {"kind": KIND, "step": state.step, "corpus": corpus}
        with storage.new_folder(path, describe=describe) as folder:
            write_tensors(folder / WEIGHTS, weights)
            write_tensors(folder / OPTIMIZER, optimizer)
            if ema is not None:
                write_tensors(folder / EMA, ema)
            storage.write_json(folder / STATE, {"format": FORMAT, **as_table(state)})
        self._read_back = path
        self._damaged.discard(path)
        return path

    def newest(self) -> Checkpoint | None:
        """Open the newest checkpoint that verifies; set aside those that do not.

        What a killed run left half-written is cleared away.
        """
        self._sweep()
        damaged: list[tuple[Path, ModelError]] = []
        for path in reversed(self.paths()):
            try:
                found = self.open(path)
            except storage.NewerFormat:
                raise  # it is whole, and an older one would lose what was learned since
            except ModelError as error:
                damaged.append((path, error))
            else:
                for each in damaged:
                    self._set_aside(*each)
                return found
        if damaged:
            raise ModelError(
                f"no checkpoint in {self.folder} can be used ({damaged[0][1]}); start "
                "the run anew in another folder"
            )
        return None

    def newest_corpus(self) -> str | None:
        """Return the fingerprint of the corpus that was learned from, if known."""
        for path in reversed(self.paths()):
            try:
                corpus = storage.read_manifest(path).get("corpus")
            except ModelError:
                continue
            return corpus if isinstance(corpus, str) else None
        return None

    def last_weights(self, count: int, rhythm: int) -> Iterator[dict[str, Tensor]]:
        """Yield the weights of the last checkpoints made every ``rhythm`` steps.

        The newest counts whatever its step is; one that a stop signal made in between
        does not, so that an interrupted run averages what an uninterrupted one does.
        """
        for path in self._in_rhythm(rhythm)[-count:]:
            try:
                _verify(path)
                weights = _read_float32(path / WEIGHTS)
            except ModelError as error:
                self.say(f"checkpoint {path.name} is left out of the mean: {error}")
            else:
                yield weights

    def forget_old(self, keep: int, rhythm: int) -> None:
        """Delete all but the newest two and the last ``keep`` of the rhythm.

        The checkpoint of the best model stays too, and so do the last two that verify:
        before one is deleted, those are read. Where there are no two, none is.
        """
        paths = self.paths()
        kept = {*self._in_rhythm(rhythm)[-keep:], *paths[-2:]}
        if kept.issuperset(paths):
            return
        whole = self._last_whole(NUM_WHOLE)
        if len(whole) < NUM_WHOLE:
            return
        best = self._path(_read_state(whole[0]).best_step)
        for path in paths:
            if path not in {*kept, *whole, best}:
                self._forget(path)

    def _in_rhythm(self, rhythm: int) -> list[Path]:
        paths = self.paths()
        return [p for p in paths if step_of(p) % rhythm == 0 or p == paths[-1]]

    def _last_whole(self, count: int) -> list[Path]:
        """Return the last checkpoints that verify, the newest first."""
        whole: list[Path] = []
        for path in reversed(self.paths()):
            if len(whole) < count and self._is_whole(path):
                whole.append(path)
        return whole

    def _is_whole(self, path: Path) -> bool:
        """Verify a checkpoint; the one just saved was, and a damaged one stays so."""
        if path == self._read_back:
            return True
        if path not in self._damaged:
            try:
                _verify(path)
            except ModelError as error:
                self.say(f"{path.name} was damaged, so an older one is kept: {error}")
                self._damaged.add(path)
        return path not in self._damaged

    def _forget(self, path: Path) -> None:
        try:
            storage.remove_folder(path)
        except OSError as error:
            self.say(f"{path.name} is old, but cannot be deleted: {error}")

    def open(self, path: Path) -> Checkpoint:
        """Open one checkpoint; where it cannot be trusted, that is a ``ModelError``."""
        manifest = _verify(path)
        return Checkpoint(
            path=path,
            state=_read_state(path),
            weights=_read_float32(path / WEIGHTS),
            optimizer=_read_float32(path / OPTIMIZER, but={UPDATES}),
            ema=_read_float32(path / EMA) if EMA in manifest["files"] else None,
        )

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def _sweep(self) -> None:
        if self.folder.is_dir():
            try:
                storage.sweep(self.folder)
            except OSError as error:
                self.say(f"leftovers in {self.folder} cannot be cleared away: {error}")

    def _set_aside(self, path: Path, error: ModelError) -> None:
        """Rename what cannot be used, so that its step can be reached again."""
        aside = storage.set_aside(path)
        self.say(f"{path.name} cannot be used and is now {aside.name}: {error}")


def _verify(path: Path) -> dict[str, Any]:
    """Check a checkpoint against its manifest, and both against its name."""
    manifest = storage.verify(path)
    if manifest.get("kind") != KIND:
        raise ModelError(
            f"{path} holds a {manifest.get('kind')}, not a {KIND}: something else was "
            "put in its place"
        )
    step = _read_state(path).step
    if step != step_of(path) or manifest.get("step", step) != step:
        raise ModelError(
            f"{path} holds the state after update {step:,}: another checkpoint was "
            "renamed or copied into its place"
        )
    return manifest


def _read_float32(path: Path, *, but: Set[str] = frozenset()) -> dict[str, Tensor]:
    """Read tensors that training goes on from, which are all float32 as written."""
    tensors = read_tensors(path)
    learned = {name: each for name, each in tensors.items() if name not in but}
    check_dtypes(learned, path, [torch.float32])
    return tensors


def _read_state(path: Path) -> TrainingState:
    """Read a state of this format or an older one, in which fields may be missing."""
    table = storage.read_json(path / STATE)
    if not isinstance(table, dict):
        raise ModelError(f"{path / STATE} is not a state of ours, which is a table")
    found = table.pop("format", FORMAT)
    unknown = sorted(table.keys() - {field.name for field in fields(TrainingState)})
    if unknown or found != FORMAT:
        what = f"holds {', '.join(unknown)}" if unknown else f"has format {found!r}"
        raise storage.NewerFormat(
            f"{path / STATE} {what}, which this version does not know (it reads format "
            f"{FORMAT}): use a newer headwise"
        )
    try:
        return read(TrainingState, table)
    except SettingsError as error:
        raise ModelError(f"{path / STATE} is not a state of ours:\n{error}") from None


def step_of(path: Path) -> int:
    """Return the updates after which a checkpoint was made."""
    return int(path.name.removeprefix("step-"))
