"""A file of pairs that grows block by block, and goes on where a killed process was.

Beside the file stand the list of what was left out and a JSON file with the progress.
After each block, both lists are synced before the progress names their sizes; what a
killed process wrote after that is cut off when the next one goes on. The pairs get
their final name when all are there.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from headwise import storage
from headwise.errors import DataError, ModelError, UsageError
from headwise.storage.disk import lock_while_used

FORMAT = 1

Rows = Sequence[Sequence[str]]


class ResumablePairs:
    """Writer of ``out``, a TSV file, as a context manager.

    ``identity`` is what determines its content. Raises ``UsageError`` if ``out``
    was started with another one, or has other content, ``DataError`` if its progress is
    damaged, ``NewerFormat`` if that is of another format, and ``ResourceError`` for a
    disk that fails.
    """

    def __init__(self, out: Path, identity: Mapping[str, Any]) -> None:
        self.out = out
        self.part = out.with_name(f"{out.name}.part")
        self.left_out = out.with_name(f"{out.name}.left-out.tsv")
        self.state = out.with_name(f"{out.name}.progress.json")
        self.identity = json.loads(json.dumps(identity))
        self.num_lines = 0
        """Lines whose pairs are on disk, or are left out."""
        self.num_pairs = 0
        self.reasons: Counter[str] = Counter()
        """Lines left out, by reason."""
        self.is_complete = False
        self._files: dict[Path, IO[bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            sizes = self._read_state()
            if not self.is_complete:
                self._open(sizes)
        except OSError as error:
            self._stack.close()
            raise storage.resource_error(error, self.out) from error
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.num_lines:  # there is nothing to resume
            with suppress(OSError):
                for path in (*self._files, self.state):
                    path.unlink(missing_ok=True)
        self._stack.close()

    def append(self, pairs: Rows, left_out: Rows, *, num_lines: int) -> None:
        """Write the rows of one block of ``num_lines`` lines, and the progress.

        The second cell of a row of ``left_out`` is its reason.
        """
        try:
            for path, rows in ((self.part, pairs), (self.left_out, left_out)):
                file = self._files[path]
                file.write(b"".join(_row(each) for each in rows))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise storage.resource_error(error, self.out) from error
        self.num_lines += num_lines
        self.num_pairs += len(pairs)
        self.reasons.update(row[1] for row in left_out)
        self._write_state(self._sizes())

    def finish(self) -> None:
        """Give the pairs their final name."""
        try:
            self.part.rename(self.out)
            storage.sync(self.out.parent)
        except OSError as error:
            raise storage.resource_error(error, self.out) from error
        self.is_complete = True
        self._write_state(self._sizes())

    def _open(self, sizes: Mapping[str, int]) -> None:
        if not sizes:  # so that the files are known to be ours from the start
            self._write_state({})
        for path in (self.part, self.left_out):
            file = self._stack.enter_context(path.open("ab"))
            handle = lock_while_used(path)
            if handle is None:
                raise UsageError(
                    f"{self.out} is being written by another process; wait for it to "
                    "end, or choose another --out"
                )
            self._stack.callback(os.close, handle)
            expected = sizes.get(path.name, 0)
            if path.stat().st_size < expected:
                raise DataError(
                    f"{path} has {path.stat().st_size:,} bytes, but had {expected:,}; "
                    f"it was changed: delete {self.out}* to begin anew"
                )
            file.truncate(expected)
            file.seek(expected)
            self._files[path] = file

    def _read_state(self) -> Mapping[str, int]:
        """Take over the progress of an earlier process; return the sizes of files."""
        if not self.state.exists():
            paths = (self.out, self.part, self.left_out)
            there = [path for path in paths if path.exists()]
            if there:
                raise UsageError(
                    f"{there[0]} exists, and no progress of this command is beside it; "
                    "choose another --out, or delete it yourself"
                )
            return {}
        try:
            state = storage.read_json(self.state)
            self._check_format(state["format"])
            before, sizes = {**state["identity"]}, {**state["bytes"]}
            self.num_lines, self.num_pairs = state["lines"], state["pairs"]
            self.reasons = Counter({**state["left_out"]})
            self.is_complete = state["is_complete"]
        except storage.NewerFormat:
            raise  # nothing is wrong with the files
        except (ModelError, KeyError, TypeError) as error:
            raise DataError(
                f"{self.state} is no progress of this command ({error}); delete "
                f"{self.out}* to begin anew"
            ) from None
        if not self.num_lines:
            return {}
        changed = [
            name
            for name in {**self.identity, **before}
            if before.get(name) != self.identity.get(name)
        ]
        if changed:
            raise UsageError(
                f"{self.out} was started with another {', '.join(changed)}; choose "
                f"another --out, or delete {self.out}* to begin anew"
            )
        if not self.is_complete and not self.part.exists() and self.out.exists():
            # Killed between the last rename and the last progress.
            self.is_complete = self.out.stat().st_size == sizes[self.part.name]
        if self.is_complete and not self.out.exists():
            raise UsageError(
                f"{self.out} was complete and is gone; delete {self.state} to write it "
                "anew"
            )
        checked: Mapping[str, int] = sizes
        return checked

    def _check_format(self, found: object) -> None:
        if found != FORMAT:
            raise storage.NewerFormat(
                f"{self.state} has format {found!r}, which this version does not know "
                f"(it reads format {FORMAT}): use a newer headwise"
            )

    def _sizes(self) -> dict[str, int]:
        return {path.name: file.tell() for path, file in self._files.items()}

    def _write_state(self, sizes: Mapping[str, int]) -> None:
        storage.write_json(
            self.state,
            {
                "format": FORMAT,
                "is_complete": self.is_complete,
                "lines": self.num_lines,
                "pairs": self.num_pairs,
                "left_out": dict(sorted(self.reasons.items())),
                "bytes": dict(sizes),
                "identity": self.identity,
            },
        )


def _row(cells: Sequence[str]) -> bytes:
    """Return a line of a TSV file; tabs inside cells become spaces."""
    return ("\t".join(each.replace("\t", " ") for each in cells) + "\n").encode(
        "utf-8", "replace"
    )
