"""Exceptions that users may catch, each with its exit code.

Scripts may rely on the codes: 0 ok, 1 bug, 2 usage, 3 settings, 4 data, 5 model,
6 resources, 7 numerics, 75 saved after a stop signal, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence


class HeadwiseError(Exception):
    """Base class of errors that the user can act on."""

    exit_code = 1


class UsageError(HeadwiseError, ValueError):
    """A wrong call or command line."""

    exit_code = 2


class SettingsError(HeadwiseError, ValueError):
    """Invalid settings. The message lists all problems."""

    exit_code = 3

    def __init__(self, problems: Sequence[str]) -> None:
        assert not isinstance(problems, str), "a list of problems, even of one"
        # Exception pickles its arguments between processes: so the list, not the text.
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

    @classmethod
    def beyond_positions(cls, position: int, count: int) -> ModelError:
        """Return the error for a position after the ``count`` learned ones."""
        return cls(
            f"there is no learned encoding for position {position}: this model has "
            f"only {count} (max_positions); split the text, or train with a larger "
            "max_positions or positions = 'sinusoidal'"
        )


class ResourceError(HeadwiseError):
    """Not enough memory, disk or permission."""

    exit_code = 6


class NumericsError(HeadwiseError):
    """NaN or infinity in a loss, gradient or weight."""

    exit_code = 7

    @classmethod
    def of_scores(cls) -> NumericsError:
        """Return the error for logits that allow no next token."""
        return cls(
            "scores for the next token are NaN or infinite; use float32, or a "
            "checkpoint from before training diverged"
        )


class Stopped(HeadwiseError):  # noqa: N818 - a state that was reached, not a fault
    """Stopped by a signal; a checkpoint was saved and the run can be resumed."""

    exit_code = 75


class Cancelled(HeadwiseError):  # noqa: N818 - a state, not an error
    """The work of a thread was cancelled, as nobody waits for it; no user sees it."""


class TranslationWarning(UserWarning):
    """Python warning for a translation, from calls that return only texts."""


OUT_OF_MEMORY = ("can't allocate memory", "out of memory")
"""Texts of torch's errors where memory runs out."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error of Python or torch means that memory ran out."""
    return isinstance(error, MemoryError) or any(
        each in str(error) for each in OUT_OF_MEMORY
    )
