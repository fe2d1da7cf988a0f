"""What is kept of a sweep that was played: the rows of its table, and the few cells that are drawn.

It is small enough to be kept beside the source, so that its tables and drawings can be
made again without the hours that the sweeps take.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.reproductions.plane_drawing import kept_plane
from fedaudit_client.client import Client
from fedaudit_client.wire import Json

KEPT = Path("benchmarks/results/reproduced")

GAPS = (
    "demographic_parity_difference",
    "equalized_odds_difference",
    "equal_opportunity_difference",
)
_FIGURES = ("validation_loss", "accuracy", "rounds", "leakage_median", "leakage_max", *GAPS)
_DIGITS = 6

_PATIENCE, _HYPOTHESES = "training.stopping.patience", "training.hypotheses"
_KEEP = {"method": "k-means", "empty_cluster": "keep"}
_CLUSTERING = "training.clustering"
DRAWN_CELLS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "synthetic-figures-1-2": (
        {"seed": 1, _PATIENCE: 30, _HYPOTHESES: 1, _CLUSTERING: _KEEP},
        {"seed": 1, _PATIENCE: 30, _HYPOTHESES: 2, _CLUSTERING: {"method": "reported"}},
        {"seed": 1, _PATIENCE: 6, _HYPOTHESES: 2, _CLUSTERING: _KEEP},
        {"seed": 1, _PATIENCE: 30, _HYPOTHESES: 2, _CLUSTERING: _KEEP},
    ),
    # Figure 4 names the seed.
    "hospital-table-1": (
        {
            "seed": 3,
            _HYPOTHESES: 5,
            "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": "adaptive"},
        },
    ),
}
"""The cells whose own figures are drawn, by the name of the sweep's file."""


class KeptFigure(TypedDict):
    """A figure over the seeds of a row; None where there is none."""

    n: int
    mean: float | None
    low: float | None
    high: float | None


class KeptRow(TypedDict):
    """One combination over its seeds."""

    values: Mapping[str, Any]
    seeds: int
    succeeded: int
    unbounded: bool
    figures: Mapping[str, KeptFigure]


class KeptCell(TypedDict):
    """What is drawn of one cell."""

    values: Mapping[str, Any]
    report: Mapping[str, Any]
    """What its report's `privacy` says of leakage, and its `plane` (`kept_plane`)."""
    leakage: Mapping[str, Sequence[float | None]]
    """By cluster, the largest leakage of a client after each round; empty without a plane."""


class KeptSweep(TypedDict):
    """One sweep that has ended."""

    file: str
    sweep: str
    """The service's id of it."""
    machine: Mapping[str, str | int]
    """What it was played on, and by which commit."""
    processor_seconds: int | None
    """Of the service and its worker; None where it was played in more than one go."""
    statuses: Mapping[str, int]
    """How many cells ended how."""
    rounds: int
    """Of all cells together."""
    cells: Sequence[KeptCell]
    rows: Sequence[KeptRow]


def kept_rows(table: Json) -> list[KeptRow]:
    """The rows of a table, with the figures that the docs show."""
    names = [name for name in table["figures"] if name.split("[")[0] in _FIGURES]
    return [_kept_row(row, names) for row in table["rows"]]


def kept_cells(client: Client, sweep: Json) -> list[KeptCell]:
    """The cells of the sweep that are drawn, as far as they have ended well."""
    drawn = DRAWN_CELLS.get(sweep["name"], ())
    found = [
        cell for values in drawn for cell in sweep["cells"] if has_values(cell["values"], values)
    ]
    return [
        _kept_cell(client, cell["experiment_id"], cell["values"])
        for cell in found
        if cell["status"] == "succeeded"
    ]


def has_values(values: Mapping[str, Any], some: Mapping[str, Any]) -> bool:
    """Whether a cell or a row has these values, whatever else it has."""
    return all(values.get(path) == value for path, value in some.items())


def read_kept(folder: Path, stem: str) -> KeptSweep | None:
    """What is kept of a sweep, by the name of its file; None without anything."""
    path = folder / f"{stem}.json"
    if not path.is_file():
        return None
    kept: KeptSweep = json.loads(path.read_text(encoding="utf-8"))
    return kept


def write_kept(folder: Path, stem: str, kept: KeptSweep) -> None:
    """Keeps a sweep: a line for each fact, each cell and each row."""
    lines = []
    for name, value in kept.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        lines.append(f" {json.dumps(name)}: {text}")
    body = ",\n".join(lines)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.json").write_text(f"{{\n{body}\n}}\n", encoding="utf-8")


def _kept_row(row: Json, names: Sequence[str]) -> KeptRow:
    return {
        "values": row["values"],
        "seeds": row["seeds"],
        "succeeded": row["succeeded"],
        "unbounded": row["unbounded"],
        "figures": {name: _kept_figure(row["figures"][name]) for name in names},
    }


def _kept_figure(figure: Json) -> KeptFigure:
    return {
        "n": figure["n"],
        "mean": _rounded(figure["mean"]),
        "low": _rounded(figure["low"]),
        "high": _rounded(figure["high"]),
    }


def _kept_cell(client: Client, experiment_id: str, values: Mapping[str, Any]) -> KeptCell:
    report, rounds = client.report(experiment_id), list(client.rows(experiment_id, "rounds"))
    plane = kept_plane(report)
    privacy = report["privacy"]
    leakage = ("leakage_quantiles", "leakage_max", "leakage_by_cluster", "records")
    return {
        "values": values,
        "report": {
            "plane": _rounded(plane),
            "privacy": {name: _rounded(privacy[name]) for name in leakage},
        },
        # Its other curves would take more room than all figures together.
        "leakage": {} if plane is None else _leakage(rounds),
    }


def _leakage(rounds: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """By cluster, the largest leakage of a client after each round."""
    found = [one["leakage_by_cluster"] or [] for one in rounds]
    largest = [{part["cluster"]: part["leakage_max"] for part in clusters} for clusters in found]
    return {
        str(cluster): [_rounded(of_round.get(cluster)) for of_round in largest]
        for cluster in sorted({cluster for of_round in largest for cluster in of_round})
    }


def _rounded(value: Any) -> Any:
    """The same with fewer digits, however deep they lie."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return value
