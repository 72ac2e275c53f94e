"""The inspection page as one file that fetches nothing: with its answers in it."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from headwise.errors import ResourceError, UsageError
from headwise.inspection.json_form import FORMAT
from headwise.inspection.views import VIEWS
from headwise.reports.page import content_hash
from headwise.reports.plot import json_for_script, safe_in_script
from headwise.serving.inspected_model import JSON, InspectedModel
from headwise.serving.joined_modules import joined_modules
from headwise.serving.page_files import INDEX, read_page_file
from headwise.tasks.translation.thread_pool import CheckStop

MAX_BYTES = 20_000_000
"""Most bytes of the answers in one page."""

MAX_QUESTIONS = 64
"""Most answers in one page."""

_STYLE = re.compile(r'<link rel="stylesheet" href="([\w./-]+)">')
_SCRIPT = re.compile(r'<script type="module" src="([\w./-]+)"></script>')


@dataclass(frozen=True, slots=True)
class Question:
    """A view, and what the page asks it for: the body of a POST to its address."""

    view: str
    table: Mapping[str, Any]


def read_questions(table: Mapping[str, Any]) -> tuple[list[Question], dict[str, Any]]:
    """Return the questions and the state of a page that is to be saved.

    ``table`` is {"requests": [{"view", "request"}, ...], "state": {...}}. Raises
    ``UsageError`` if it is something else.
    """
    requests, state = table.get("requests"), table.get("state", {})
    if not isinstance(requests, list) or not isinstance(state, dict):
        raise UsageError('a snapshot is asked for by {"requests": [...], "state": {}}')
    if len(requests) > MAX_QUESTIONS:
        raise UsageError(
            f"{len(requests)} answers are more than the {MAX_QUESTIONS} of one page"
        )
    for each in requests:
        if (
            not isinstance(each, dict)
            or each.get("view") not in VIEWS
            or not isinstance(each.get("request"), dict)
        ):
            raise UsageError(
                'each request of a snapshot is {"view": NAME, "request": {...}}'
            )
    return [Question(each["view"], each["request"]) for each in requests], state


def make_snapshot(
    model: InspectedModel,
    questions: Sequence[Question],
    state: Mapping[str, Any],
    check_stop: CheckStop = lambda: None,
) -> str:
    """Return the page, open at ``state``, with the answers to ``questions``.

    Raises ``ResourceError`` if they have more than ``MAX_BYTES``.
    """
    answers, size = [], 0
    for each in questions:
        check_stop()
        answers.append(recorded(model, each, check_stop))
        size += len(answers[-1].encode("utf-8"))
        check_size(size, MAX_BYTES)
    return page_with(model, answers, state)


def check_size(size: int, max_bytes: int) -> None:
    """Raise ``ResourceError`` for answers that are too large for one page."""
    if size > max_bytes:
        raise ResourceError(
            f"the answers have {size / 1e6:.0f} MB, more than the "
            f"{max_bytes / 1e6:.0f} MB that a page may have; choose a shorter text, or "
            "fewer heads"
        )


def recorded(
    model: InspectedModel, question: Question, check_stop: CheckStop = lambda: None
) -> str:
    """Return an answer as a page has it: JSON that is safe in a script element."""
    media_type, answer = model.answer(question.view, question.table, check_stop)
    if media_type == JSON:
        found = safe_in_script(answer.decode("utf-8").strip())
    else:
        encoded = base64.b64encode(answer).decode("ascii")
        found = json_for_script({"base64": encoded})
    view, request = json_for_script(question.view), json_for_script(question.table)
    return f'{{"view":{view},"request":{request},"answer":{found}}}'


def page_with(
    model: InspectedModel, answers: Sequence[str], state: Mapping[str, Any]
) -> str:
    """Return the page around answers that were :func:`recorded`."""
    facts = json_for_script(model.facts())
    content = (
        f'{{"format":{FORMAT},"model":{facts},"state":{json_for_script(state)},'
        f'"answers":[{",".join(answers)}]}}'
    )
    data = f'<script type="application/json" id="snapshot">{content}</script>'
    return _single_file(title=f"{model.name} · headwise inspect", data=data)


def _single_file(*, title: str, data: str) -> str:
    """Return the page with its files inside, and a policy that allows only these."""
    page = _read(INDEX)
    hashes: dict[str, list[str]] = {"style": [], "script": []}

    def style(match: re.Match[str]) -> str:
        text = _read(match[1])
        hashes["style"].append(f"'{content_hash(text)}'")
        return f"<style>{text}</style>"

    page = _STYLE.sub(style, page)
    (main,) = _SCRIPT.findall(page)
    script = joined_modules(main, _read)
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("the script of the page would end its own element")
    hashes["script"].append(f"'{content_hash(script)}'")
    policy = (
        f"default-src 'none'; script-src {' '.join(hashes['script'])}; "
        f"style-src {' '.join(hashes['style'])}; img-src data: blob:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page = _SCRIPT.sub("", page)
    page = re.sub(
        "<title>.*?</title>", lambda _: f"<title>{escape(title)}</title>", page
    )
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n  {meta}')
    end = f"{data}\n<script>{script}</script>\n</body>"
    return page.replace("</body>", end)


def _read(path: str) -> str:
    found = read_page_file(path)
    if found is None:
        raise FileNotFoundError(f"the inspection page has no file {path}")
    return found[1].decode("utf-8")
