"""Processes of fedaudit's programs, without the seconds that each would spend on its imports.

One process imports the libraries and forks for each program that it is asked for. The fork is what
`fedaudit ...` or `python -P -m ...` would be: it has arguments, environment, folder, standard
files, signals and an exit code of its own. Two things only a start of one's own shows: what a
program imports, and that nothing depends on the seed of Python's hashes, which forks share.
"""

import atexit
import gc
import importlib
import json
import logging
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

_LIBRARIES = (
    *("fedaudit.cli.main", "fedaudit.cli.run", "fedaudit.cli.experiments", "fedaudit.cli.verify"),
    *("fedaudit_client.client", "workers.app", "workers.context"),
    *("workers.flush", "workers.eraser", "workers.sweeper", "workers.proof.signing"),
    *("workers.proof.declared_signing", "workers.webhooks", "api.app"),
)
_FILES = 5
"""The request, the three standard files, and where the exit code goes."""


class Forked:
    """A running program; its methods are those of subprocess.Popen."""

    def __init__(self, pid: int, end: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._end = end

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        if self.returncode is None and select.select([self._end], [], [], 0)[0]:
            self._read()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            self._read()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Signal it, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.send_signal(signal.SIGKILL)

    def _read(self) -> None:
        said = os.read(self._end, 16)
        os.close(self._end)
        assert said, "what forks the programs has ended"
        self.returncode = int(said)


class Preloaded:
    """Starts programs whose libraries are imported already."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def start(
        self,
        *module: str,
        env: Mapping[str, str],
        cwd: Path,
        output: IO[bytes],
        stdin: IO[bytes] | None = None,
        errors: IO[bytes] | None = None,
        arguments: Sequence[str] = (),
    ) -> Forked:
        """`fedaudit ARGUMENTS` or, where a module is named, `python -P -m MODULE ...`.

        Without `errors` these go to the output, as the output of a log does.
        """
        read, write = os.pipe()
        request = {"argv": [*(module or ("fedaudit",)), *arguments], "module": bool(module)}
        with tempfile.TemporaryFile() as said, open(os.devnull, "rb") as nothing:
            said.write(json.dumps({**request, "env": dict(env), "cwd": str(cwd)}).encode())
            said.flush()
            files = [said, stdin or nothing, output, errors or output]
            numbers = [*(file.fileno() for file in files), write]
            socket.send_fds(self._connection, [b"!"], numbers)
            os.close(write)
            answer = self._connection.recv(16)
        assert answer, "what forks the programs has ended"
        pid = int(answer)
        return Forked(pid, read)

    def run(
        self, *arguments: str, env: Mapping[str, str], cwd: Path, stdin: str = "", timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """`fedaudit ARGUMENTS` to its end. Raises TimeoutExpired."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
        ):
            given.write(stdin.encode())
            given.seek(0)
            process = self.start(
                arguments=arguments, env=env, cwd=cwd, stdin=given, output=output, errors=errors
            )
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            said = [_text(file) for file in (output, errors)]
        return subprocess.CompletedProcess(["fedaudit", *arguments], code, *said)


@cache
def programs(tree: Path | None = None) -> Preloaded:
    """Those of this test process; what forks them ends with it. `tree`: of the version there."""
    here, there = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, str(there.fileno())],
        env={**os.environ, "PYTHONPATH": str(tree)} if tree else None,
        pass_fds=[there.fileno()],
        stdin=subprocess.DEVNULL,
    )
    there.close()

    def end() -> None:
        here.close()
        process.wait()

    atexit.register(end)
    return Preloaded(here)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


# -- in the process that forks ---------------------------------------------------------------------


class _Program(NamedTuple):
    argv: Sequence[str]
    is_module: bool


def _import_libraries() -> None:
    for name in _LIBRARIES:
        importlib.import_module(name)
    worker_extra: Any = importlib.import_module("fedaudit.runs.run")
    worker_extra.import_worker_extra()
    gc.freeze()


def _asked_for(connection: socket.socket) -> _Program:
    """Returns in forks alone, each with the program that it is. Ends with its connection."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for those who ask
    ends: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([connection, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(ends)
        if connection not in ready:
            continue
        said, files, _, _ = socket.recv_fds(connection, 1, _FILES)
        if not said:
            sys.exit()
        *others, end = files
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number in (connection.detach(), woken, wakes, end, *ends.values()):
                os.close(number)
            return _become(*others)
        for number in others:
            os.close(number)
        ends[pid] = end
        connection.send(str(pid).encode())


def _tell_ends(ends: dict[int, int]) -> None:
    for pid in list(ends):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            end = ends.pop(pid)
            os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(end)


def _become(request: int, *standard: int) -> _Program:
    with os.fdopen(request, "rb") as file:
        file.seek(0)
        asked = json.load(file)
    for number, given in enumerate(standard):
        os.dup2(given, number)
        os.close(given)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    return _Program(asked["argv"], asked["module"])


def _main() -> None:
    _import_libraries()
    program = _asked_for(socket.socket(fileno=int(sys.argv[1])))
    try:
        _run(program)
        code: Any = 0
    except SystemExit as asked:
        code = asked.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # Python would take apart what was imported, and so copy all that forks share.
    os._exit(code or 0)


def _run(program: _Program) -> None:
    sys.argv[:] = program.argv
    if program.is_module:
        runpy.run_module(program.argv[0], run_name="__main__", alter_sys=True)
    else:
        from fedaudit.cli.main import main

        main()


if __name__ == "__main__":
    _main()
