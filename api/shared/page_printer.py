"""Prints reports as PDF files, one at a time, in separate processes.

A long report keeps a processor busy for seconds. In this process it would keep every other request
waiting, and nothing could end it.
"""

import os
import subprocess
import sys
import threading
from functools import partial

import structlog

from api.http.problems import unavailable

log = structlog.get_logger()

MAX_WAITING = 4
MAX_SECONDS = 120
_MAX_MEBIBYTES = 4096
_NOT_INSTALLED = 3
"""Exit status of `fedaudit.reports.page.pdf` without WeasyPrint."""
_unavailable = partial(unavailable, retry_seconds=10)
_COMMAND = (sys.executable, "-P", "-m", "fedaudit.reports.page.pdf")
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "FONTCONFIG_PATH")
"""What the process gets of the environment: nothing of the service's databases and keys."""


class PagePrinter:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(MAX_WAITING + 1)
        self._turn = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = False

    def pdf(self, page: str) -> bytes:
        """The PDF of a report's page. Raises ProblemError where too many others wait, where
        printing takes too long or fails, and where WeasyPrint is not installed."""
        if not self._places.acquire(blocking=False):
            raise _unavailable(f"{MAX_WAITING} reports wait to be printed already; ask again later")
        try:
            with self._turn:
                return self._print(page.encode())
        finally:
            self._places.release()

    def close(self) -> None:
        """End what is being printed."""
        self._closed = True
        if (running := self._running) is not None:
            running.kill()

    def _print(self, page: bytes) -> bytes:
        if self._closed:
            raise _unavailable("the service is stopping")
        limits = (str(MAX_SECONDS), str(_MAX_MEBIBYTES))
        with subprocess.Popen(
            (*_COMMAND, *limits),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
        ) as process:
            self._running = process
            try:
                pdf, errors = process.communicate(page, timeout=MAX_SECONDS)
            except subprocess.TimeoutExpired:
                raise _unavailable(
                    f"printing takes longer than {MAX_SECONDS} s; report.html prints from any "
                    "browser"
                ) from None
            finally:
                self._running = None
                process.kill()
        if process.returncode == 0:
            return pdf
        said = errors.decode(errors="replace")
        if process.returncode == _NOT_INSTALLED:
            raise _unavailable(said)
        log.error("report not printed", status=process.returncode, detail=said[-2000:])
        raise _unavailable("printing failed; report.html prints from any browser")
