"""``headwise chat``: talk with a model of dialogues, turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_files,
    check_input,
    check_models,
    check_search,
    check_whole_lines,
    use_command,
)
from headwise.cli.options import (
    Device,
    SearchSettings,
    Threads,
    TrainedModel,
    parse_search,
    resolve_device,
    say,
    say_ignored_settings,
    use_threads,
)
from headwise.cli.standard_streams import flush_output, output
from headwise.cli.text_lines import InputLines, is_terminal
from headwise.errors import DataError, UsageError
from headwise.run_folder.paths import model_path, task_of_folder

if TYPE_CHECKING:
    from headwise.inference.text_generator import TextGenerator
    from headwise.text.dialogue import Turn


def chat(
    folder: TrainedModel,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Turns of the user, one per line. Default, or -: standard input.",
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Turn of the system, before all others.",
            show_default=False,
        ),
    ] = None,
    search: SearchSettings = None,
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Talk with a model of dialogues, turn by turn.

    Each line is a turn, and is answered by a line: N lines in, N lines out. All turns
    so far are read for each answer; of a dialogue longer than the model can read, the
    last tokens. A blank line begins a new dialogue, and is answered by one.

    \b
    headwise chat assistant
    headwise chat assistant --search search=sampling --search temperature=0.7
    """
    check_device(device)
    check_environment()
    check_models(folder)
    check_files(*(files or ()))
    check_input(files or [])
    check_whole_lines("chat", *(files or ()))
    task = task_of_folder(model_path(folder))
    if task != "dialogue":
        raise UsageError(
            f"{folder} is a model of {task}, which answers nobody; use headwise "
            f"{use_command(task)}"
        )
    table = parse_search(search)
    say_ignored_settings(table, check_search(folder, table))

    from headwise.inference.text_generator import TextGenerator
    from headwise.text.dialogue import SYSTEM, check_turn

    if system is not None:
        try:
            check_turn(system, "--system")
        except DataError as error:
            raise UsageError(str(error)) from None
    first: list[Turn] = [] if system is None else [(SYSTEM, system)]
    use_threads(threads)
    generator = TextGenerator.open(folder, device=resolve_device(device))
    at_terminal = is_terminal(files or [])
    if at_terminal:
        say("type what you say; a blank line begins anew, Ctrl-D exits")
    lines = InputLines(
        files or [],
        refuse_old_mac=False,
        after_each=at_terminal,
        before_waiting=flush_output,
    )
    turns, number = list(first), 0
    for line in lines:
        if not isinstance(line, str):
            continue
        number += 1
        if not line.strip():
            turns = list(first)
            output("")
            continue
        try:
            check_turn(line, "it")
        except DataError as error:
            raise DataError(f"{lines.where(number)}: {error}") from None
        turns.append(("user", line))
        turns.append(("assistant", _answer(generator, turns, table)))


def _answer(generator: TextGenerator, turns: list[Turn], table: dict[str, Any]) -> str:
    """Print the answer to ``turns``, as it is generated if it can be; return it."""
    from headwise.text.dialogue import join_turns

    prompt = join_turns(turns)
    if generator.can_stream(**table):
        pieces = generator.stream(prompt, **table)
    else:
        pieces = iter([generator.generate(prompt, **table).removeprefix(prompt)])
    answer = ""
    for piece in pieces:
        new = piece if answer else piece.lstrip()
        answer += new
        output(new, end="", flush=False)
        flush_output()
    output("")
    return answer.strip()
