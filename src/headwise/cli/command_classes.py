"""Base classes of commands and command groups: ``--debug``, error messages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import typer

from headwise.cli.errors import DEBUG, errors_to_exit_codes
from headwise.cli.standard_streams import output_error


def debug_option() -> typer.core.TyperOption:
    """Return ``--debug``, an option of every command and of ``headwise`` itself."""

    def set_debug(ctx: Any, option: Any, wanted: bool) -> None:
        if wanted:
            os.environ[DEBUG] = "1"

    return typer.core.TyperOption(
        param_decls=["--debug"],
        is_flag=True,
        default=False,
        expose_value=False,
        is_eager=True,
        callback=set_debug,
        show_default=False,
        help="Print a traceback on errors.",
    )


EXAMPLES = {
    "--languages": "en de",
    "--columns": "2 1",
    "--fields": "text label",
    "--dev": "dev.en dev.de",
    "--test": "test.en test.de",
    "--rank-heads": "dev.en dev.de",
    "--head-statistics": "dev.en dev.de",
}
"""Example values of options that take two."""


class Command(typer.core.TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; give an example where a second value is missing."""
        try:
            return super().parse_args(ctx, self._cut_where_a_value_is_missing(args))
        except Exception as error:
            option = getattr(error, "option_name", None)
            wanted = [each.metavar for each in self.params if option in each.opts]
            if option in EXAMPLES and wanted:
                message = (
                    f"{option} takes two values, {wanted[0]}, such as "
                    f"{option} {EXAMPLES[option]}"
                )
                for_one_file = f"{option}-file"
                if any(for_one_file in each.opts for each in self.params):
                    message += f"; {for_one_file} takes one file"
                error.message = message  # type: ignore[attr-defined]
            raise

    def _cut_where_a_value_is_missing(self, args: list[str]) -> list[str]:
        """Return the arguments up to an option whose second value is missing.

        The parser would take the next option for it: in ``--dev FILE --out FOLDER``.
        """
        options = {name for each in self.params for name in each.opts}
        for number, argument in enumerate(args):
            if argument in EXAMPLES and argument in options:
                for end in (number + 1, number + 2):
                    if end < len(args) and args[end] in options:
                        return args[:end]
        return args

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, with ``--debug``."""
        *own, help_option = super().get_params(ctx)
        return [*own, debug_option(), help_option]


class CommandGroup(typer.core.TyperGroup):
    """A group of commands, such as ``headwise runs``."""

    groups: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Title in the help -> commands under it; empty: one list."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the group, with ``--debug``."""
        *own, help_option = super().get_params(ctx)
        return [*own, debug_option(), help_option]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, in groups where ``groups`` names them."""
        if not self.groups:
            super().format_commands(ctx, formatter)
            return
        width = max(map(len, self.commands))
        limit = formatter.width - width - 6
        for title, names in self.groups.items():
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(limit))
                for name in names
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def make_context(self, *args: Any, **named: Any) -> Any:
        """Parse the command line, which may print the help."""
        with _output_errors_handled():
            return super().make_context(*args, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run a command, whose parser may print its help."""
        with _output_errors_handled():
            return super().invoke(ctx)


@contextmanager
def _output_errors_handled() -> Iterator[None]:
    """Turn an error of standard output into a message, as commands do."""
    try:
        yield
    except OSError as error:
        with errors_to_exit_codes():
            raise output_error(error) from None
