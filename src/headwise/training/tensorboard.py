"""TensorBoard event files: ``tensorboard --logdir RUN``.

Records are encoded by tensorboard's own library. Its asynchronous writer is not used:
each record is on disk before the next step, and no lock is held when the process has to
end.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headwise.storage import resource_error
from headwise.training.callbacks import StepMetrics
from headwise.training.log import is_in_checkpoint
from headwise.training.settings import TrainingSettings
from headwise.training.state import LIVE, TrainingState
from headwise.training.validation import Validation

FILES = "events.out.tfevents."
"""File name prefix by which TensorBoard finds event files."""

NAMES = {LIVE: "validation"}
"""Name of the validated weights -> name of their curves; else ``averaged``."""

HEADER = struct.Struct("<QI")
"""Record header: the length, and its checksum."""


class TensorBoardEvents:
    """A callback that writes events; on resuming, those beyond the checkpoint go."""

    def __init__(self, folder: Path, *, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        self._path: Path | None = None

    def on_start(
        self, state: TrainingState, settings: TrainingSettings, epoch_batches: int
    ) -> None:
        """Truncate files to the events up to ``state``, and start a new file."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self.folder.glob(f"{FILES}*")):
                _truncate(path, state)
        except OSError as error:
            self._disable(error)
            return
        self._path = self.folder / f"{FILES}{time.time():017.6f}.headwise"
        self._write(Event(file_version="brain.Event:2"))
        # An open TensorBoard drops the events of these steps that it has read.
        anew = SessionLog(status=SessionLog.START)
        self._write(Event(step=state.step + 1, session_log=anew))

    def on_step(self, update: StepMetrics, state: TrainingState) -> None:
        """Add a point to each curve of training."""
        curves = {
            "loss/training": update.loss,
            "training/learning rate": update.learning_rate,
            "training/gradient norm": update.gradient_norm,
            "training/tokens per second": update.tokens / max(update.seconds, 1e-9),
        }
        if update.kl_divergence is not None:
            curves["training/KL divergence"] = update.kl_divergence
        self._scalars(update.step, curves)

    def on_validation(
        self, validation: Validation, state: TrainingState, name: str, best: bool
    ) -> None:
        """Add a point to each curve of validation, and the samples."""
        where = NAMES.get(name, "averaged")
        scores = validation.scores.values()
        self._scalars(
            state.step,
            {
                f"loss/{where}": validation.loss,
                **{f"scores/{each.name}, {where}": each.value for each in scores},
            },
        )
        texts = {
            f"sample {number}, {where}/text_summary": (
                f"    source     {sample.source}\n"
                f"    reference  {sample.reference}\n"
                f"    output     {sample.output}"
            )
            for number, sample in enumerate(validation.samples, start=1)
        }
        self._texts(state.step, texts)

    def on_message(self, text: str) -> None:
        """Ignore messages: TensorBoard has no place for text without a step."""

    def on_end(self, state: TrainingState, reason: str) -> None:
        """Do nothing: every record is on disk already."""

    def _scalars(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        value = [Summary.Value(tag=t, simple_value=v) for t, v in values.items()]
        self._write(Event(step=step, summary=Summary(value=value)))

    def _texts(self, step: int, texts: Mapping[str, str]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        plugin = SummaryMetadata.PluginData(plugin_name="text")
        about = SummaryMetadata(plugin_data=plugin)
        value = [
            Summary.Value(
                tag=tag,
                metadata=about,
                tensor=TensorProto(
                    dtype=DT_STRING, string_val=[text.encode("utf-8", "replace")]
                ),
            )
            for tag, text in texts.items()
        ]
        self._write(Event(step=step, summary=Summary(value=value)))

    def _write(self, event: Any) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        if self._path is None:
            return
        event.wall_time = time.time()
        try:
            with self._path.open("ab") as file:
                RecordWriter(file).write(event.SerializeToString())
        except OSError as error:
            self._disable(error)

    def _disable(self, error: OSError) -> None:
        """Write no more events, and say so: training goes on without them."""
        self._path = None
        self.say(
            f"no more events for TensorBoard are written, training goes on: "
            f"{resource_error(error, self.folder)}"
        )


def _truncate(path: Path, state: TrainingState) -> None:
    """Truncate an event file before the first event that ``state`` lacks."""
    end = 0
    for event, after in _events(path.read_bytes()):
        if not is_in_checkpoint(_entry(event), state):
            break
        end = after
    with path.open("r+b") as file:
        file.truncate(end)


def _events(content: bytes) -> Iterator[tuple[Any, int]]:
    """Yield (event, end offset) of each whole record; half a record ends the file."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    start = 0
    while start + HEADER.size <= len(content):
        length, checksum = HEADER.unpack_from(content, start)
        begin, end = start + HEADER.size, start + HEADER.size + length + 4
        if checksum != masked_crc32c(content[start : start + 8]) or end > len(content):
            return
        try:
            yield Event.FromString(content[begin : end - 4]), end
        except DecodeError:
            return
        start = end


def _entry(event: Any) -> dict[str, Any]:
    """Return an event as a log entry, as far as :func:`is_in_checkpoint` reads it."""
    if not event.HasField("summary"):
        return {}
    tags = [value.tag for value in event.summary.value]
    averaged = any("averaged" in tag for tag in tags)
    is_validation = averaged or any("validation" in tag for tag in tags)
    return {
        "what": "validation" if is_validation else "update",
        "name": "averaged" if averaged else LIVE,
        "step": event.step,
    }
