"""Checks of the arguments of Python calls: each mistake is a ``UsageError``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

from headwise.errors import UsageError
from headwise.inference.engines.engine_names import MAX_THREADS
from headwise.text_arguments import checked_sides


def checked_folders(given: object) -> list[Path]:
    """Return the folder, or those of an ensemble, as paths."""
    if isinstance(given, str | Path):
        given = [given]
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise _not_folder(given)
    folders = []
    for each in given:
        if not isinstance(each, str | Path):
            raise _not_folder(each)
        if not str(each):  # an unset variable would mean the current folder
            raise UsageError("a folder's name is empty; '.' is the current folder")
        folders.append(Path(each))
    if not folders:
        raise UsageError("no folder was named; name one, or several for an ensemble")
    return folders


def _not_folder(given: object) -> UsageError:
    return UsageError(
        "a folder (str or Path), or a list of folders for an ensemble, is loaded, not "
        f"{given!r}; such as headwise.load('en-de')"
    )


def check_device(device: object) -> None:
    """Raise unless torch can use ``device`` on this machine."""
    if device == "cpu":
        return
    import torch

    if not isinstance(device, str | torch.device):
        raise UsageError(
            f"device must be a name such as 'cpu' or 'cuda:0', or a torch.device, not "
            f"{device!r}"
        )
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"device {str(device)!r} cannot be used here ({reason}); 'cpu' always works"
        ) from None


def check_flag(name: str, value: object) -> None:
    """Raise unless ``value`` is a bool: the text "no" would count as true."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False, not {value!r}")


def check_count(name: str, value: Any, *, most: int | None = None) -> None:
    """Raise unless ``value`` is an integer from 1 to ``most``."""
    limit = math.inf if most is None else most
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if is_integer and 1 <= value <= limit:
        return
    wanted = "an integer, 1 or more"
    if most is not None:
        wanted = f"an integer from 1 to {most:,}"
    raise UsageError(f"{name} must be {wanted}, not {value!r}")


def check_threads(threads: object) -> None:
    """Raise unless this is a number of CPU threads, or None."""
    if threads is not None:
        check_count("threads", threads, most=MAX_THREADS)


def checked_pairs(
    sources: Iterable[str], targets: Iterable[str]
) -> list[tuple[str, str]]:
    """Return the pairs of each source and its target."""
    return list(zip(*checked_sides(sources, targets), strict=True))


def checked_tables(each: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    """Yield the decoding settings of each line; raise for what is no table."""
    if isinstance(each, str | bytes | Mapping) or not isinstance(each, Iterable):
        raise _not_table("it", each)
    for number, one in enumerate(each, start=1):
        if not isinstance(one, Mapping):
            raise _not_table(f"that of line {number:,}", one)
        yield one


def _not_table(what: str, given: object) -> UsageError:
    return UsageError(
        "each must be a list with a table (dict) of decoding settings for each line, "
        f"such as [{{'beam': 5}}, {{}}]; {what} is {given!r}. Settings for all lines "
        "are arguments: beam=5"
    )


def cannot_pickle(what: str) -> UsageError:
    """Return the error for what belongs to its process."""
    return UsageError(
        f"a {what} cannot be pickled or copied: it has threads and compiled code of "
        "its process. Call headwise.load(FOLDER) in each process, once; the "
        "initializer of a multiprocessing.Pool is the place for it"
    )
