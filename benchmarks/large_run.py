"""What a run on a large table takes: `python -m benchmarks.large_run [--gigabytes 0.986]`.

The file of `benchmarks.large_table`, laid out on disk by one process, as a profile does, and mapped
by a second one: loaded, planned, and trained for `--rounds` rounds of 100 clients, each of which
scores every held-out client. Two more plan it as an API does that has no map of it, in other scales
than were registered: from its index, and from the file as a stream. Seconds are of the processor,
on one thread; memory as in `benchmarks.curves`.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.curves import Measured
from benchmarks.large_table import REGISTRATION, write_table
from benchmarks.measured_process import in_a_process

_ID = "00000000-0000-0000-0000-000000000000"
_RESULTS = Path(__file__).parent / "results" / "large_run.json"
_SPEC: dict[str, Any] = {
    "name": "large-run",
    "federation": {**REGISTRATION["federation"], "validation_fraction": 0.2},
    "fairness": REGISTRATION["fairness"],
    "model": {"kind": "logistic"},
    "training": {"loss": "cross-entropy", "hypotheses": 2, "cohort": {"clients": 100}},
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 1.0},
}


def _laid_out(folder: Path) -> dict[str, float]:
    from fedaudit.federations.load import (
        index_registered,
        lay_out_registered,
        profile_registration,
    )
    from fedaudit.federations.reading.source_files import DataRoom, Files
    from fedaudit.runs.worker_extra import import_worker_extra
    from fedaudit.spec.registration import parse_registration

    import_worker_extra()
    asked = parse_registration(REGISTRATION)
    files = Files(folder, room=DataRoom(maps_dir=folder / "maps"))
    measured = Measured()
    profile = measured("profile", lambda: profile_registration(asked, files=files))
    measured("layout", lambda: lay_out_registered(asked, profile, files=files))
    place = folder / "index"
    with place.open("wb") as index:
        measured("index", lambda: index_registered(asked, files=files, place=index))
    sizes = {"rows": profile["rows"], "clients": profile["clients"]}
    return {**measured.found, **sizes, "index_bytes": place.stat().st_size}


def _submission(folder: Path, *, indexed: bool) -> dict[str, float]:
    from fedaudit.federations.load import outline_federation
    from fedaudit.federations.reading.source_files import Files, Upload
    from fedaudit.runs.experiment_plan import plan_experiment
    from fedaudit.spec.parse import parse_spec

    file = folder / "large.csv"
    with file.open("rb") as stream:
        fingerprint = hashlib.file_digest(stream, "sha256").hexdigest()
    kept = {**_SPEC["federation"], "path": None, "id": _ID, "scale": {"*": 50}}
    spec = parse_spec({**_SPEC, "federation": kept})
    files = Files(
        open_upload=lambda _: nullcontext(Upload(file, "large.csv", fingerprint)),
        kept_content=(lambda _: fingerprint) if indexed else None,
        open_index=(lambda _: nullcontext(folder / "index")) if indexed else None,
    )
    measured = Measured()
    federation = measured("outline", lambda: outline_federation(spec, files=files))
    measured("plan", lambda: plan_experiment(spec, federation))
    return measured.found


def _run(folder: Path, rounds: int) -> dict[str, float]:
    from fedaudit.federations.load import load_federation
    from fedaudit.federations.reading.source_files import DataRoom
    from fedaudit.runs.experiment_plan import plan_experiment
    from fedaudit.runs.worker_extra import import_worker_extra
    from fedaudit.spec.parse import parse_spec
    from fedaudit.training.base.cell import Cell
    from fedaudit.training.stack import Stack

    import_worker_extra()
    spec = parse_spec({**_SPEC, "training": {**_SPEC["training"], "rounds": rounds}})
    room, measured = DataRoom(maps_dir=folder / "maps"), Measured()
    federation = measured("load", lambda: load_federation(spec, sources_dir=folder, room=room))
    measured("plan", lambda: plan_experiment(spec, federation))
    stack = measured("start", lambda: Stack([Cell(spec, federation)]))
    measured("rounds", lambda: stack.advance(rounds))
    each = round(measured.found["rounds_seconds"] / rounds, 3)
    return {**measured.found, "seconds_of_a_round": each}


def _in_a_process(part: str, folder: Path, rounds: int) -> dict[str, float]:
    return in_a_process("benchmarks.large_run", "--measure", part, folder, "--rounds", rounds)


def main() -> int:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_run")
    parser.add_argument("--gigabytes", type=float, default=0.986)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="where the file is made; default: temporary")
    parser.add_argument("--measure", nargs=2, metavar=("PART", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        part, folder = options.measure[0], Path(options.measure[1])
        measures = {
            "layout": lambda: _laid_out(folder),
            "run": lambda: _run(folder, options.rounds),
            "indexed": lambda: _submission(folder, indexed=True),
            "streamed": lambda: _submission(folder, indexed=False),
        }
        print(json.dumps(measures[part]()))
        return 0
    from benchmarks.machine import machine

    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        write_table(Path(made) / "large.csv", int(options.gigabytes * 1e9))
        names = ("layout", "run", "indexed", "streamed")
        parts = {one: _in_a_process(one, Path(made), options.rounds) for one in names}
    document = {"machine": machine(), "load": os.getloadavg()[0], **parts}
    print(json.dumps(document, indent=2))
    _RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
