"""Every null of the report's fairness section has its reason."""

from collections.abc import Iterator
from typing import Any

from fedaudit.reports.report import Report, assemble
from tests.reports.conftest import SPEC


def section(material: Any) -> dict[str, Any]:
    report = assemble(material)
    assert Report.model_validate(report).model_dump(mode="json") == report
    found: dict[str, Any] = report["fairness"][0]
    return found


def nulls_without_reason(part: Any, place: str = "") -> Iterator[str]:
    """Fields that are None with nothing beside them that says why."""
    if isinstance(part, list):
        for one in part:
            yield from nulls_without_reason(one, place)
    elif isinstance(part, dict):
        for name, value in part.items():
            if value is None and not name.endswith("reason"):
                said = part.get("reasons", {}).get(name) or part.get(f"{name}_reason")
                if not (said or (name == "value" and part.get("reason"))):
                    yield f"{place}.{name}"
            yield from nulls_without_reason(value, f"{place}.{name}")


def test_no_figure_is_missing_without_a_reason(material):
    hidden = {"fairness": {**SPEC["fairness"], "minimum_group_size": 10_000}}
    for made in (material(), material(hidden)):
        assert list(nulls_without_reason(section(made)["metrics"])) == []
