"""Text generation with a language model: whole, or streamed token by token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, NoReturn

from headwise.decoding.settings import DecodingSettings
from headwise.errors import ModelError, UsageError
from headwise.inference.arguments import (
    cannot_pickle,
    check_device,
    checked_folders,
)
from headwise.inference.background_thread import BackgroundThread
from headwise.run_folder.model_folder import ModelFolder, open_model_folder
from headwise.run_folder.paths import model_path
from headwise.settings import changed_by
from headwise.tasks.language_model.task import LanguageModelling
from headwise.text_arguments import checked_text

if TYPE_CHECKING:
    import torch


class TextGenerator:
    """An opened language model."""

    def __init__(self, opened: ModelFolder) -> None:
        task = opened.any_task
        if not isinstance(task, LanguageModelling):
            raise ModelError(
                f"{opened.path} is a model of {opened.task_name}, not a language model"
            )
        self.opened = opened
        self.task = task

    @classmethod
    def open(
        cls, folder: str | Path, *, device: torch.device | str = "cpu"
    ) -> TextGenerator:
        """Open a run folder or a model folder."""
        check_device(device)
        path, *others = checked_folders(folder)
        if others:
            raise UsageError("one folder is opened, not several")
        return cls(open_model_folder(model_path(path), device=device))

    def __reduce__(self) -> NoReturn:
        raise cannot_pickle("TextGenerator")

    def generate(self, prompt: str = "", **search: Any) -> str:
        """Return ``prompt`` with its best continuation.

        ``search`` overrides decoding settings, such as ``temperature=0.8``.
        """
        settings = self._settings(search)
        ((best, *_),) = self.task.generate(
            self.opened.model, [checked_text(prompt)], settings
        )
        return self.task.text(prompt, best)

    def unread_tokens(self, prompt: str) -> int:
        """Return how many of a prompt's first tokens are beyond the context.

        The continuation does not depend on them.
        """
        (tokens,) = self.task.encode([checked_text(prompt)])
        return max(0, len(tokens) - (self.task.context - 1))

    def can_stream(self, **search: Any) -> bool:
        """Tell whether each token is final once it is chosen."""
        return self._settings(search).num_candidates == 1

    def stream(self, prompt: str = "", **search: Any) -> Iterator[str]:
        """Yield the continuation of ``prompt`` in pieces, as they are generated.

        The pieces together are what :meth:`generate` adds to the prompt. The search
        ends when the iterator is closed. Raises ``UsageError`` for a search that keeps
        several hypotheses.
        """
        settings = self._settings(search)
        queue: Queue[int | list[int] | BaseException] = Queue()

        def run(check_stop: Callable[[], None]) -> None:
            def put(token: int) -> None:
                check_stop()
                queue.put(token)

            try:
                ((best, *_),) = self.task.generate(
                    self.opened.model,
                    [checked_text(prompt)],
                    settings,
                    on_token=put,
                )
                queue.put(list(best.tokens))
            except BaseException as error:  # raised again where the text is wanted
                queue.put(error)

        thread = BackgroundThread(run)
        try:
            yield from self._pieces(queue)
        finally:
            thread.cancel()

    def _pieces(self, queue: Queue[int | list[int] | BaseException]) -> Iterator[str]:
        """Yield the text of the tokens of a queue, as soon as it is final."""
        tokens: list[int] = []
        written = ""
        while True:
            found = queue.get()
            if isinstance(found, BaseException):
                raise found
            is_whole = isinstance(found, list)
            tokens = found if isinstance(found, list) else [*tokens, found]
            text = self.task.tokenizers.target.decode(tokens)
            # Bytes of an unfinished character decode to a replacement character.
            ready = text if is_whole else text.rstrip("\ufffd")
            if len(ready) > len(written) and ready.startswith(written):
                yield ready[len(written) :]
                written = ready
            if is_whole:
                return

    def _settings(self, search: Mapping[str, Any]) -> DecodingSettings:
        return replace(changed_by(self.opened.decoding, search), num_best=1)
