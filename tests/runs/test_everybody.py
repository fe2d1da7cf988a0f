"""Figures of everybody who is scored are withheld where these are too few, as those of a group."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaudit.runs.held_out_groups import held_out_groups
from fedaudit.runs.sampled_rounds import SampledRounds
from tests.training.specs import cell, groups_spec, linear_spec, ran, table_spec

FIGURES = ("selection_loss", "validation_loss", "accuracy")
NOT_OF_PEOPLE = {"rounds", "best_round", "stopped_by", "collapsed_rounds", "reasons", "too_good"}
GATE = {"figure": "validation_loss", "op": "le", "value": 1e9, "allow_simulation": True}
FEW = (
    "too few people are scored for a figure of all of them: fewer than 30 scored rows or {} clients"
)


@pytest.mark.parametrize(
    ("fraction", "clients", "reason"),
    [
        (0.01, 2, FEW.format(2)),  # one client of 10 rows
        (0.02, 2, FEW.format(2)),
        (0.03, 4, FEW.format(4)),
        (0.03, 2, None),
    ],
)
def test_too_few_held_out_people_have_no_figure(
    fraction: float, clients: int, reason: str | None
) -> None:
    found = ran(
        groups_spec(
            federation__validation_fraction=fraction,
            training__rounds=3,
            fairness__minimum_group_clients=clients,
            gates=[GATE],
            repeats=2,
        )
    )
    report, rounds = found.report, found.ledger.rounds
    utility, [gate] = report["utility"], report["gates"]
    if reason is None:
        assert utility["validation_loss"] is not None
        assert rounds[0].validation_loss is not None
        assert gate["value"] is not None
        return
    assert {name for name, one in utility.items() if one is not None} == NOT_OF_PEOPLE
    for name in ("validation_loss", "selection_loss", "start_loss", "baseline_loss", "degenerate"):
        assert utility["reasons"][name] == reason
    assert (gate["value"], gate["outcome"]) == (None, "insufficient_evidence")
    assert reason in gate["reason"]
    assert all(group["suppressed"] for group in report["fairness"][0]["groups"])
    assert utility["best_round"] == len(rounds)
    assert "no loss of held-out people chose one" in utility["reasons"]["best_round"]
    assert any("no loss chose the round or ended training" in one for one in report["limits"])
    assert report["answer"]["reasons"][0]["text"] == reason
    assert report["advice"]["text"].endswith(
        "hold out more clients (`federation.validation_fraction`)."
    )
    for one in rounds:
        assert [getattr(one, name) for name in FIGURES] == [None] * 3
        assert {one.reasons[name] for name in FIGURES} == {reason}


@pytest.mark.parametrize(("least", "ended"), [(1, "patience"), (30, "rounds")])
def test_losses_of_too_few_neither_choose_a_round_nor_end_training(least: int, ended: str) -> None:
    asked = groups_spec(
        federation__validation_fraction=0.01,  # one client of 10 rows
        training__rounds=10,
        training__stopping={"patience": 1},
        privacy={"mechanism": "laplace-l2", "noise_multiplier": 50.0},
        fairness__minimum_group_size=least,
        fairness__minimum_group_clients=1,
    )
    utility = ran(asked).report["utility"]
    assert utility["stopped_by"] == ended
    assert (utility["best_round"] == utility["rounds"]) == (ended == "rounds")


def test_few_whose_outcome_a_rule_judges_have_no_figure(tmp_path: Path) -> None:
    """Base rate, AUC and precision are of these rows alone, here those of one client. The others
    have no value of the attribute by which there are rules."""
    rows = [
        f"t{town:02},{row / 10},{'mw'[row % 2] if town < 2 else ''},{'yes' if row % 3 else 'no'}"
        for town in range(30)
        for row in range(10)
    ]
    (tmp_path / "towns.csv").write_text("\n".join(["town,x,sex,passed", *rows, ""]))
    rules = [{"group": {"sex": sex}, "op": "in", "value": ["yes"]} for sex in "mw"]
    fairness = {"sensitive": ["sex"], "favourable": rules}
    found = ran(table_spec("towns.csv", ["x"], training__rounds=2, fairness=fairness), tmp_path)
    assert len(np.unique(held_out_groups(found.run.cell).clients)) == 1
    assert found.report["utility"]["outcome_share"] is None
    assert found.report["utility"]["validation_loss"] is None
    assert found.ledger.rounds[0].validation_loss is None


def sampled_losses(size: int, **changes: Any) -> list[float | None]:
    """The losses that the rounds of a run show which scores samples of 50 held-out clients."""
    stopping = {"patience": None, "validation_clients": size}
    found = ran(linear_spec(training__rounds=8, training__stopping=stopping, **changes))
    assert found.report["utility"]["validation_loss"] is not None, "that of all 50"
    chosen = f"Losses of {size} clients drawn for each round, withheld or not"
    by_losses = any(one.startswith(chosen) for one in found.report["limits"])
    assert by_losses == (size > 2), "or one person's loss chooses the model"
    assert by_losses == ("best_round" not in found.report["utility"]["reasons"])
    losses = [one.validation_loss for one in found.ledger.rounds]
    reasons = [one.reasons.get("validation_loss") for one in found.ledger.rounds]
    assert [one is None for one in losses] == [one is not None for one in reasons]
    return losses


@pytest.mark.parametrize("size", [1, 2, 49])
def test_a_round_that_scores_or_leaves_out_few_shows_no_figure_of_all(size: int) -> None:
    assert sampled_losses(size) == [None] * 8


def test_few_rounds_of_samples_show_figures_spread_over_the_run() -> None:
    """From as many sums over samples as there are clients, each client's own would follow."""
    losses = sampled_losses(25)
    assert [loss is not None for loss in losses] == [False, True] * 4


def test_no_two_rounds_show_figures_of_samples_that_differ_by_few() -> None:
    near = shown = 0
    for seed in range(20):
        one = cell(
            linear_spec(seed=seed, training__rounds=5, fairness={"minimum_group_clients": 18})
        )
        sampled, rounds = SampledRounds(one, {}, size=20), range(1, 6)
        withheld, drawn = sampled.everybody_withheld(rounds), sampled.drawn(rounds)[0]
        for later in rounds:
            earlier = [drawn[number - 1] for number in range(1, later)]
            differ = [len(np.setxor1d(drawn[later - 1], before)) for before in earlier]
            assert (later in withheld) == (min(differ, default=18) < 18)
        near, shown = near + len(withheld), shown + 5 - len(withheld)
    assert near > 0
    assert shown > near
