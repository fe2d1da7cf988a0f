"""Tables of people, with truth, prediction and score, and their audits."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fedaudit.audits.audit_material import audit_report
from fedaudit.audits.audit_table import read_audit
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.audits import parse_audit

FILE = "people.csv"
COLUMNS = ("town", "sex", "race", "age", "hired", "predicted", "score")
ASKED: dict[str, Any] = {
    "name": "hiring",
    "path": FILE,
    "truth": "hired",
    "prediction": "predicted",
    "sensitive": ["sex", "race"],
    "favourable": "yes",
    "intervals": {"samples": 100},
}


def people(count: int = 600, *, seed: int = 1) -> dict[str, list[Any]]:
    """Made-up people of 30 towns; the score favours men."""
    draw = np.random.default_rng(seed)
    sex = draw.choice(["F", "M"], count)
    hired = draw.random(count) < np.where(sex == "M", 0.6, 0.4)
    score = np.clip(
        0.35 + 0.3 * hired + 0.1 * (sex == "M") + draw.normal(0, 0.2, count), 0, 1
    ).round(3)
    return {
        "town": [f"t{row % 30}" for row in range(count)],
        "sex": sex.tolist(),
        "race": draw.choice(["A", "B", "C"], count).tolist(),
        "age": draw.integers(18, 70, count).tolist(),
        "hired": np.where(hired, "yes", "no").tolist(),
        "predicted": np.where(score >= 0.5, "yes", "no").tolist(),
        "score": score.tolist(),
    }


def write(folder: Path, table: Mapping[str, list[Any]], name: str = FILE) -> Path:
    """A CSV file of the table."""
    rows = zip(*table.values(), strict=True)
    lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
    path = folder / name
    path.write_text("\n".join([*lines, ""]))
    return path


def audited(folder: Path, **asked: Any) -> dict[str, Any]:
    """The report of an audit of the folder's file, in this process."""
    rows = read_audit(parse_audit(asking(**asked)), files=Files(folder))
    return audit_report(rows, audit_id="here", started_at=datetime.now(UTC))


def asking(**asked: Any) -> dict[str, Any]:
    """An audit, without the fields that are None; null intervals are none at all."""
    fields = {**ASKED, **asked}.items()
    return {name: value for name, value in fields if value is not None or name == "intervals"}
