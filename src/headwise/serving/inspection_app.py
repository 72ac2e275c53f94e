"""The inspection page as a Starlette app: its files, the model, and every view.

    GET  /                   the page, and the files that it is made of
    GET  /api/model          what the model is
    POST /api/VIEW           what a view finds: JSON; of attention, attention_binary.py
    POST /api/VIEW.svg       the same as a drawing, also .png
    POST /api/snapshot       the page as one file, with answers in it

Errors are {"error": {"message": ...}}.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headwise.errors import HeadwiseError, ResourceError, is_out_of_memory
from headwise.inspection.views import VIEWS
from headwise.serving.computations import (
    CheckStop,
    ClientLeftError,
    Computations,
    TooManyWaitError,
)
from headwise.serving.inspected_model import DRAWN, InspectedModel
from headwise.serving.inspection_requests import parse_body
from headwise.serving.local_only import (
    MAX_BODY,
    LocalOnly,
    error_response,
    too_large,
)
from headwise.serving.page_files import HTML, INDEX, read_page_file
from headwise.serving.snapshot import make_snapshot, read_questions

CLIENT_LEFT = 499
"""Status of an answer that nobody reads."""

REVALIDATE = {"cache-control": "no-cache"}
"""Headers of files, which a newer headwise may have changed."""


def inspection_app(model: InspectedModel) -> Starlette:
    """Return the app of the inspection page alone."""
    return Starlette(
        routes=inspection_routes(model),
        middleware=[Middleware(LocalOnly)],
        exception_handlers={HTTPException: _http_error, Exception: _bug},
    )


def inspection_routes(model: InspectedModel) -> list[BaseRoute]:
    """Return the routes of the page, which may be mounted under any prefix.

    The page asks for its files and answers by relative addresses. Whoever mounts it
    has to add the middleware :class:`LocalOnly`, or what does its work.
    """
    api = _Api(model, Computations())
    return [
        Route("/api/model", api.model),
        Route("/api/snapshot", api.snapshot, methods=["POST"]),
        Route("/api/{view}", api.answer, methods=["POST"]),
        Route("/", _file),
        Route("/{path:path}", _file),
    ]


class _Api:
    """The routes that ask the model."""

    def __init__(self, model: InspectedModel, computations: Computations) -> None:
        self._model = model
        self._computations = computations
        self._facts: dict[str, Any] | None = None

    async def model(self, request: Request) -> Response:
        """Return what the model is."""
        if self._facts is None:
            self._facts = self._model.facts()
        return JSONResponse(self._facts)

    async def answer(self, request: Request) -> Response:
        """Return what a view finds, or a drawing of it."""
        name = request.path_params["view"]
        view, suffix = name, ""
        for each in DRAWN:
            if name.endswith(each):
                view, suffix = name.removesuffix(each), each
        if view not in VIEWS:
            return error_response(
                f"there is no view {view!r}; there are {', '.join(VIEWS)}", 404
            )
        body = await read_body(request)
        if body is None:
            return too_large()

        def compute(check_stop: CheckStop) -> tuple[str, bytes]:
            table = parse_body(body)
            if suffix:
                return self._model.drawing(view, suffix, table, check_stop)
            return self._model.answer(view, table, check_stop)

        return await self._computed(request, compute)

    async def snapshot(self, request: Request) -> Response:
        """Return the page as one file, with the answers that are asked for."""
        body = await read_body(request)
        if body is None:
            return too_large()

        def compute(check_stop: CheckStop) -> tuple[str, bytes]:
            questions, state = read_questions(parse_body(body))
            page = make_snapshot(self._model, questions, state, check_stop)
            return HTML, page.encode("utf-8")

        found = await self._computed(request, compute)
        if found.status_code == 200:  # it is a file, and no page of this server
            found.headers["content-disposition"] = 'attachment; filename="inspect.html"'
        return found

    async def _computed(
        self, request: Request, compute: Callable[[CheckStop], tuple[str, bytes]]
    ) -> Response:
        try:
            media_type, content = await self._computations.run(request, compute)
        except ClientLeftError:
            return Response(status_code=CLIENT_LEFT)
        except TooManyWaitError:
            return error_response(
                "too many computations wait; try again in a while",
                503,
                {"retry-after": "5"},
            )
        except Exception as error:
            return _failed(error)
        return Response(content, media_type=media_type)


def _failed(error: Exception) -> Response:
    """Return the answer to an error; what is a bug is printed on stderr."""
    if isinstance(error, HeadwiseError):
        return error_response(
            str(error), 413 if isinstance(error, ResourceError) else 400
        )
    if is_out_of_memory(error):
        return error_response("out of memory; a shorter text needs less", 413)
    traceback.print_exception(error)
    return error_response(
        f"{type(error).__name__}: {error}. This is a bug in headwise; please report it",
        500,
    )


async def read_body(request: Request) -> bytes | None:
    """Return the body of a request, or None if it is longer than ``MAX_BODY``."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            return None
    return body


async def _file(request: Request) -> Response:
    path = request.path_params.get("path", INDEX)
    found = read_page_file(path)
    if found is None:
        raise HTTPException(404)
    media_type, content = found
    return Response(content, media_type=media_type, headers=REVALIDATE)


async def _bug(request: Request, error: Exception) -> Response:
    return _failed(error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    names = {404: f"there is nothing at {request.url.path}"}
    names[405] = f"{request.method} is not possible at {request.url.path}"
    message = names.get(error.status_code, error.detail)
    return error_response(message, error.status_code, dict(error.headers or {}))
