"""`python -m workers --device cpu|cuda:0`: one worker for one device."""

import argparse
import fcntl
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal asks for the stop; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("--device", default="cpu", type=_device, help="cpu, or cuda:N")
    device = parser.parse_args(arguments).device
    # One unless it is set: measured, two processes of two threads each on two cores run many times
    # slower than two of one thread.
    threads = os.environ.get("FEDAUDIT_WORKER_THREADS", "1")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = threads
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

    # Imported here because numerical libraries read the number of threads when they are loaded.
    from fedaudit.runs.run import MissingLibraryError, import_worker_extra
    from infrastructure.queue import Queue
    from workers.app import serve
    from workers.context import WorkerContext, start
    from workers.proof.signing import announce_key

    settings, database = start()
    try:
        # Without them no run could end with a report: every unit would fail, one by one.
        import_worker_extra()
    except MissingLibraryError as error:
        raise SystemExit(str(error)) from None
    context = WorkerContext(settings, database, Queue(settings), device)
    _check_device(device)
    with _only_worker(settings.data_dir) if settings.embedded else nullcontext():
        announce_key(database, context.signing_key)
        return serve(context)


def _device(text: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no device; use cpu, or cuda:N")
    return "cuda:0" if text == "cuda" else text


def _check_device(device: str) -> None:
    """Exit where the device cannot be used: a worker never switches to another device by itself."""
    if device == "cpu":
        return
    import torch

    if not torch.cuda.is_available():
        raise SystemExit(f"{device}: this machine, or this build of torch, has no CUDA")
    if int(device.partition(":")[2]) >= torch.cuda.device_count():
        raise SystemExit(
            f"{device}: there are {torch.cuda.device_count()} CUDA devices; a worker takes one"
        )


@contextmanager
def _only_worker(data_dir: Path) -> Iterator[None]:
    """Hold the embedded service's worker lock, which is released when the process ends in any
    way."""
    with (data_dir / "worker.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(
                f"a second worker on {data_dir} is refused: the embedded service has one; set "
                "FEDAUDIT_DATABASE_URL and FEDAUDIT_BROKER_URL to run several"
            ) from None
        yield


if __name__ == "__main__":
    sys.exit(main())
