"""How fast a large CSV file is profiled, beside pyarrow alone: `python -m benchmarks.large_table`.

Makes a file of about `--gigabytes` with 16 columns, the same on every machine, and reads it
`--repeats` times in turn: by pyarrow's streaming reader and by `pyarrow.csv.read_csv`, both with
their defaults (types inferred, all cores), and by `profile_registration` as a worker runs it (one
thread). Every reading is a process of its own, so that its peak memory is its own; the seconds
leave out starting Python and importing.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

_RESULTS = Path(__file__).parent / "results" / "large_table.json"
_ROWS_AT_ONCE = 100_000
_REGIONS = ["north", "east", "south", "west"]
_GROUPS = ["asian", "black", "native", "other", "white"]
_MAX_SHARE_READ_WHOLE = 0.3  # of the memory that is free: read_csv takes about twice the file

REGISTRATION: dict[str, Any] = {
    "name": "large table",
    "federation": {
        "source": "table",
        "path": "large.csv",
        "client_key": "client",
        "target": "income",
        "features": [
            "age", "hours", "score_1", "score_2", "score_3", "score_4", "score_5",
            "gain", "loss", "visits", "calls",
            {"name": "region", "kind": "categorical", "categories": _REGIONS},
        ],
    },
    "fairness": {"sensitive": ["sex", "group"]},
}  # fmt: skip


def write_table(path: Path, size: int) -> None:
    """A CSV file of at least `size` bytes, deterministic."""
    rng = np.random.default_rng(20)
    first = _rows(rng)
    with path.open("wb") as file:
        writer = pyarrow.csv.CSVWriter(
            file, first.schema, write_options=pyarrow.csv.WriteOptions(quoting_style="needed")
        )
        writer.write_table(first)
        while file.tell() < size:
            writer.write_table(_rows(rng))
        writer.close()


def _rows(rng: np.random.Generator) -> Any:
    rows = _ROWS_AT_ONCE
    return pa.table(
        {
            "id": rng.permutation(10**9 + np.arange(rows)),
            "client": _names([f"client-{number}" for number in range(20_000)], rng),
            "age": rng.integers(17, 91, rows),
            "sex": _names(["F", "M"], rng),
            "group": _names(_GROUPS, rng),
            "region": _names(_REGIONS, rng),
            "hours": rng.integers(1, 100, rows),
            **{f"score_{place}": rng.normal(size=rows) for place in range(1, 6)},
            "gain": np.round(rng.gamma(2, 1000, rows), 2),
            "loss": np.round(rng.gamma(2, 100, rows), 2),
            "visits": rng.integers(0, 100_000, rows),
            "calls": rng.integers(0, 1000, rows),
            "income": _names(["high", "low"], rng),
        }
    )


def _names(names: list[str], rng: np.random.Generator) -> Any:
    codes = pa.array(rng.integers(0, len(names), _ROWS_AT_ONCE), pa.int32())
    return pa.DictionaryArray.from_arrays(codes, names).dictionary_decode()


# -- readings, each in a process of its own ------------------------------------------------------


def _stream(path: Path) -> int:
    with pyarrow.csv.open_csv(path) as reader:
        return sum(batch.num_rows for batch in reader)


def _whole(path: Path) -> int:
    rows: int = pyarrow.csv.read_csv(path).num_rows
    return rows


def _profile(path: Path) -> int:
    from fedaudit.federations.load import profile_registration
    from fedaudit.federations.reading.source_files import Files
    from fedaudit.spec.registration import parse_registration

    value = {**REGISTRATION, "federation": {**REGISTRATION["federation"], "path": path.name}}
    rows: int = profile_registration(parse_registration(value), files=Files(path.parent))["rows"]
    return rows


_READINGS: dict[str, Callable[[Path], int]] = {
    "pyarrow_stream": _stream,
    "profile": _profile,
    "pyarrow_read_csv": _whole,
}


def _measure(name: str, path: Path) -> None:
    if name == "profile":
        import fedaudit.federations.load  # noqa: F401  # imports are not measured
    begun, processor = time.perf_counter(), time.process_time()
    rows = _READINGS[name](path)
    found = {
        "seconds": time.perf_counter() - begun,
        "processor_seconds": time.process_time() - processor,
        "peak_mib": _peak_mib(),
        "rows": rows,
    }
    print(json.dumps(found))


def _peak_mib() -> float:
    """Of this program alone; `ru_maxrss` begins with what the parent had when it forked."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (one for one in status.read_text().splitlines() if one.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _in_a_process(name: str, path: Path) -> dict[str, float]:
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    if name == "profile":
        environment["OMP_NUM_THREADS"] = "1"  # as `python -m workers` sets it
    command = [sys.executable, "-m", "benchmarks.large_table", "--measure", name, str(path)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def _fits(path: Path) -> bool:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return path.stat().st_size < _MAX_SHARE_READ_WHOLE * free


def _compare(path: Path, repeats: int) -> dict[str, Any]:
    names = [name for name in _READINGS if name != "pyarrow_read_csv" or _fits(path)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            one = _in_a_process(name, path)
            found[name].append(one)
            print(f"{name:17} {one['seconds']:6.1f} s, peak {one['peak_mib']:6.0f} MiB", flush=True)
    size = path.stat().st_size
    readings: dict[str, Any] = {
        name: {
            "seconds": [round(one["seconds"], 2) for one in several],
            "processor_seconds": [round(one["processor_seconds"], 2) for one in several],
            "megabytes_a_second": round(size / 1e6 / median(one["seconds"] for one in several), 1),
            "peak_mib": round(max(one["peak_mib"] for one in several)),
        }
        for name, several in found.items()
    }
    profiled = [one["seconds"] for one in found["profile"]]
    ratios = {
        name: round(
            median(ours / one["seconds"] for ours, one in zip(profiled, found[name], strict=True)),
            2,
        )
        for name in names
        if name != "profile"
    }
    rows = int(found["profile"][0]["rows"])
    return {"bytes": size, "rows": rows, "readings": readings, "times_as_long_as": ratios}


def main() -> int:
    """Prints each reading, then how many times as long as pyarrow a profile takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the file is made; default: temporary")
    parser.add_argument("--measure", nargs=2, metavar=("READING", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        _measure(options.measure[0], Path(options.measure[1]))
        return 0
    from benchmarks.machine import machine

    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "large.csv"
        write_table(path, int(options.gigabytes * 1e9))
        found = _compare(path, options.repeats)
    print(f"a profile takes {found['times_as_long_as']} times as long")
    _RESULTS.parent.mkdir(exist_ok=True)
    _RESULTS.write_text(json.dumps({"machine": machine(), **found}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
