"""Checkpoints: all that is needed to go on, in folders that are whole or absent."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from headwise import storage
from headwise.errors import HeadwiseError, ModelError
from headwise.run_folder.model_folder import WEIGHTS, read_tensors, write_tensors
from headwise.settings import as_table, read
from headwise.training.state import TrainingState

OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """What a run goes on from."""

    state: TrainingState
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]


class Checkpoints:
    """The folders ``step-00001200`` of one run, oldest first."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say

    def paths(self) -> list[Path]:
        """Return the folders that are there, oldest first."""
        return sorted(self.folder.glob("step-[0-9]*"))

    def save(
        self,
        state: TrainingState,
        weights: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
    ) -> Path:
        """Write a checkpoint and read it back."""
        path = self.folder / f"step-{state.step:08d}"
        with storage.new_folder(path, describe={"kind": "checkpoint"}) as folder:
            write_tensors(folder / WEIGHTS, weights)
            write_tensors(folder / OPTIMIZER, optimizer)
            storage.write_json(folder / STATE, as_table(state))
        storage.verify(path)
        return path

    def newest(self) -> Checkpoint | None:
        """Open the newest checkpoint that verifies; say which ones do not."""
        for path in reversed(self.paths()):
            try:
                return self._open(path)
            except HeadwiseError as error:
                self.say(f"checkpoint {path.name} cannot be used: {error}")
        if self.paths():
            raise ModelError(
                f"no checkpoint in {self.folder} can be used; start the run anew in "
                "another folder"
            )
        return None

    def last_weights(self, count: int, rhythm: int) -> Iterator[dict[str, Tensor]]:
        """Yield the weights of the last checkpoints made every ``rhythm`` steps.

        The newest counts whatever its step is; one that a stop signal made in between
        does not, so that an interrupted run averages what an uninterrupted one does.
        """
        for path in self._in_rhythm(rhythm)[-count:]:
            storage.verify(path)
            yield read_tensors(path / WEIGHTS)

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
        storage.verify(path)
        return Checkpoint(
            state=read(TrainingState, storage.read_json(path / STATE)),
            weights=read_tensors(path / WEIGHTS),
            optimizer=read_tensors(path / OPTIMIZER),
        )


def step_of(path: Path) -> int:
    """Return the updates after which a checkpoint was made."""
    return int(path.name.removeprefix("step-"))
