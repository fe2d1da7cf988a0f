"""Counts that are published with noise or rounded, in rounds and in the report."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.cli.run import LocalRun
from fedaudit.fairness.noised_counts import Rounder
from fedaudit.federations.load import load_federation
from fedaudit.privacy.count_release import count_release
from fedaudit.randomness import CounterSource
from fedaudit.reports.page.html import render
from fedaudit.runs.blocks import noised_counts
from fedaudit.runs.held_out_groups import build_rounder
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from tests.training.specs import groups_spec, ran, table_spec, train

NOISE = {
    **{"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-5},
    **{"unit": "client", "max_rows_per_client": 6},
}


def noised(**changes: Any) -> dict[str, Any]:
    base = {"training__rounds": 8, "training__stopping": {}, "fairness__noise": NOISE}
    return groups_spec(**{**base, **changes})


@pytest.fixture(scope="module")
def done() -> LocalRun:
    return ran(noised())


def test_the_last_round_is_kept_whatever_its_loss(done: LocalRun) -> None:
    utility = done.report["utility"]
    assert (utility["best_round"], utility["rounds"]) == (8, 8)
    _, result = train(noised(training__stopping={"validate_every": 3}))
    assert result.best_round == 8


def test_a_model_that_diverges_ends_no_run() -> None:
    """Whether a loss is finite would say something of the rows that it was computed from."""
    diverging = {
        "training__loss": "mse",
        "training__local": {"step_size": 1e6, "epochs": 3},
        "privacy": {"mechanism": "none"},
        "training__rounds": 30,
        "training__stopping": {},
    }
    _, ended = train(groups_spec(**diverging))
    assert ended.stopped_by == "diverged"
    report = ran(noised(**diverging)).report
    assert (report["utility"]["stopped_by"], report["utility"]["rounds"]) == ("rounds", 30)
    json.dumps(report, allow_nan=False)


def test_the_ledger_ends_with_the_charge(done: LocalRun) -> None:
    *_, last = done.ledger.lines()
    assert (last["round"], last["observer"]) == (9, "report")
    assert last["subject"] == "every validation client"
    assert last["epsilon"] == pytest.approx(2.0)
    assert (last["delta"], last["adjacency"]) == (1e-5, "add-or-remove-one")
    assert done.report["integrity"]["entries"] == 9


def test_page_and_series_have_nothing_without_noise(done: LocalRun) -> None:
    page = render(done.report, done.series)
    assert "Rows, with noise" in page
    assert done.report["fairness_privacy"]["statement"][:30] in page
    for one in done.ledger.rounds:
        assert one.validation_loss is one.selection_loss is one.accuracy is None
    for figures in done.ledger.fairness:
        assert all(figure["value"] is None for figure in figures.figures)


def test_what_is_noised_moves_by_no_more_than_the_sensitivity_and_each_time_anew() -> None:
    """The attack on the sensitivity: whole clients are dropped from the counts before noise."""
    spec = parse_spec(noised())
    release = count_release(spec)
    assert release is not None
    _, result = train(noised())
    moved = []
    for client in range(5):
        smaller = {name: counts.copy() for name, counts in result.fairness.items()}
        for counts in smaller.values():
            counts[client] = 0
        one, other = (
            noised_counts(release, fairness, CounterSource(5), round_=0)
            for fairness in (result.fairness, smaller)
        )
        totals = [int(one.counts[name].sum() - other.counts[name].sum()) for name in one.counts]
        moved.append(sum(map(abs, totals)))
    # The draws of other clients' rows move with the one that is left out; their numbers do not.
    assert 0 < max(moved) <= release.l1
    no_rows = {"group": np.zeros((3, 2, 4), dtype=np.int64)}
    drawn = {
        tuple(noised_counts(release, no_rows, CounterSource(5), round_=one).counts["group"].flat)
        for one in range(4)
    }
    assert len(drawn) == 4, "every release has separate noise"


def test_noise_of_two_runs_differs_where_it_is_secret() -> None:
    found = []
    for _ in range(2):
        report = ran(noised(privacy__noise="release")).report
        found.append([group["rows"] for group in report["fairness"][0]["groups"]])
        assert report["fairness_privacy"]["in_force"] is True
    assert not np.array_equal(*found)


def test_a_run_without_rounds_is_charged_for_its_report() -> None:
    spec = noised(
        training__method={"kind": "local-only"},
        training__hypotheses=1,
        training__clustering={"method": "reported"},
        federation__scoring={"method": "split"},
        privacy={"mechanism": "none"},
    )
    done = ran(spec)
    assert [line["observer"] for line in done.ledger.lines()] == ["report"]
    assert done.report["fairness_privacy"]["releases"] == 1


def published(**changes: Any) -> dict[str, Any]:
    return ran(groups_spec(training__rounds=6, training__stopping={}, **changes)).report


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


def test_exact_rates_give_back_counts_and_rounded_ones_do_not(exact, rounded):
    [truth], [shown] = exact["fairness"], rounded["fairness"]
    before, after = truth["groups"], shown["groups"]
    assert sizes_behind(exact) != sizes_behind(rounded)
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
    for name, metric in shown["metrics"].items():
        if metric["interval"] is not None:
            before = truth["metrics"][name]["interval"]
            assert metric["interval"]["low"] <= before["low"]
            assert metric["interval"]["high"] >= min(1.0, before["high"]) - 1e-9
            assert metric["interval"]["low"] <= metric["value"] <= metric["interval"]["high"]
    assert any("rounded at random to multiples of 5" in one for one in rounded["limits"])
    assert not any("rounded at random" in one for one in exact["limits"])
    assert rounded["integrity"]["ledger_hash"] == exact["integrity"]["ledger_hash"]


def test_copies_of_a_file_round_the_same_people_alike(tmp_path: Path) -> None:
    """The attack: twelve copies of a table with a newline more each, and the mean of their
    counts; then copies with other rows' order and other features."""
    head = "town,age,x,passed"
    yes = ["no", "yes"]
    lines = [f"c{row % 40},{row * 7 % 60 + 20},{row % 5},{yes[row % 2]}" for row in range(600)]
    text = "\n".join([head, *lines])
    moved = "\n".join([head, *(one.replace(",0,", ",0.001,") for one in lines[::-1])])
    counts = np.arange(24).reshape(6, 2, 2)[:, :, [0, 0, 1, 1]]
    found = []
    for place, copy in enumerate([text + "\n" * more for more in range(12)] + [moved]):
        (tmp_path / f"{place}.csv").write_text(copy)
        document = table_spec(
            f"{place}.csv", ["x"], fairness={"sensitive": ["age"], "edges": {"age": [50]}}
        )
        spec = parse_spec(document)
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


@pytest.mark.parametrize(("kind", "rows"), [("simulation", 500), ("release", 50)])
def test_simulated_noise_is_on_all_rows_and_on_none_that_were_drawn(kind: str, rows: int) -> None:
    """By eight noised counts of deviation 2.5 at most: off by 100 in no run of 10^40."""
    one = {**NOISE, "max_rows_per_client": 1}
    found = ran(noised(fairness__noise=one, privacy__noise=kind)).report["fairness"][0]["groups"]
    assert sum(group["rows"] for group in found) == pytest.approx(rows, abs=100)
