"""What planning takes where rows are many: `python -m benchmarks.outlines [--rows 2000000]`.

A Parquet table of 20,000 clients, two sensitive attributes and two features, indexed by one process
and planned by another from the index alone, in another scale. Seconds are of the processor, on one
thread; memory as in `benchmarks.curves`.
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
from benchmarks.measured_process import in_a_process

_CLIENTS = 20_000
_ID = "00000000-0000-0000-0000-000000000000"
_SOURCE: dict[str, Any] = {
    "source": "table",
    "path": "rows.parquet",
    "client_key": "who",
    "target": "y",
    "features": ["a", "b"],
}
_FAIRNESS = {"sensitive": ["s", "t"]}


def _indexed(folder: Path, rows: int) -> dict[str, float]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from fedaudit.federations.load import index_registered
    from fedaudit.federations.reading.source_files import Files
    from fedaudit.spec.registration import parse_registration

    rng = np.random.default_rng(1)
    columns = {
        "who": pa.array([f"client-{one:05d}" for one in rng.integers(0, _CLIENTS, rows)]),
        "y": pa.array(rng.choice(["yes", "no"], rows)),
        "s": pa.array(rng.choice(["F", "M"], rows)),
        "t": pa.array(rng.choice(list("abcde"), rows)),
        "a": rng.normal(size=rows),
        "b": rng.normal(size=rows),
    }
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    asked = parse_registration({"name": "rows", "federation": _SOURCE, "fairness": _FAIRNESS})
    measured, place = Measured(), folder / "index"
    with place.open("wb") as index:
        measured("index", lambda: index_registered(asked, files=Files(folder), place=index))
    return {**measured.found, "index_bytes": place.stat().st_size}


def _planned(folder: Path) -> dict[str, float]:
    from fedaudit.federations.load import outline_federation
    from fedaudit.federations.reading.source_files import Files
    from fedaudit.runs.experiment_plan import plan_experiment
    from fedaudit.spec.parse import parse_spec

    kept = {**_SOURCE, "path": None, "id": _ID, "scale": {"*": 7}, "validation_fraction": 0.2}
    spec = parse_spec(
        {
            "name": "rows",
            "federation": kept,
            "fairness": _FAIRNESS,
            "model": {"kind": "logistic"},
            "training": {"loss": "cross-entropy", "rounds": 3, "cohort": {"clients": 20}},
            "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": 1, "clip": 1},
        }
    )
    fingerprint = hashlib.sha256((folder / "rows.parquet").read_bytes()).hexdigest()
    files = Files(
        kept_content=lambda _: fingerprint, open_index=lambda _: nullcontext(folder / "index")
    )
    measured = Measured()
    federation = measured("outline", lambda: outline_federation(spec, files=files))
    measured("plan", lambda: plan_experiment(spec, federation))
    return measured.found


def _in_a_process(part: str, folder: Path, rows: int) -> dict[str, float]:
    return in_a_process("benchmarks.outlines", "--measure", part, folder, "--rows", rows)


def main() -> int:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outlines")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--measure", nargs=2, metavar=("PART", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        part, folder = options.measure[0], Path(options.measure[1])
        print(json.dumps(_indexed(folder, options.rows) if part == "index" else _planned(folder)))
        return 0
    with tempfile.TemporaryDirectory() as made:
        parts = {one: _in_a_process(one, Path(made), options.rows) for one in ("index", "plan")}
    print(json.dumps({"load": os.getloadavg()[0], **parts}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
