"""Run an app on loopback until it is told to stop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from headwise.errors import ResourceError

SHUTDOWN_SECONDS = 1
"""How long answers that are under way may take once the server stops."""


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens; 0 is any free port.

    Raises ``ResourceError`` if the port is in use or may not be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ResourceError(
            f"{host} port {port} cannot be used ({error.strerror or error}); give "
            "another --port, or --port 0 for any that is free"
        ) from None
    return listening


def address(listening: socket.socket) -> str:
    """Return the address of a page on this socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class _Server(uvicorn.Server):
    """Says when it is ready; notes the first signal, which the caller acts on."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.received: int | None = None
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; at a second signal at once."""
        # uvicorn would raise the signal again, and so be killed by SIGTERM.
        self.force_exit = self.received is not None
        self.should_exit = True
        self.received = self.received or sig


def serve(app: ASGIApp, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until SIGTERM, or SIGINT, which raises ``KeyboardInterrupt``.

    ``ready`` is called when connections are accepted.
    """
    config = uvicorn.Config(
        app,
        log_level="critical",  # it takes computations that end with it for errors
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = _Server(config, ready)
    server.run(sockets=[listening])
    if server.received == signal.SIGINT:
        raise KeyboardInterrupt
