"""Checkpoints: all that is needed to resume, in folders that are written atomically.

docs/checkpoints.md describes every file and field.
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
from headwise.run_folder.paths import CHECKPOINT, WEIGHTS
from headwise.run_folder.safetensors_files import (
    check_dtypes,
    read_tensors,
    write_tensors,
)
from headwise.settings import as_table, read
from headwise.training.optimizer import UPDATES
from headwise.training.state import TrainingState

OPTIMIZER = "optimizer.safetensors"
EMA = "ema.safetensors"
STATE = "state.json"
KIND = "checkpoint"
FORMAT = 1
NUM_VALID = 2
"""Number of verified checkpoints that rotation always keeps."""


@dataclass(frozen=True)
class Checkpoint:
    """What training resumes from."""

    path: Path
    state: TrainingState
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    ema: dict[str, Tensor] | None = None
    """EMA of the weights, if the run has one."""


class Checkpoints:
    """The folders ``step-00001200`` of one run, oldest first."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        self._verified: Path | None = None
        self._damaged: set[Path] = set()

    def paths(self) -> list[Path]:
        """Return all checkpoint folders, oldest first."""
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
        """Write a checkpoint, flush it to disk, and read it back."""
        path = self._path(state.step)
        storage.set_aside_foreign(path, KIND)  # a damaged one of the same step
        describe = {"kind": KIND, "step": state.step, "corpus": corpus}
        with storage.new_folder(path, describe=describe) as folder:
            write_tensors(folder / WEIGHTS, weights)
            write_tensors(folder / OPTIMIZER, optimizer)
            if ema is not None:
                write_tensors(folder / EMA, ema)
            storage.write_json(folder / STATE, {"format": FORMAT, **as_table(state)})
        self._verified = path
        self._damaged.discard(path)
        return path

    def newest(self) -> Checkpoint | None:
        """Open the newest intact checkpoint; rename damaged ones; delete leftovers.

        Returns None without checkpoints; raises ``ModelError`` if none can be used.
        """
        self._remove_leftovers()
        damaged: list[tuple[Path, ModelError]] = []
        for path in reversed(self.paths()):
            try:
                found = self.open(path)
            except storage.NewerFormat:
                raise  # intact, and an older one would lose progress
            except ModelError as error:
                damaged.append((path, error))
            else:
                for each in damaged:
                    self._set_aside(*each)
                return found
        if damaged:
            raise ModelError(
                f"no checkpoint in {self.folder} can be used ({damaged[0][1]}); start "
                "a new run in another folder"
            )
        return None

    def newest_corpus(self) -> str | None:
        """Return the fingerprint of the training corpus, if known."""
        for path in reversed(self.paths()):
            try:
                corpus = storage.read_manifest(path).get("corpus")
            except ModelError:
                continue
            return corpus if isinstance(corpus, str) else None
        return None

    def newest_state(self) -> TrainingState | None:
        """Return the newest training state that can be read; change nothing."""
        for path in reversed(self.paths()):
            try:
                return _read_state(path)
            except ModelError:
                continue
        return None

    def last_weights(self, count: int, interval: int) -> Iterator[dict[str, Tensor]]:
        """Yield the weights of the last checkpoints at multiples of ``interval``.

        The newest counts at any step; one saved by a stop signal in between does not,
        so that an interrupted run averages the same checkpoints as an uninterrupted
        one.
        """
        for path in self._regular(interval)[-count:]:
            try:
                _verify(path)
                weights = _read_float32(path / WEIGHTS)
            except ModelError as error:
                self.say(f"checkpoint {path.name} is left out of the average: {error}")
            else:
                yield weights

    def delete_old(self, keep: int, interval: int) -> None:
        """Delete all but the newest two and ``keep`` at multiples of ``interval``.

        The checkpoint of the best model is kept too, and so are the last two that
        verify: they are read before anything is deleted. Without two, nothing is
        deleted.
        """
        paths = self.paths()
        kept = {*self._regular(interval)[-keep:], *paths[-2:]}
        if kept.issuperset(paths):
            return
        valid = self._last_valid(NUM_VALID)
        if len(valid) < NUM_VALID:
            return
        best = self._path(_read_state(valid[0]).best_step)
        for path in paths:
            if path not in {*kept, *valid, best}:
                self._delete(path)

    def _regular(self, interval: int) -> list[Path]:
        paths = self.paths()
        return [p for p in paths if step_of(p) % interval == 0 or p == paths[-1]]

    def _last_valid(self, count: int) -> list[Path]:
        """Return the last ``count`` checkpoints that verify, newest first."""
        valid: list[Path] = []
        for path in reversed(self.paths()):
            if len(valid) < count and self._is_valid(path):
                valid.append(path)
        return valid

    def _is_valid(self, path: Path) -> bool:
        """Verify a checkpoint, unless it was just saved or is known to be damaged."""
        if path == self._verified:
            return True
        if path not in self._damaged:
            try:
                _verify(path)
            except ModelError as error:
                self.say(f"{path.name} is damaged, so an older one is kept: {error}")
                self._damaged.add(path)
        return path not in self._damaged

    def _delete(self, path: Path) -> None:
        try:
            storage.remove_folder(path)
        except OSError as error:
            self.say(f"{path.name} is old, but cannot be deleted: {error}")

    def open(self, path: Path) -> Checkpoint:
        """Open one checkpoint; raise ``ModelError`` if it is damaged."""
        manifest = _verify(path)
        return Checkpoint(
            path=path,
            state=_read_state(path),
            weights=_read_float32(path / WEIGHTS),
            optimizer=_read_float32(path / OPTIMIZER, except_for={UPDATES}),
            ema=_read_float32(path / EMA) if EMA in manifest["files"] else None,
        )

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def _remove_leftovers(self) -> None:
        if self.folder.is_dir():
            try:
                storage.remove_leftovers(self.folder)
            except OSError as error:
                self.say(f"leftovers in {self.folder} cannot be deleted: {error}")

    def _set_aside(self, path: Path, error: ModelError) -> None:
        """Rename a damaged checkpoint, so that its step can be saved again."""
        aside = storage.set_aside(path)
        self.say(f"{path.name} cannot be used and is now {aside.name}: {error}")


