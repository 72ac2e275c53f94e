"""The exceptions a user may want to catch, each with the exit code it brings.

The codes are a contract for scripts: 0 ok, 1 bug, 2 usage, 3 settings, 4 data, 5 model,
6 resources, 7 numerics, 75 saved after a stop signal, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence


class HeadwiseError(Exception):
    """Anything that went wrong for a reason the user can act on."""

    exit_code = 1


class UsageError(HeadwiseError, ValueError):
    """A call or a command line that cannot be carried out as it stands."""

    exit_code = 2


class SettingsError(HeadwiseError, ValueError):
    """Settings that cannot work. The message lists every problem, not the first."""

    exit_code = 3

    def __init__(self, problems: Sequence[str]) -> None:
        assert not isinstance(problems, str), "a list of problems, even of one"
        # What Exception is given, a worker process hands on: so the list, not the text.
        super().__init__(list(problems))
        self.problems = list(problems)

    def __str__(self) -> str:
        return "\n".join(f"- {problem}" for problem in self.problems)


class DataError(HeadwiseError):
    """Text or prepared data that cannot be used."""

    exit_code = 4


class ModelError(HeadwiseError):
    """A model, run or tokenizer folder that cannot be used."""

    exit_code = 5


class ResourceError(HeadwiseError):
    """Not enough memory, disk or permission."""

    exit_code = 6


class NumericsError(HeadwiseError):
    """A loss, gradient or weight that is not a finite number."""

    exit_code = 7

    @classmethod
    def of_scores(cls) -> NumericsError:
        """Return the error for scores that no next token can be chosen by."""
        return cls(
            "the model gave scores for the next token that are not numbers (NaN, "
            "infinite, or -inf for every token); weights in float32 and a checkpoint "
            "from before training diverged may help"
        )


class Stopped(HeadwiseError):  # noqa: N818 - a state that was reached, not a fault
    """A stop signal came; everything was saved and the work can be resumed."""

    exit_code = 75


class TranslationWarning(UserWarning):
    """What a reader of a translation should know, of calls that return texts alone.

    Python's ``warnings`` shows or silences it, or makes it an error.
    """


NO_MEMORY = ("can't allocate memory", "out of memory")
"""What torch says where Python would raise ``MemoryError``."""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error, of Python or of torch, says that memory is used up."""
    return isinstance(error, MemoryError) or any(
        each in str(error) for each in NO_MEMORY
    )
