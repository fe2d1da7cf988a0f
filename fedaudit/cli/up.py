"""The commands `up`, `worker` and `migrate`: the whole service in one terminal, or a part of it."""

import errno
import fcntl
import os
import pwd
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Annotated, NoReturn

from typer import Option, Typer

from fedaudit.cli.installation import (
    SCOPES,
    STOPPED_EARLY,
    Installation,
    Service,
    end_of,
    make_private_folder,
    python_module,
    running,
    stop_signals,
)
from fedaudit.cli.main import EXTRAS
from fedaudit.cli.options import AsJson, DataDir, SourcesDir, check_device
from fedaudit.cli.output import CommandError, say, usage_error, write_json, write_line

_PROJECT = "default"
_START_SECONDS = 90.0
_GRACE_SECONDS = 8.0
_TEND_SECONDS = 0.2
_BACKLOG = 128


def _announce(installation: Installation, url: str, key: str, *, as_json: bool) -> None:
    """Say on one line of JSON, or to people, that the service is ready and how to use it."""
    folder = installation.data_dir
    if as_json:
        write_json({"url": url, "api_key": key, "data_dir": str(folder)}, pretty=False)
        return
    lines = (
        "fedaudit is ready.",
        f"  url          {url}",
        f"  api key      {key}",
        f"  data         {folder}",
        f"  logs         {folder / 'logs'}",
        f"  signing key  {signing_key_words(installation.private_key)}",
        "Open the url in a browser and sign in with the key; or in another terminal:",
        f"  export FEDAUDIT_URL={url} FEDAUDIT_API_KEY={key}",
        "  fedaudit submit SPEC --wait                   # train, follow, verdict",
        "  fedaudit list                                 # what there is",
        "  fedaudit report ID --format html --out FILE   # the audit report",
        "  fedaudit verify ID --public-key FILE          # was anything altered since?",
        "Ctrl-C stops it.",
    )
    write_line("\n".join(lines))


def open_pages(url: str) -> None:
    """Open the pages in a browser on this machine."""
    import webbrowser

    if not webbrowser.open(url):
        say(f"no browser was found; open {url} in one")


def signing_key_words(private: Path) -> str:
    """The id by which reports name the key in a file, and whether `FILE.pub` has its public half.
    Another may be there: the key was restored, or the file was copied alone."""
    from fedaudit.ledger.statements import SigningKey, public_keys_in

    public = private.with_name(f"{private.name}.pub")
    key, listed = SigningKey.from_pem(private.read_bytes()).public, list[object]()
    with suppress(OSError, ValueError):
        listed += public_keys_in(public.read_bytes())
    half = f"public half in {public}" if key in listed else f"its public half is not in {public}"
    return f"{key.key_id}\n               {half}"


def _services(installation: Installation, listener: socket.socket, *, device: str) -> list[Service]:
    """The API, and what it does not wait for."""
    environment = dict(installation.environment)
    # Measured: two processes of two threads each run many times slower than one thread each.
    one_thread = {"OMP_NUM_THREADS": "1", **environment}
    descriptor = listener.fileno()
    api = python_module("api", "--fd", str(descriptor))
    worker = python_module("workers", "--device", device)
    sweeper = python_module("workers.sweeper")
    logs = installation.data_dir / "logs"
    return [
        Service("api", api, environment, logs / "api.log", (descriptor,)),
        Service("worker", worker, one_thread, logs / "worker.log"),
        Service("sweeper", sweeper, environment, logs / "sweeper.log"),
    ]


@contextmanager
def _private_files(data_dir: Path) -> Iterator[None]:
    """What the service writes is its owner's alone, also in a folder that others may read."""
    for database in data_dir.glob("fedaudit.db*"):
        with suppress(OSError):  # another user's: opening it reports that
            database.chmod(0o600)
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data folder. The lock ends with this process, however it ends."""
    try:
        lock = (data_dir / "up.lock").open("ab")
    except OSError as error:
        raise usage_error(
            f"cannot write in {data_dir}: {error.strerror}; name another --data-dir"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise usage_error(
                f"another `fedaudit up` runs on {data_dir}; stop it, or name another --data-dir"
            ) from None
        yield


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """The socket that the API serves: bound here, so that a restarted API keeps its address."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        reason = "it is taken" if number == errno.EADDRINUSE else getattr(error, "strerror", error)
        raise usage_error(
            f"cannot listen on {host} port {port}: {reason}; name another --host or --port, or "
            "take a free one with --port 0"
        ) from None
    with listener:
        yield listener


def _first_key(installation: Installation, person: str | None) -> str:
    """The key kept in the data folder; made when there is none yet, for the person of this account
    unless another is named."""
    path = installation.data_dir / "api-key"
    if path.exists():
        # An empty file holds no key at all, and none can be sent.
        return path.read_text("utf-8").strip() or _refuse_key(installation.data_dir)
    if not person:
        with suppress(KeyError):  # the account is unknown here, as in a container
            account = pwd.getpwuid(os.getuid())
            person = account.pw_gecos.split(",")[0].strip() or account.pw_name
    created = installation.create_key(
        project=_PROJECT,
        scopes=SCOPES,
        name="fedaudit up",
        person=None if not person else {"name": person},
    )
    # A start that ends here must not leave half a key, which later ones would take for a whole.
    aside = path.with_name("api-key.partial")
    aside.write_text(f"{created['key']}\n", "utf-8")
    aside.replace(path)
    return str(created["key"])


