"""The Python interface to a trained model of any task: raw text in, outputs out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from headwise.errors import DataError, SettingsError, UsageError
from headwise.inference.arguments import (
    cannot_pickle,
)
from headwise.run_folder.model_folder import ModelFolder
from headwise.settings import changed_by
from headwise.tasks.prediction import InputError, Prediction
from headwise.text.dialogue import check_input
from headwise.text.nonblocking_lines import Pause
from headwise.text_arguments import check_list, checked_text, checked_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headwise.inspection.inspector import Inspector

READ_AHEAD = 1024
"""Lines that are collected to be predicted together."""


class Predictor:
    """An opened model folder of any task.

    A text is one line; a blank one gives a blank output.
    """

    def __init__(self, opened: ModelFolder) -> None:
        self.opened = opened
        self._task = opened.any_task
        self._model = opened.model

    @property
    def task(self) -> str:
        """Name of the task, such as ``classification``."""
        return self._task.name

    @cached_property
    def inspector(self) -> Inspector:
        """What looks into the model."""
        from headwise.inspection.inspector import Inspector

        return Inspector(self._task, self._model, self.opened.decoding)

    def with_search(self, table: Mapping[str, Any]) -> Predictor:
        """Return a predictor of the same model with these decoding settings changed.

        Raises ``UsageError`` for settings that are refused.
        """
        if not isinstance(table, Mapping):
            raise UsageError(
                "decoding settings are a table (dict), such as {'beam': 5}, not "
                f"{table!r}"
            )
        try:
            decoding = changed_by(self.opened.decoding, table)
        except SettingsError as error:
            raise UsageError(f"invalid decoding settings:\n{error}") from None
        return Predictor(replace(self.opened, decoding=decoding))

    @overload
    def predict(self, text: str) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def predict(self, text: Iterable[str]) -> list[str]: ...

    def predict(self, text: str | Iterable[str]) -> str | list[str]:
        """Return the output for a text, or for each text of a list."""
        outputs = [each.output for each in self.predictions(checked_texts(text))]
        return outputs[0] if isinstance(text, str) else outputs

    def predictions(self, texts: Iterable[str]) -> list[Prediction]:
        """Return the output for each text with its log-probability."""
        check_list("texts", texts)
        return self._predictions([checked_text(each) for each in texts])

    def predictions_of_sources(self, sources: Sequence[str]) -> list[Prediction]:
        """Return the output for the source of each example, as preparation reads it.

        Of a dialogue it has the symbols of roles, which other input must not have.
        """
        return self._task.predictions(self._model, sources, self.opened.decoding)

    def lines(self, lines: Iterable[str | Pause]) -> Iterator[Prediction]:
        """Yield the output for each line, in order; N lines in, N lines out.

        Lines are read ahead, so that many are computed together. ``PAUSE`` among them,
        which is no line, makes all lines before it be computed first. Raises
        ``DataError``, with the number of the line, for one that cannot be used.
        """
        check_list("lines", lines)
        waiting: list[str] = []
        done = 0
        for line in lines:
            if not isinstance(line, Pause):
                waiting.append(checked_text(line))
                if len(waiting) < READ_AHEAD:
                    continue
            yield from self._predictions_of_lines(waiting, after=done)
            done += len(waiting)
            waiting = []
        yield from self._predictions_of_lines(waiting, after=done)

    def embed(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return what the encoder makes of each text, as one vector: [N D].

        It is what labels are predicted from, or else the mean over the tokens. Zeros
        for a blank text.
        """
        check_list("texts", texts)
        given = [checked_text(each) for each in texts]
        import numpy as np

        width = self.opened.config.d_model
        return np.array(
            [
                np.zeros(width, np.float32) if each is None else each.float().numpy()
                for each in self._task.vectors(self._model, given)
            ],
            dtype=np.float32,
        ).reshape(len(given), width)

    def _predictions_of_lines(
        self, lines: Sequence[str], *, after: int
    ) -> list[Prediction]:
        """Return the outputs of lines that come ``after`` so many others."""
        try:
            return self._predictions(lines)
        except InputError as error:
            number = after + error.index + 1
            raise DataError(f"line {number:,}: {error.reason}") from None

    def _predictions(self, texts: Sequence[str]) -> list[Prediction]:
        if not texts:
            return []
        if self.task == "dialogue":
            for index, text in enumerate(texts):
                try:
                    check_input(text)
                except DataError as error:
                    raise InputError(index, str(error)) from None
        return self.predictions_of_sources(texts)

    def __reduce__(self) -> Any:
        """Raise ``UsageError``: weights and threads belong to this process."""
        raise cannot_pickle("Predictor")
