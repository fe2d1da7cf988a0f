"""The attack that rounding closes: exact fractions give back their counts."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.cli.run import run_locally
from fedaudit.fairness.published_counts import Rounder
from fedaudit.federations.load import load_federation
from fedaudit.runs.rounded_counts import build_rounder
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from tests.training.specs import groups_spec


def published(**changes: Any) -> dict[str, Any]:
    spec = parse_spec(groups_spec(training__rounds=6, training__stopping={}, **changes))
    return run_locally(spec, sources_dir=None, device="cpu", progress=lambda _: None).report


@pytest.fixture(scope="module")
def exact() -> dict[str, Any]:
    return published()


@pytest.fixture(scope="module")
def rounded() -> dict[str, Any]:
    return published(fairness__rounding={"base": 5})


def sizes_behind(report: dict[str, Any]) -> list[int]:
    """The denominators of the groups' selection rates, in lowest terms."""
    [section] = report["fairness"]
    rates = [group["selection_rate"] for group in section["groups"]]
    return [Fraction(rate).limit_denominator(2000).denominator for rate in rates]


def test_exact_rates_give_back_counts_and_rounded_ones_do_not(
    exact: dict[str, Any], rounded: dict[str, Any]
) -> None:
    [truth], [shown] = exact["fairness"], rounded["fairness"]
    before, after = truth["groups"], shown["groups"]
    assert any(
        one["selection_rate"] != two["selection_rate"]
        for one, two in zip(before, after, strict=False)
    )
    # 500 held-out rows: multiples of 5 of multiples of 5 leave at most a fifth of the size.
    assert all(one <= 500 // 5 + 1 for one in sizes_behind(rounded))
    for one, two in zip(before, after, strict=True):
        for name in ("selection_rate", "true_positive_rate", "false_positive_rate"):
            assert two[name] == pytest.approx(one[name], abs=0.25)


def test_derived_figures_are_in_steps(exact: dict[str, Any], rounded: dict[str, Any]) -> None:
    [truth], [shown] = exact["fairness"], rounded["fairness"]
    for group in shown["groups"]:
        assert group["loss"] == float(f"{group['loss']:.2g}")
    assert shown["cross_check"] is None
    assert "rounded" in shown["cross_check_reason"]
    for group in shown["client_averaged"]["groups"]:
        assert group["clients"] % 5 == 0
    for name, metric in shown["metrics"].items():
        if metric["interval"] is not None:
            before = truth["metrics"][name]["interval"]
            assert metric["interval"]["low"] <= before["low"]
            assert metric["interval"]["high"] >= min(1.0, before["high"]) - 1e-9
            assert metric["interval"]["low"] <= metric["value"] <= metric["interval"]["high"]
        if metric["null"] is not None:
            assert round(metric["null"]["p_value"] * 100) == pytest.approx(
                metric["null"]["p_value"] * 100
            )
    assert any("rounded at random to multiples of 5" in one for one in rounded["limits"])
    assert not any("rounded at random" in one for one in exact["limits"])
    assert rounded["integrity"]["ledger_hash"] == exact["integrity"]["ledger_hash"]


def test_copies_of_a_file_round_the_same_people_alike(tmp_path: Path) -> None:
    """The attack: twelve copies of a table with a newline more each, and the mean of their
    counts; then copies with other rows' order and other features."""
    lines = [f"c{row % 40},{row * 7 % 60 + 20},{row % 5},{row * 3 % 2}" for row in range(600)]
    text = "\n".join(["town,age,x,y", *lines])
    moved = "\n".join(["town,age,x,y", *(one.replace(",0,", ",0.001,") for one in lines[::-1])])
    counts = np.arange(24).reshape(6, 2, 2)[:, :, [0, 0, 1, 1]]
    found = []
    for place, copy in enumerate([text + "\n" * more for more in range(12)] + [moved]):
        (tmp_path / f"{place}.csv").write_text(copy)
        spec = parse_spec(
            {
                "name": "ages",
                "federation": {
                    "source": "table",
                    "path": f"{place}.csv",
                    "client_key": "town",
                    "target": "y",
                    "features": ["x"],
                },
                "model": {"kind": "logistic"},
                "training": {"loss": "cross-entropy", "rounds": 1, "cohort": {"clients": 4}},
                "privacy": {"mechanism": "none"},
                "fairness": {"sensitive": ["age"], "edges": {"age": [50]}},
            }
        )
        cell = Cell(spec, load_federation(spec, sources_dir=tmp_path))
        rounder = build_rounder(cell, base=5, key=b"secret")
        found.append(rounder.counts("age", counts).tolist())
    assert all(one == found[0] for one in found)


def test_another_way_to_name_the_same_people_rounds_them_alike() -> None:
    """The attack: fractions that hold the same clients out, and the mean of what they publish."""

    def rounder(fraction: float) -> Rounder:
        spec = parse_spec(groups_spec(federation__validation_fraction=fraction))
        cell = Cell(spec, load_federation(spec, sources_dir=None))
        found = build_rounder(cell, base=5, key=b"secret")
        return replace(found, population=b"")  # generated data have another fingerprint each

    counts = np.array([[7, 11, 23, 4], [1, 2, 3, 4]])
    groups = {str(rounder(0.5 + place * 1e-4).groups) for place in range(4)}
    assert len(groups) == 1
    first = rounder(0.5).counts("group", counts)
    assert (rounder(0.5001).counts("group", counts) == first).all()
    assert str(rounder(0.3).groups) not in groups
