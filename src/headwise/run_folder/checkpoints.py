"""Checkpoints: all that is needed to go on, in folders that are whole or absent."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from headwise import storage
from headwise.errors import HeadwiseError, ModelError
from headwise.run_folder.model_folder import WEIGHTS
from headwise.run_folder.tensors import read_tensors, write_tensors
from headwise.settings import as_table, read
from headwise.training.state import TrainingState

OPTIMIZER = "optimizer.safetensors"
EMA = "ema.safetensors"
STATE = "state.json"
NAME = re.compile(r"step-(\d{8,})")
DAMAGED = "damaged-"


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

    def paths(self) -> list[Path]:
        """Return the folders that are there, oldest first."""
        found = [p for p in self.folder.glob("step-*") if NAME.fullmatch(p.name)]
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
        """Write a checkpoint and read it back."""
        path = self.folder / f"step-{state.step:08d}"
        describe = {"kind": "checkpoint", "corpus": corpus}
        with storage.new_folder(path, describe=describe) as folder:
            write_tensors(folder / WEIGHTS, weights)
            write_tensors(folder / OPTIMIZER, optimizer)
            if ema is not None:
                write_tensors(folder / EMA, ema)
            storage.write_json(folder / STATE, as_table(state))
        storage.verify(path)
        return path

    def newest(self) -> Checkpoint | None:
        """Open the newest checkpoint that verifies; set aside those that do not."""
        damaged: list[tuple[Path, HeadwiseError]] = []
        for path in reversed(self.paths()):
            try:
                found = self._open(path)
            except HeadwiseError as error:
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
                storage.verify(path)
                weights = read_tensors(path / WEIGHTS)
            except ModelError as error:
                self.say(f"checkpoint {path.name} is left out of the mean: {error}")
            else:
                yield weights

    def forget_old(self, keep: int, rhythm: int) -> None:
        """Delete all but the newest and the last ``keep`` of the rhythm."""
        kept = {*self._in_rhythm(rhythm)[-keep:], *self.paths()[-2:]}
        for path in self.paths():
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def _in_rhythm(self, rhythm: int) -> list[Path]:
        paths = self.paths()
        return [p for p in paths if step_of(p) % rhythm == 0 or p == paths[-1]]

    def _open(self, path: Path) -> Checkpoint:
        manifest = storage.verify(path)
        return Checkpoint(
            path=path,
            state=read(TrainingState, storage.read_json(path / STATE)),
            weights=read_tensors(path / WEIGHTS),
            optimizer=read_tensors(path / OPTIMIZER),
            ema=read_tensors(path / EMA) if EMA in manifest["files"] else None,
        )

    def _set_aside(self, path: Path, error: HeadwiseError) -> None:
        """Rename what cannot be used, so that its step can be reached again."""
        aside = path.with_name(f"{DAMAGED}{path.name}")
        self.say(f"{path.name} cannot be used and is now {aside.name}: {error}")
        try:
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
        except OSError as refusal:
            raise storage.resource_error(refusal, path) from refusal


def step_of(path: Path) -> int:
    """Return the updates after which a checkpoint was made."""
    return int(path.name.removeprefix("step-"))