def _verify(path: Path) -> dict[str, Any]:
    """Verify a checkpoint against its manifest and its name; return the manifest."""
    manifest = storage.verify(path)
    if manifest.get("kind") != KIND:
        raise ModelError(
            f"{path} contains a {manifest.get('kind')}, not a {KIND}: something else "
            "was copied into its place"
        )
    step = _read_state(path).step
    if step != step_of(path) or manifest.get("step", step) != step:
        raise ModelError(
            f"{path} contains the state after update {step:,}: another checkpoint was "
            "renamed or copied into its place"
        )
    return manifest


def _read_float32(
    path: Path, *, except_for: Set[str] = frozenset()
) -> dict[str, Tensor]:
    """Read tensors; raise ``ModelError`` unless all are float32."""
    tensors = read_tensors(path)
    learned = {name: each for name, each in tensors.items() if name not in except_for}
    check_dtypes(learned, path, [torch.float32])
    return tensors


def _read_state(path: Path) -> TrainingState:
    """Read state.json of this format, or of an older one with fewer fields."""
    table = storage.read_json(path / STATE)
    if not isinstance(table, dict):
        raise ModelError(
            f"{path / STATE} is not a training state: it is not a JSON object"
        )
    found = table.pop("format", FORMAT)
    unknown = sorted(table.keys() - {field.name for field in fields(TrainingState)})
    if unknown or found != FORMAT:
        what = f"contains {', '.join(unknown)}" if unknown else f"has format {found!r}"
        raise storage.NewerFormat(
            f"{path / STATE} {what}, which this version does not know (it reads format "
            f"{FORMAT}): use a newer headwise"
        )
    try:
        return read(TrainingState, table)
    except SettingsError as error:
        raise ModelError(f"{path / STATE} is not a training state:\n{error}") from None


def step_of(path: Path) -> int:
    """Return the number of updates of a checkpoint."""
    return int(path.name.removeprefix("step-"))
