"""See every file operation of this process below a folder, and refuse some of them.

Python's own ways to the file system are replaced while a ``Recorder`` is at work. That
nothing gets past it is shown, not assumed: ``crashes`` compares the folder with what
the recorded operations lead to, after each of them.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from headwise.storage import disk


@dataclass(frozen=True, slots=True)
class Operation:
    """One call; paths are relative to the folder that is watched."""

    name: str
    """create, truncate, write, sync, make, rename, swap, unlink or rmdir."""

    path: str
    """What it is about; of a write or sync, the path it was opened under."""

    other: str = ""
    """The new name of what is renamed, or the other one of two that are swapped."""

    handle: int = 0
    """The opened file that is created, written or synced; 0 for what was opened."""

    start: int = 0
    """Where a write begins."""

    data: bytes = b""


Refuse = Callable[[int, Operation], int | None]
"""Is asked before each operation, with its number from 1, for an error's number."""

Seen = Callable[[Operation], None]


class Recorder:
    """Notes the operations below ``root``; what ``refuse`` names does not happen."""

    def __init__(
        self,
        root: Path,
        refuse: Refuse = lambda number, operation: None,
        seen: Seen = lambda operation: None,
    ) -> None:
        self.root = root.resolve()
        self.refuse = refuse
        self.seen = seen
        self.operations: list[Operation] = []
        self.num_tried = 0
        self._paths: dict[int, Path] = {}
        self._num_files = 0

    @contextmanager
    def at_work(self) -> Iterator[Recorder]:
        """Watch what the block does."""
        with ExitStack() as held:
            for module, name in (
                *((io, "open"), (builtins, "open"), (disk, "swap_names")),
                *((os, name) for name in ("open", "close", "fsync", "mkdir", "rename")),
                *((os, name) for name in ("replace", "unlink", "remove", "rmdir")),
            ):
                real = getattr(module, name)
                replacement = getattr(self, f"_{name}_of")(real)
                held.enter_context(patch.object(module, name, replacement))
            yield self

    def before(self, operation: Operation) -> None:
        """Refuse an operation that is about to happen, if it should be."""
        self.num_tried += 1
        code = self.refuse(self.num_tried, operation)
        if code is not None:
            # The system names the path where it was given one.
            by_path = operation.name not in ("write", "sync")
            named = [str(self.root / operation.path)] if by_path else []
            raise OSError(code, os.strerror(code), *named)

    def after(self, operation: Operation) -> None:
        """Note an operation that happened."""
        self.operations.append(operation)
        self.seen(operation)

    def name(self, path: Any, folder: int | None = None) -> str | None:
        """Return a path relative to the root; None for one outside of it."""
        if isinstance(path, int):
            return None
        full = Path(os.fsdecode(path))
        if folder is not None:
            full = self._paths.get(folder, Path("/")) / full
        full = Path(os.path.normpath(Path.cwd() / full))
        return str(full.relative_to(self.root)) if self.root in full.parents else None

    def new_handle(self) -> int:
        """Give the next file that is opened for writing its number."""
        self._num_files += 1
        return self._num_files

    def _open_of(self, real: Callable[..., Any]) -> Callable[..., Any]:
        if real is os.open:
            return self._opened_by_number(real)

        def opened(file: Any, mode: str = "r", buffering: int = -1, *a: Any, **k: Any):  # type: ignore[no-untyped-def]
            path = self.name(file)
            if path is None or not set(mode) & set("wax+"):
                return real(file, mode, buffering, *a, **k)
            raw = RecordedFile(self, file, path, mode.replace("t", "").replace("b", ""))
            if buffering == 0:
                return raw
            whole = io.BufferedWriter(raw)
            return whole if "b" in mode else io.TextIOWrapper(whole, *a, **k)

        return opened

    def _opened_by_number(self, real: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, *a: Any, dir_fd: int | None = None) -> int:
            name = self.name(path, dir_fd)
            assert name is None or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            number = real(path, flags, *a, dir_fd=dir_fd)
            if name is not None:
                self._paths[number] = self.root / name
            return number

        return opened

    def _close_of(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def close(number: int) -> None:
            self._paths.pop(number, None)
            real(number)

        return close

    def _fsync_of(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def fsync(number: int) -> None:
            path = self._paths.get(number)
            if path is None:
                return real(number)
            operation = Operation("sync", str(path.relative_to(self.root)))
            self.before(operation)
            real(number)
            return self.after(operation)

        return fsync

    def _mkdir_of(self, real: Callable[..., None]) -> Callable[..., None]:
        return self._one(real, "make")

    def _unlink_of(self, real: Callable[..., None]) -> Callable[..., None]:
        return self._one(real, "unlink")

    def _rmdir_of(self, real: Callable[..., None]) -> Callable[..., None]:
        return self._one(real, "rmdir")

    def _rename_of(self, real: Callable[..., Any]) -> Callable[..., Any]:
        return self._two(real, "rename")

    def _swap_names_of(self, real: Callable[..., Any]) -> Callable[..., Any]:
        return self._two(real, "swap")

    _remove_of = _unlink_of
    _replace_of = _rename_of

    def _one(self, real: Callable[..., None], what: str) -> Callable[..., None]:
        def call(path: Any, *a: Any, dir_fd: int | None = None, **k: Any) -> None:
            name = self.name(path, dir_fd)
            if name is None or not self._would_work(what, name):
                return real(path, *a, dir_fd=dir_fd, **k)
            operation = Operation(what, name)
            self.before(operation)
            real(path, *a, dir_fd=dir_fd, **k)
            return self.after(operation)

        return call

    def _would_work(self, what: str, name: str) -> bool:
        """Tell whether a call is about something that is there, or not there yet."""
        return os.path.lexists(self.root / name) == (what != "make")

    def _two(self, real: Callable[..., Any], what: str) -> Callable[..., Any]:
        def call(one: Any, other: Any) -> Any:
            names = self.name(one), self.name(other)
            if names[0] is None or names[1] is None:
                return real(one, other)
            operation = Operation(what, names[0], names[1])
            self.before(operation)
            done = real(one, other)
            if what != "swap" or done:
                self.after(operation)
            return done

        return call


class RecordedFile(io.FileIO):
    """A file opened for writing whose every write is seen."""

    def __init__(self, recorder: Recorder, file: Any, path: str, mode: str) -> None:
        self.recorder = recorder
        self.path_seen = path
        self.handle = recorder.new_handle()
        is_new = not os.path.lexists(file)
        operation = Operation(
            "truncate" if "w" in mode and not is_new else "create",
            path,
            handle=self.handle,
        )
        recorder.before(operation)
        super().__init__(file, mode)
        # One that is there, opened to append to, is created again in name only.
        recorder.after(operation)

    def write(self, data: Any, /) -> int:
        """Write, and note what was written where."""
        content = bytes(data)
        operation = Operation(
            "write",
            self.path_seen,
            handle=self.handle,
            start=os.fstat(self.fileno()).st_size if "a" in self.mode else self.tell(),
            data=content,
        )
        try:
            self.recorder.before(operation)
        except OSError:
            super().write(content[: len(content) // 2])  # as a full disk does
            raise
        done = super().write(content)
        assert done == len(content), "the disk of this machine is full"
        self.recorder.after(operation)
        return done
