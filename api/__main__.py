"""`python -P -m api [--host HOST] [--port PORT] [--fd FD]`: serves the application."""

import argparse
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

import structlog
import uvicorn
from fastapi import FastAPI

from api.app import create_app
from api.http.connections import bounded_protocol, max_connections
from infrastructure.logs import configure_logs
from infrastructure.settings import SettingsError, load_settings, unread_variables

_GRACE_SECONDS = 3


class _Server(uvicorn.Server):
    """Asks event streams to end before it waits for requests in progress."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._resources = app.state.resources

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, let requests end, close."""
        self._resources.stopping.set()
        await super().shutdown(sockets)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal asks for the stop; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -P -m api", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--fd", type=int, help="serve a listening socket that is already open")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
        app = create_app(settings)
    except SettingsError as error:
        # Without a traceback, which would show the settings and with them the URLs' passwords.
        raise SystemExit(str(error)) from None
    configure_logs(settings.log_format)
    for name in unread_variables():
        structlog.get_logger().warning("no such setting: nothing reads it", name=name)
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        server_header=False,
        http=bounded_protocol(max_connections(settings.max_connections)),
        timeout_graceful_shutdown=_GRACE_SECONDS,
        # The application reads them: left alone, uvicorn believes whatever comes from 127.0.0.1.
        proxy_headers=False,
    )
    sockets = None if options.fd is None else [socket.socket(fileno=options.fd)]
    server = _Server(config, app)
    with suppress(KeyboardInterrupt):
        # Raised again by uvicorn when Ctrl-C has ended it well.
        server.run(sockets)
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
