"""Dialogues as text: each turn after the symbol of its role.

``<user>What is 3 plus 4?<assistant>3 plus 4 is 7.<user>And plus 2?`` is what a model
reads; the symbols are entries of its vocabulary (``text.symbols``). Files and callers
give turns as JSON, a line for a dialogue:

    {"turns": [{"role": "user", "text": "What is 3 plus 4?"}, ...]}

``messages`` with ``content`` (the format of chat APIs) is read too. A line of plain
text is one turn of the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from headwise.errors import DataError
from headwise.text.normalization import one_line

SYSTEM, USER, ASSISTANT = ROLES = ("system", "user", "assistant")

SYMBOLS = tuple(f"<{role}>" for role in ROLES)
"""The symbol of each role."""

_SYMBOL = re.compile(f"<({'|'.join(ROLES)})>")

NAMES = (("turns", "text"), ("messages", "content"))
"""Keys of the turns of a dialogue, and of the text of each."""

Turn = tuple[str, str]
"""Role and text."""


def join_turns(turns: Iterable[Turn]) -> str:
    """Return turns as one text, which :func:`split_turns` splits again."""
    return "".join(f"<{role}>{text}" for role, text in turns)


def split_turns(text: str) -> list[Turn]:
    """Return the turns of a text; what stands before all symbols is the user's."""
    first, *others = _SYMBOL.split(text)
    turns = [(USER, first)] if first.strip() else []
    turns += zip(others[::2], others[1::2], strict=True)
    return turns


def read_turns(table: Mapping[str, Any]) -> list[Turn]:
    """Return the turns of a dialogue, each in one line.

    Raises ``DataError`` for what is no dialogue, without its place.
    """
    names = [each for each in NAMES if each[0] in table]
    if not names:
        keys = ", ".join(table) or "none"
        raise DataError(
            f'the key "turns" (or "messages") is missing; the keys are: {keys}'
        )
    key, text_key = names[0]
    turns = table[key]
    if not isinstance(turns, list) or not turns:
        raise DataError(f'"{key}" must be a list of turns, with at least one')
    return [
        _read_turn(turn, number, text_key) for number, turn in enumerate(turns, start=1)
    ]


def _read_turn(turn: Any, number: int, text_key: str) -> Turn:
    example = f'{{"role": "user", "{text_key}": "..."}}'
    if not isinstance(turn, dict) or not {"role", text_key} <= turn.keys():
        raise DataError(f"turn {number:,} must be like {example}")
    role, text = turn["role"], turn[text_key]
    if role not in ROLES:
        raise DataError(
            f"turn {number:,}: the role must be one of {', '.join(ROLES)}, not {role!r}"
        )
    if not isinstance(text, str) or not text.strip():
        raise DataError(f'turn {number:,}: "{text_key}" must be a text, and not blank')
    check_turn(text, f"turn {number:,}")
    return role, one_line(text)


def check_turn(text: str, name: str) -> None:
    """Raise ``DataError`` for a text that would be taken for several turns."""
    if found := _SYMBOL.search(text):
        raise DataError(
            f"{name} contains {found.group()}, which separates turns; write it in "
            "another way"
        )
    if any(0xD800 <= ord(each) < 0xE000 for each in text):
        raise DataError(f"{name} contains a lone surrogate, which is no character")


def check_input(line: str) -> None:
    """Raise ``DataError`` for plain text that would be taken for several turns."""
    if not line.lstrip().startswith("{"):
        check_turn(line, "it")


def read_input(line: str) -> str:
    """Return a line of input as a text of turns: JSON, or a turn of the user.

    Raises ``DataError`` for JSON that is no dialogue, or that ends with an answer.
    """
    if not line.lstrip().startswith("{"):
        return line
    try:
        table = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"it begins with {{ but is not JSON: {error}") from None
    turns = read_turns(table)
    if turns[-1][0] == ASSISTANT:
        raise DataError("the last turn is the assistant's, so there is no answer to it")
    return join_turns(turns)


def split_last_answer(turns: list[Turn]) -> tuple[str, str]:
    """Return the text of all turns but the last, and the last, an answer.

    Raises ``DataError`` if the last is none, or there is nothing before it.
    """
    (role, answer) = turns[-1]
    if role != ASSISTANT or len(turns) < 2:
        raise DataError(
            "a dialogue to learn from needs two turns or more, of which the last is "
            "the assistant's"
        )
    return join_turns(turns[:-1]), answer
