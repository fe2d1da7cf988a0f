"""Helper processes, from the side of the process that starts them: the first rank."""

import os
import secrets
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self, TypeVar

import torch
from torch import Tensor

from fedaudit.training.base.cell import Cell
from fedaudit.training.ranks.orders import Failed, Join, Order, Ready, Sent, StartFrom, Take
from fedaudit.training.ranks.rank_group import RankGroup, backend_of

Answer = TypeVar("Answer")
_A_MOMENT = 1.0
"""Seconds after the ranks' exchange broke in which a helper's end is heard of."""
_SETTINGS, _SETTING_OF_KERNELS = "FEDAUDIT_", "FEDAUDIT_NATIVE"
_SECRET = ("AUTH", "CREDENTIAL", "DSN", "HEADERS", "KEY", "PASS", "SECRET", "TOKEN", "URL")
"""Parts of the names of variables whose values open something."""


class HelperLostError(Exception):
    """A helper has ended, failed or does not answer: its share of a round is lost."""


def bound_waiting(pipe: "Connection[object, object]", seconds: float) -> None:
    """Lets what is sent or received stop with BlockingIOError where the other end has not moved
    for so long: a helper may hang in the middle of a message that the pipe cannot hold."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        for one in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            end.setsockopt(socket.SOL_SOCKET, one, limit)


def _environment() -> dict[str, str]:
    """A helper's: all that arithmetic may depend on, and so all but the service's settings and what
    looks like a secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if name == _SETTING_OF_KERNELS
        or not (name.startswith(_SETTINGS) or any(part in name.upper() for part in _SECRET))
    }


class _Process:
    """One helper, and the pipe to it."""

    def __init__(self, rank: int, seconds: float) -> None:
        self.rank = rank
        self._seconds = seconds
        self._pipe, theirs = Pipe()
        bound_waiting(self._pipe, seconds)
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "fedaudit.training.ranks.helper",
                    str(theirs.fileno()),
                ],
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                env=_environment(),
                # What stops the worker by a key of its terminal is not for the helper.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, order: Join | Order) -> None:
        """Gives it something to do. Raises HelperLostError."""
        try:
            self._pipe.send(order)
        except OSError:
            raise self.lost() from None

    def has_answered(self) -> bool:
        """Whether `answer` returns, or raises, at once."""
        return self._pipe.poll()

    def answer(self, kind: type[Answer]) -> Answer:
        """Its next answer. Raises HelperLostError."""
        try:
            if not self._pipe.poll(self._seconds):
                raise HelperLostError(
                    f"helper {self.rank} has not answered for {self._seconds:g} seconds"
                )
            found = self._pipe.recv()
        except (EOFError, OSError):
            raise self.lost() from None
        if isinstance(found, Failed):
            raise HelperLostError(f"helper {self.rank} failed: {found.reason}")
        assert isinstance(found, kind)
        return found

    def check(self) -> None:
        """Raises HelperLostError where it is known to have ended or failed."""
        while self._pipe.poll(_A_MOMENT):
            self.answer(object)

    def lost(self) -> HelperLostError:
        """The error to raise when it is gone, or out of reach."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_A_MOMENT)
        code = self._process.returncode
        how = "is out of reach" if code is None else f"ended with exit code {code}"
        return HelperLostError(f"helper {self.rank} {how}")

    def kill(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()
        if self._process.stdin is not None:
            self._process.stdin.close()


class Helpers:
    """Processes that compute shares of a cell's clients; a context, at whose end they end too.

    They are started when they are first needed, once for all cells.
    """

    def __init__(self, devices: Sequence[str], *, seconds: float = 300.0) -> None:
        """`devices`: one helper on each; `seconds`: the most to wait for one."""
        self.devices = tuple(devices)
        self._seconds = seconds
        self._processes: list[_Process] = []
        self._group: RankGroup | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def pids(self) -> list[int]:
        """The process ids of those that run."""
        return [one.pid for one in self._processes]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def take(self, cell: Cell, device: torch.device) -> None:
        """Gives them a cell, whose first rank is this process on `device`; those that do not run
        yet are started. Raises HelperLostError."""
        if self._group is None:
            self._start(device)
        # What an audit plants is known here alone, and so are the parameters to start from.
        order = Take(replace(cell, planted=None, start=None))
        for one in self._processes:
            one.ask(order)

    def _start(self, device: torch.device) -> None:
        backend, size = backend_of([str(device), *self.devices]), 1 + len(self.devices)
        for rank in range(1, size):
            self._processes.append(_Process(rank, self._seconds))
        self._folder = tempfile.TemporaryDirectory(prefix="fedaudit-ranks-")
        store, secret = f"{self._folder.name}/store", secrets.token_bytes(32)
        for one, own in zip(self._processes, self.devices, strict=True):
            one.answer(Ready)
            join = Join(
                device=own, rank=one.rank, size=size, backend=backend, store=store, secret=secret
            )
            one.ask(join)
        try:
            self._group = RankGroup(
                device,
                backend=backend,
                store=store,
                secret=secret,
                rank=0,
                size=size,
                seconds=self._seconds,
            )
        except RuntimeError as error:
            raise self._lost(error) from error
        for one in self._processes:
            one.answer(Ready)

    def ask(self, rank: int, order: Order) -> None:
        """Gives a helper something to do. Raises HelperLostError."""
        self._processes[rank - 1].ask(order)

    def has_answered(self, rank: int) -> bool:
        """Whether a helper's next answer is there."""
        return self._processes[rank - 1].has_answered()

    def answer(self, rank: int, kind: type[Answer]) -> Answer:
        """A helper's next answer. Raises HelperLostError."""
        return self._processes[rank - 1].answer(kind)

    def start_from(self, theta: Tensor) -> None:
        """Gives all of them hypotheses [k, n]. Raises HelperLostError."""
        for one in self._processes:
            one.ask(StartFrom())
        try:
            self._joined.broadcast(theta)
        except RuntimeError as error:
            raise self._lost(error) from error

    def vector(self, rank: int, size: int) -> Tensor:
        """The next vector [size] that a helper has learned. Raises HelperLostError."""
        self.answer(rank, Sent)
        try:
            return self._joined.receive(size, rank=rank)
        except RuntimeError as error:
            raise self._lost(error) from error

    def close(self) -> None:
        """Ends them."""
        for one in self._processes:
            one.kill()
        self._processes = []
        if self._group is not None:
            self._group.close()
        self._group = None
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = None

    @property
    def _joined(self) -> RankGroup:
        if self._group is None:
            raise RuntimeError("the helpers have not been started")
        return self._group

    def _lost(self, error: RuntimeError) -> HelperLostError:
        """The error to raise after the ranks' exchange failed."""
        for one in self._processes:
            one.check()
        return HelperLostError(f"the helpers cannot be reached: {error}")
