"""The papers' tables and figures as sweeps: a service plays them, and their tables are kept.

OMP_NUM_THREADS=1 python -m benchmarks.reproductions.played_sweeps --data ../shared/data \
    --out reproduced examples/papers/rpdp-heart.yaml

A file whose data are not below `--data` is left out with the service's own words. The service keeps
its data in OUT/service, so a reproduction that was interrupted goes on where it was.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from fedaudit.cli.service.installation import BROKER_URL, DATABASE_URL, python_module
from fedaudit.spec.parse import decode_text
from fedaudit_client.client import Client
from fedaudit_client.errors import ValidationError
from fedaudit_client.sweep_types import Sweep

_STOP_SECONDS = 30


def play(client: Client, path: Path, out: Path) -> bool:
    """Plays one sweep to its end and keeps its table as JSON and Markdown; whether no cell failed.

    One that was played before is not played again.
    """
    text = path.read_text(encoding="utf-8")
    try:
        # The same text is the same sweep: asked for again, it is answered with the first.
        key = f"papers-{hashlib.sha256(text.encode()).hexdigest()}"
        sweep: Sweep = client.submit_sweep(decode_text(text), idempotency_key=key)
    except ValidationError as error:
        _say(f"{path.name} is left out: {error}")
        return True
    _say(f"{path.name}: {sweep['progress']['cells']} cells")
    began = monotonic()
    ended = client.wait_sweep(sweep["id"])
    kept = {
        "file": path.name,
        "waited_seconds": round(monotonic() - began),
        "statuses": ended["progress"]["statuses"],
        "rounds": ended["progress"]["rounds"],
        "costs": ended["costs"],
        "facts": ended["facts"],
        "table": client.sweep_table(sweep["id"]),
    }
    (out / f"{path.stem}.json").write_text(f"{json.dumps(kept, indent=1)}\n", encoding="utf-8")
    (out / f"{path.stem}.md").write_text(
        client.sweep_table_text(sweep["id"], "markdown"), encoding="utf-8"
    )
    _say(f"{path.name}: {kept['statuses']}")
    return ended["progress"]["statuses"].get("succeeded", 0) == ended["progress"]["cells"]


@contextmanager
def service(data_dir: Path, sources_dir: Path) -> Iterator[dict[str, Any]]:
    """`fedaudit up` as a process of its own: its address and its key.

    Raises RuntimeError where it does not start.
    """
    own = (DATABASE_URL, BROKER_URL)  # it keeps to its folder, whatever is set
    environment = {name: value for name, value in os.environ.items() if name not in own}
    folders = ("--data-dir", str(data_dir), "--sources-dir", str(sources_dir))
    command = python_module("fedaudit.cli.main", "up", "--json", *folders)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RuntimeError("the service did not start")
            yield json.loads(line)
        finally:
            process.terminate()
            process.wait(_STOP_SECONDS)


def main() -> int:
    """Plays the files one after the other; 1 where a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="SWEEP")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    # Without any data the synthetic tasks are played all the same.
    sources = chosen.data if chosen.data.is_dir() else chosen.out
    with (
        service(chosen.out / "service", sources) as facts,
        Client(facts["url"], facts["api_key"]) as client,
    ):
        ended_well = [play(client, path, chosen.out) for path in chosen.files]
    return 0 if all(ended_well) else 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
