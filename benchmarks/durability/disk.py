"""The disk as it may be found after a crash, given the file operations before it.

Three models:

kept       every operation before the crash is on the disk, as after a kill
lost       nothing is that was not synced: a file's content once the file was, a name
           once the folder that holds it was
reordered  of the changes of names that were not synced, any are there, in any order;
           of a file that was not, the old or the new content, a part of it, zeros or
           garbage in place of what was added
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path, PurePosixPath

from benchmarks.durability.recorder import Operation

MODELS = ("kept", "lost", "reordered")
ALL_ORDERS = 3
"""Up to so many changes of names at once, every subset is tried in every order."""

Tree = dict[str, bytes | None]
"""What is found: the content of each file by its path, and None for each folder."""


@dataclass(eq=False)
class File:
    """What lies behind a name, as the system sees it and as the disk holds it."""

    content: bytes = b""
    synced: bytes = b""


@dataclass(eq=False)
class Folder:
    """Names, as the system sees them and as the disk holds them."""

    names: dict[str, Entry] = field(default_factory=dict)
    synced: dict[str, Entry] = field(default_factory=dict)


Entry = File | Folder
Change = dict[tuple[Folder, str], Entry | None]
"""What one operation does to names, all of it or nothing: None is a name that goes."""


class Disk:
    """A disk that operations are applied to, and that may crash after each."""

    def __init__(self, tree: Tree) -> None:
        """Begin with ``tree``, all of it synced."""
        self.root = Folder()
        self.unsynced: list[Change] = []
        self._opened: dict[int, File] = {}
        for path, content in sorted(tree.items()):
            entry = Folder() if content is None else File(content, content)
            folder, name = self._place(path)
            folder.names[name] = folder.synced[name] = entry

    def apply(self, operation: Operation) -> None:
        """Do what the operation did."""
        match operation.name:
            case "make":
                self._change({self._place(operation.path): Folder()})
            case "unlink" | "rmdir":
                self._change({self._place(operation.path): None})
            case "rename" | "swap":
                one, other = self._place(operation.path), self._place(operation.other)
                left = self._at(operation.other) if operation.name == "swap" else None
                self._change({one: left, other: self._at(operation.path)})
            case "create" | "truncate":
                self._open(operation)
            case "write":
                file = self._opened[operation.handle]
                before = file.content.ljust(operation.start, b"\0")[: operation.start]
                after = file.content[operation.start + len(operation.data) :]
                file.content = before + operation.data + after
            case "sync":
                self._sync(self._at(operation.path))

    def seen(self) -> Tree:
        """Return what a process sees."""
        return dict(_walk(self.root, {}, {}, seen=True))

    def found(self, model: str, chance: random.Random, tries: int) -> Iterator[Tree]:
        """Yield disks as they may be found if the crash comes now."""
        if model == "kept":
            yield self.seen()
        elif model == "lost":
            yield dict(_walk(self.root, {}, {}))
        else:
            yield from self._reordered(chance, tries)

    def _reordered(self, chance: random.Random, tries: int) -> Iterator[Tree]:
        files = [file for file in _files(self) if file.content != file.synced]
        for changes in self._orders(chance, tries):
            names = {key: value for change in changes for key, value in change.items()}
            for contents in _contents(files, chance):
                yield dict(_walk(self.root, names, contents))

    def _orders(self, chance: random.Random, tries: int) -> Iterator[Sequence[Change]]:
        if len(self.unsynced) <= ALL_ORDERS:
            for count in range(len(self.unsynced) + 1):
                yield from permutations(self.unsynced, count)
            return
        for place, change in enumerate(self.unsynced):
            yield self.unsynced[:place]  # in order, and the rest lost
            yield [change]
            yield [*self.unsynced[:place], *self.unsynced[place + 1 :]]
        yield self.unsynced
        for _ in range(tries):
            count = chance.randint(2, len(self.unsynced))
            yield chance.sample(self.unsynced, count)

    def _change(self, change: Change) -> None:
        for (folder, name), entry in change.items():
            if entry is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = entry
        self.unsynced.append(change)

    def _open(self, operation: Operation) -> None:
        folder, name = self._place(operation.path)
        entry = folder.names.get(name)
        if entry is None:
            entry = File()
            self._change({(folder, name): entry})
        assert isinstance(entry, File)
        if operation.name == "truncate":
            entry.content = b""
        self._opened[operation.handle] = entry

    def _sync(self, entry: Entry) -> None:
        if isinstance(entry, File):
            entry.synced = entry.content
            return
        rest = []
        for change in self.unsynced:
            folders = {folder for folder, _ in change}
            assert len(folders) == 1, "nothing of ours is moved between folders"
            if folders != {entry}:
                rest.append(change)
        entry.synced = dict(entry.names)
        self.unsynced = rest

    def _place(self, path: str) -> tuple[Folder, str]:
        parent, name = PurePosixPath(path).parent, PurePosixPath(path).name
        folder = self._at(str(parent))
        assert isinstance(folder, Folder)
        return folder, name

    def _at(self, path: str) -> Entry:
        entry: Entry = self.root
        for part in PurePosixPath(path).parts:
            assert isinstance(entry, Folder)
            entry = entry.names[part]
        return entry


def read_tree(folder: Path) -> Tree:
    """Return what lies in a folder."""
    return {
        path.relative_to(folder).as_posix(): None
        if path.is_dir()
        else path.read_bytes()
        for path in folder.rglob("*")
    }


def write_tree(folder: Path, tree: Tree) -> None:
    """Make a folder in which that lies."""
    folder.mkdir(parents=True)
    for path, content in sorted(tree.items()):
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)


def _contents(files: list[File], chance: random.Random) -> Iterator[dict[File, bytes]]:
    """Yield what may be found in files that were written and not synced."""
    yield {file: file.synced for file in files}
    if files:
        yield {file: file.content for file in files}
        yield {file: _torn(file, chance) for file in files}


def _torn(file: File, chance: random.Random) -> bytes:
    """Return part of what was written; what was synced and only added to is there."""
    old, new = file.synced, file.content
    kept = old if new.startswith(old) else b""
    added = new[len(kept) :]
    return kept + chance.choice(
        [
            added[: chance.randint(0, len(added))],
            bytes(len(added)),
            bytes(chance.randint(0, len(added))),
            chance.randbytes(len(added)),
            added[: len(added) // 2].ljust(len(added), b"\0"),
        ]
    )


def _walk(
    folder: Folder,
    names: Change,
    contents: dict[File, bytes],
    path: str = "",
    *,
    seen: bool = False,
) -> Iterator[tuple[str, bytes | None]]:
    """Yield what lies in ``folder`` on the disk, with changes that got there too."""
    held = folder.names if seen else dict(folder.synced)
    for (changed, name), entry in names.items():
        if changed is folder:
            held.pop(name, None)
            if entry is not None:
                held[name] = entry
    for name, entry in held.items():
        if isinstance(entry, Folder):
            yield path + name, None
            yield from _walk(entry, names, contents, f"{path}{name}/", seen=seen)
        else:
            content = entry.content if seen else contents.get(entry, entry.synced)
            yield path + name, content


def _files(disk: Disk) -> Iterator[File]:
    """Yield every file that may be found, once."""
    found: dict[Entry, None] = {}
    reachable: list[Entry | None] = [disk.root]
    reachable += [entry for change in disk.unsynced for entry in change.values()]
    while reachable:
        entry = reachable.pop()
        if entry is None or entry in found:
            continue
        found[entry] = None
        if isinstance(entry, Folder):
            reachable += [*entry.names.values(), *entry.synced.values()]
    yield from (entry for entry in found if isinstance(entry, File))
