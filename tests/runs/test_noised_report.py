"""Counts with noise in a run without a service: what is published, and that nothing is chosen."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.cli.run import LocalRun, run_locally
from fedaudit.fairness.published_counts import NoisedCounts
from fedaudit.privacy.count_release import count_release
from fedaudit.randomness import CounterSource
from fedaudit.reports.page.html import render
from fedaudit.runs import publishing
from fedaudit.runs.publishing import noised_counts
from fedaudit.spec.parse import parse_spec
from tests.training.specs import groups_spec, train

NOISE = {
    "mechanism": "gaussian",
    "epsilon": 2.0,
    "delta": 1e-5,
    "unit": "client",
    "max_rows_per_client": 6,
}


def noised(**changes: Any) -> dict[str, Any]:
    base = {"training__rounds": 8, "training__stopping": {}, "fairness__noise": NOISE}
    return groups_spec(**{**base, **changes})


def run(spec: dict[str, Any]) -> LocalRun:
    return run_locally(parse_spec(spec), sources_dir=None, device="cpu", progress=lambda _: None)


@pytest.fixture(scope="module")
def done() -> LocalRun:
    return run(noised())


def test_the_last_round_is_kept_whatever_its_loss(done: LocalRun) -> None:
    utility = done.report["utility"]
    assert (utility["best_round"], utility["rounds"]) == (8, 8)
    stopping = {"validate_every": 3}
    _, result = train(noised(training__stopping=stopping))
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
    report = run(noised(**diverging)).report
    assert report["utility"]["stopped_by"] == "rounds"
    assert report["utility"]["rounds"] == 30
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


def test_leaving_a_client_out_moves_what_is_noised_by_no_more_than_the_sensitivity() -> None:
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
        pair: list[NoisedCounts] = []
        for fairness in (result.fairness, smaller):
            found = type(result)(**{**vars(result), "fairness": fairness})
            pair.append(noised_counts(release, found.fairness, CounterSource(5), round_=0))
        one, other = pair
        totals = [int(one.counts[name].sum() - other.counts[name].sum()) for name in one.counts]
        moved.append(sum(map(abs, totals)))
    # The draws of other clients' rows move with the one that is left out; their numbers do not.
    assert 0 < max(moved) <= release.l1


def test_noise_of_two_runs_differs_where_it_is_secret() -> None:
    found = []
    for _ in range(2):
        report = run(noised(privacy__noise="release")).report
        found.append([group["rows"] for group in report["fairness"][0]["groups"]])
        assert report["fairness_privacy"]["in_force"] is True
    assert not np.array_equal(*found)


ROUNDS = {**NOISE, "rounds": True}


@pytest.fixture(scope="module")
def with_rounds() -> LocalRun:
    return run(noised(fairness__noise=ROUNDS, training__stopping={"validate_every": 3}))


def test_validated_rounds_are_charged_one_by_one_before_the_report(with_rounds: LocalRun) -> None:
    charged = [line for line in with_rounds.ledger.lines() if line["observer"] == "report"]
    assert [line["round"] for line in charged] == [3, 6, 8, 9]
    release = count_release(parse_spec(noised(fairness__noise=ROUNDS)))
    assert release is not None
    epsilons = [release.epsilon(count) for count in range(1, 5)]
    assert [line["epsilon"] for line in charged] == pytest.approx(epsilons)
    stated = with_rounds.report["fairness_privacy"]
    assert (stated["releases"], stated["epsilon"]) == (4, pytest.approx(epsilons[-1]))
    assert "validated rounds (3)" in stated["statement"]


def test_rounds_show_gaps_with_noise_and_nothing_else(
    done: LocalRun, with_rounds: LocalRun
) -> None:
    shown = {one.round: one for one in with_rounds.ledger.rounds if one.validation_loss is None}
    assert len(shown) == 8  # no loss of any round
    for figures in with_rounds.ledger.fairness:
        assert figures.round in (3, 6, 8)
        assert shown[figures.round].demographic_parity_difference is not None
    exact = {one.round: one.counts for one in done.ledger.fairness}
    for figures in with_rounds.ledger.fairness:
        assert np.array_equal(figures.counts, exact[figures.round])  # training is the same
    assert done.report["integrity"]["ledger_hash"] != with_rounds.report["integrity"]["ledger_hash"]


def test_every_release_has_noise_of_its_own() -> None:
    release = count_release(parse_spec(noised(fairness__noise=ROUNDS)))
    assert release is not None
    nobody = {"group": np.zeros((3, 2, 4), dtype=np.int64)}
    drawn = [
        tuple(noised_counts(release, nobody, CounterSource(5), round_=one).counts["group"].flat)
        for one in range(4)
    ]
    assert len(set(drawn)) == len(drawn)


def test_a_client_with_many_rows_counts_with_as_many_as_the_noise_covers_in_rounds_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the bound, one client of 200 rows would move a round's counts by all of them."""
    monkeypatch.setattr(publishing, "drawn_integers", _no_noise)
    bounded = {**ROUNDS, "max_rows_per_client": 2}
    spec = parse_spec(noised(fairness__noise=bounded))
    records, _ = train(noised(fairness__noise=bounded))
    release = count_release(spec)
    assert release is not None
    for record in records:
        clients = len(record.by_client["group"])
        found = noised_counts(release, record.by_client, CounterSource(1), round_=record.round)
        assert found.counts["group"].sum() == 2 * clients
        assert record.fairness["group"].sum() > 2 * clients
        assert np.array_equal(record.by_client["group"].sum(0), record.fairness["group"])


def _no_noise(_: object, *, shape: tuple[int, ...], **__: object) -> NDArray[np.int64]:
    return np.zeros(shape, dtype=np.int64)


def test_a_run_without_rounds_is_charged_for_its_report() -> None:
    spec = noised(
        training__method={"kind": "local-only"},
        training__hypotheses=1,
        training__clustering={"method": "reported"},
        federation__scoring={"method": "split"},
        privacy={"mechanism": "none"},
    )
    done = run(spec)
    assert [line["observer"] for line in done.ledger.lines()] == ["report"]
    assert done.report["fairness_privacy"]["releases"] == 1
