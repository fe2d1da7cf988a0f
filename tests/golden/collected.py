"""What one tree answers to `specs.yaml`: every file that its commands write and its service serves.

Run as a program with the tree first on PYTHONPATH: `python collected.py OUT`. It imports nothing of
the tree but the command line, so that trees may differ in everything else.
"""

import contextlib
import copy
import hashlib
import io
import itertools
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

HERE = Path(__file__).resolve().parent
COMMAND = [sys.executable, "-P", "-m", "fedaudit.cli.main"]
READY_SECONDS, FINISHED_SECONDS = 120, 240


class Counted:
    """Bytes in place of the machine's randomness, the same for every command."""

    def __init__(self) -> None:
        self._calls = itertools.count()

    def begin(self) -> None:
        """Begin anew."""
        self._calls = itertools.count()

    def bytes(self, size: int | None = None) -> bytes:
        """As `os.urandom` and `secrets.token_bytes`."""
        return hashlib.shake_128(b"%d" % next(self._calls)).digest(size or 32)

    def identifier(self) -> str:
        """As `uuid_utils.uuid7`."""
        return f"01890000-0000-7000-8000-{next(self._calls):012x}"


def specs() -> dict[str, dict[str, Any]]:
    """Every spec by its name."""
    given = yaml.safe_load((HERE / "specs.yaml").read_text("utf-8"))
    return {name: changed(given["base"], name, one) for name, one in given["runs"].items()}


def changed(base: dict[str, Any], name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with changes at dotted paths."""
    made = {**copy.deepcopy(base), "name": name}
    for path, value in changes.items():
        *parents, last = path.split(".")
        part = made
        for parent in parents:
            part = part[parent]
        part[last] = copy.deepcopy(value)
    return made


def write_sources(folder: Path) -> None:
    """The data of specs: the examples' tables, and small images."""
    folder.mkdir()
    for name in ("people.csv", "decisions.csv"):
        shutil.copyfile(Path.cwd() / "examples" / name, folder / name)
    drawn = np.random.default_rng(0)
    lit = drawn.random((40, 8, 8)) < 1 / 3
    images = {
        "x": (drawn.integers(0, 256, lit.shape) * lit).astype(np.uint8),
        "y": drawn.integers(0, 4, 40),
        "writer": np.repeat([f"w{number}" for number in range(10)], 4),
    }
    np.savez(folder / "marks.npz", **images)


def run_commands(out: Path, sources: Path) -> None:
    """`run`, `replay` and `audit`, in this process."""
    import uuid_utils

    counted = Counted()
    os.urandom = secrets.token_bytes = counted.bytes
    random._urandom = counted.bytes  # type: ignore[attr-defined]
    uuid_utils.uuid7 = counted.identifier  # type: ignore[assignment]
    given = yaml.safe_load((HERE / "specs.yaml").read_text("utf-8"))
    for name, spec in specs().items():
        path = out / f"{name}.spec.json"
        path.write_text(json.dumps(spec), "utf-8")
        counted.begin()
        said = in_process("run", path, "--out", out / name, "--sources-dir", sources)
        (out / name / "said.txt").write_text(said, "utf-8")
        if name in given["replayed"]:
            counted.begin()
            said = in_process("replay", path, "--rounds", 4, "--json")
            (out / name / "replay.json").write_text(said, "utf-8")
    counted.begin()
    table, *options = given["audit"]
    said = in_process("audit", sources / table, *options, "--out", out / "audit")
    (out / "audit" / "said.txt").write_text(said, "utf-8")


def in_process(*arguments: object) -> str:
    """What a command prints, with its exit code."""
    from fedaudit.cli.main import main

    sys.argv = ["fedaudit", *map(str, arguments)]
    written = io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(io.StringIO()) as faults:
        try:
            main()
        except SystemExit as end:
            code = end.code
    if code not in (0, 1, 3, 5):
        raise RuntimeError(f"{arguments} ended with {code}: {faults.getvalue()}")
    text = written.getvalue()
    return text if text.startswith("{") else f"{text}exit code {int(code)}\n"


class Service:
    """A running `fedaudit up`, over HTTP."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key

    def ask(self, path: str, body: Any = None) -> bytes:
        """The answer to GET, or to POST with a body."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.read().decode()}") from None

    def json(self, path: str, body: Any = None) -> Any:
        """The same, parsed."""
        return json.loads(self.ask(path, body))

    def wait(self, path: str) -> dict[str, Any]:
        """What is at `path`, once it has ended."""
        end = time.monotonic() + FINISHED_SECONDS
        while time.monotonic() < end:
            found: dict[str, Any] = self.json(path)
            if found["status"] not in ("queued", "running"):
                return found
            time.sleep(0.2)
        raise RuntimeError(f"{path} did not end")