def _wait_until_ready(url: str, api: Service, stopping: threading.Event) -> None:
    deadline = monotonic() + _START_SECONDS
    while stopping.is_set() or _status(f"{url}/health/ready") != 200:
        if stopping.wait(_TEND_SECONDS):
            raise CommandError(STOPPED_EARLY)
        if api.exit_code is not None:
            raise CommandError(f"the API ended with exit code {api.exit_code}{end_of(api.log)}")
        if monotonic() > deadline:
            raise CommandError(
                f"the API was not ready within {_START_SECONDS:.0f} s{end_of(api.log)}"
            )


def _refuse_key(data_dir: Path) -> NoReturn:
    raise usage_error(
        f"the key in {data_dir / 'api-key'} is not known to this database; "
        "remove that file, and the next start makes a new key"
    )


def _status(url: str, **headers: str) -> int | None:
    """The status of an answer; None where no answer comes."""
    import httpx

    try:
        return httpx.get(url, headers=headers, timeout=5.0, trust_env=False).status_code
    except httpx.HTTPError:
        return None


app = Typer()
DEFAULT_PORT = 8765
Port = Annotated[
    int | None,
    Option(
        min=0,
        max=65535,
        help="Port to listen on; 0 takes a free one.",
        show_default=f"{DEFAULT_PORT}; with --json a free one",
    ),
]
# A worker finishes its batch, flushes and gives its lease back within 30 s of SIGTERM.
_WORKER_GRACE_SECONDS = 35.0
_CUDA = re.compile(r"cuda:(\d+(?:,\d+)*)")


@app.command()
def up(
    *,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Port = None,
    data_dir: DataDir = None,
    sources_dir: SourcesDir = None,
    device: Annotated[
        str, Option(help="What trains: cpu, or cuda:0, where specs of device cpu wait.")
    ] = "cpu",
    person: Annotated[
        str | None,
        Option(
            help="Whom the first key is for: sign-offs are in this name.",
            show_default="the name of this account",
        ),
    ] = None,
    open_browser: Annotated[bool, Option("--open", help="Open the pages in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start the whole service: API, worker and sweeper. Ctrl-C stops it."""
    if len(_devices(device)) > 1:
        raise usage_error("--device: the embedded service has one worker; name one device")
    check_device(device)
    for library in EXTRAS:
        if EXTRAS[library] == "worker" and find_spec(library) is None:
            raise ModuleNotFoundError(name=library)
    installation = Installation.choose(data_dir, sources_dir=sources_dir)
    if port is None:
        # A bookmark needs the same address every time; a program reads the one printed.
        port = 0 if as_json else DEFAULT_PORT
    folder = installation.data_dir
    make_private_folder(folder)
    with (
        stop_signals() as stopping,
        _private_files(folder),
        _only_one(folder),
        _listening(host, port) as listener,
    ):
        installation.migrate()
        installation = installation.with_signing_key()
        key = _first_key(installation, person)
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
        named = f"[{reachable}]" if ":" in reachable else reachable
        url = f"http://{named}:{listener.getsockname()[1]}"
        services = _services(installation, listener, device=device)
        with running(services, grace_seconds=_GRACE_SECONDS):
            _wait_until_ready(url, services[0], stopping)
            if _status(f"{url}/v1/experiments?limit=1", Authorization=f"Bearer {key}") == 401:
                _refuse_key(folder)
            _announce(installation, url, key, as_json=as_json)
            if open_browser:
                open_pages(url)
            while not stopping.wait(_TEND_SECONDS):
                for remark in filter(None, [one.tend() for one in services]):
                    say(remark)
            say("stopping")


@app.command()
def worker(
    *,
    device: Annotated[str, Option(help="cpu, cuda:0, or cuda:0,1 for one process each.")],
    data_dir: DataDir = None,
    sources_dir: SourcesDir = None,
) -> None:
    """Train what the service's queue hands out, until stopped."""
    devices = _devices(device)
    installation = Installation.choose(data_dir, sources_dir=sources_dir)
    environment = {"OMP_NUM_THREADS": "1", **installation.environment}
    if len(devices) == 1:
        # The worker takes this process's place, so that its supervisor sees it directly.
        command = python_module("workers", "--device", devices[0])
        os.execve(command[0], command, environment)
    services = [
        Service(f"worker {one}", python_module("workers", "--device", one), environment)
        for one in devices
    ]
    with stop_signals() as stopping, running(services, grace_seconds=_WORKER_GRACE_SECONDS):
        while not stopping.wait(_TEND_SECONDS):
            # The supervisor of this process starts all devices again, rather than each its own.
            for one in services:
                if one.exit_code is not None:
                    raise CommandError(
                        f"the {one.name} ended with exit code {one.exit_code}; the others stop"
                    )


@app.command()
def migrate(*, data_dir: DataDir = None) -> None:
    """Bring the service's database up to this version's schema."""
    said = Installation.choose(data_dir).migrate().strip()
    write_line(said or "the database is up to date")


def _devices(device: str) -> list[str]:
    if device == "cpu":
        return ["cpu"]
    if (found := _CUDA.fullmatch(device)) is None:
        raise usage_error(f"--device: {device!r} is neither cpu nor cuda:0, nor cuda:0,1 and so on")
    return [f"cuda:{number}" for number in dict.fromkeys(found[1].split(","))]