@contextlib.contextmanager
def service(data_dir: Path, sources: Path) -> Iterator[Service]:
    """`fedaudit up` while the block runs."""
    asked = [*COMMAND, "up", "--json", "--data-dir", str(data_dir), "--sources-dir", str(sources)]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            facts = json.loads(process.stdout.readline())
            yield Service(facts["url"], facts["api_key"])
        finally:
            process.send_signal(signal.SIGTERM)


def ask_service(asked: Service, out: Path) -> None:
    """What a service serves of the specs, a sweep, an audit and declared ledgers."""
    given, by_name = yaml.safe_load((HERE / "specs.yaml").read_text("utf-8")), specs()
    out.mkdir()
    (out / "openapi.json").write_bytes(asked.ask("/openapi.json"))
    for name in given["served"]:
        # One after the other: the log of their data has what other runs did by then.
        identifier = asked.json("/v1/experiments", by_name[name])["id"]
        asked.wait(f"/v1/experiments/{identifier}")
        keep(asked, f"/v1/experiments/{identifier}", out / name)
        for rest in ("rounds", "fairness", "privacy-ledger.csv", "attacks"):
            kept = asked.ask(f"/v1/experiments/{identifier}/{rest}")
            (out / name / f"{rest}{'' if '.' in rest else '.json'}").write_bytes(kept)
        for reading in ("registry", "nist-800-226", "impact-ratio", "model-card"):
            kept = asked.ask(f"/v1/experiments/{identifier}/report/readings/{reading}")
            (out / name / f"{reading}.{'txt' if reading == 'model-card' else 'json'}").write_bytes(
                kept
            )
    sweep = asked.json("/v1/sweeps", {**given["sweep"], "base": by_name["laplace-adaptive"]})["id"]
    table, *_ = given["audit"]
    options = {"truth": "repaid", "prediction": "approved", "sensitive": ["sex"]}
    body = {"name": "golden", "path": table, **options, "favourable": ["yes"]}
    audit = asked.json("/v1/audits", body)["id"]
    ledgers = {name: declare(asked, one) for name, one in given["ledgers"].items()}
    asked.wait(f"/v1/sweeps/{sweep}")
    (out / "sweep-table.json").write_bytes(asked.ask(f"/v1/sweeps/{sweep}/table"))
    asked.wait(f"/v1/audits/{audit}")
    keep(asked, f"/v1/audits/{audit}", out / "audit")
    for name, identifier in ledgers.items():
        until_signed(asked, f"/v1/ledgers/{identifier}")
        keep(asked, f"/v1/ledgers/{identifier}", out / f"ledger-{name}")
        entries = asked.ask(f"/v1/ledgers/{identifier}/privacy-ledger")
        (out / f"ledger-{name}" / "entries.json").write_bytes(entries)


def declare(asked: Service, ledger: dict[str, Any]) -> str:
    """A ledger with three rounds; its id."""
    identifier: str = asked.json("/v1/ledgers", ledger["terms"])["id"]
    counts = dict.fromkeys(("true_positives", "false_positives", "true_negatives"), 30)
    groups = {"sex": {one: {**counts, "false_negatives": n} for one, n in (("f", 9), ("m", 22))}}
    rounds = [
        {"round": n, "event": ledger["event"], "participants": ["ada", "ben", f"c{n}"], **more}
        for n, more in ((1, {"groups": groups}), (2, {"failures": ["dan"]}), (3, {}))
    ]
    asked.json(f"/v1/ledgers/{identifier}/rounds", {"rounds": rounds})
    return identifier


def until_signed(asked: Service, path: str) -> None:
    """Wait until nothing of a ledger waits for a signature."""
    for _ in range(150):
        checks = asked.json(f"{path}/report/verification")["checks"]
        if all(one["outcome"] == "pass" for one in checks):
            return
        time.sleep(0.2)


def keep(asked: Service, path: str, folder: Path) -> None:
    """The report, its page, what is verified, and what `fedaudit verify` says of the bundle."""
    folder.mkdir()
    (folder / "report.json").write_bytes(asked.ask(f"{path}/report.json"))
    (folder / "report.html").write_bytes(asked.ask(f"{path}/report.html"))
    (folder / "verification.json").write_bytes(asked.ask(f"{path}/report/verification"))
    bundle = folder / "bundle.zip"
    bundle.write_bytes(asked.ask(f"{path}/bundle"))
    found = subprocess.run(
        [*COMMAND, "verify", bundle], capture_output=True, text=True, check=False
    )
    (folder / "verified.txt").write_text(f"{found.stdout}exit code {found.returncode}\n", "utf-8")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder / "bundle")
    bundle.unlink()


def main() -> None:
    """Write everything into the folder that is named."""
    out = Path(sys.argv[1])
    sources = out / "sources"
    write_sources(sources)
    with service(out / "data", sources) as asked:
        ask_service(asked, out / "service")
    shutil.rmtree(out / "data")
    run_commands(out, sources)


if __name__ == "__main__":
    main()
