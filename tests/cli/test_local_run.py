"""What `fedaudit run` says: of its rounds, its hypotheses, and its figures computed twice."""

import numpy as np
import pytest

from fedaudit.cli.output import CommandError
from fedaudit.cli.run import run_locally
from fedaudit.ledger.rows import Outcome
from fedaudit.reports.page.html import render
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.scored_rows import GroupCounter
from tests.spec.documents import gaussian
from tests.training.specs import groups_spec


def run(spec, sources_dir=None):
    """The spec's run."""
    options = {"sources_dir": sources_dir, "device": "cpu", "progress": lambda _: None}
    return run_locally(parse_spec(spec), **options)


def test_the_best_round_has_the_loss_of_the_report(small_spec):
    done = run({**small_spec, "fairness": {}, "gates": []})
    utility = done.report["utility"]
    place = done.series.rounds.index(utility["best_round"])
    assert done.series.figures["selection_loss"][place] == utility["selection_loss"]
    assert done.series.gaps == {}
    assert "Loss, by round" in render(done.report, done.series)


@pytest.mark.parametrize("where", ["central", "local"])
def test_epsilon_is_counted_by_round(small_spec, where):
    training = {**small_spec["training"], "hypotheses": 1}
    done = run({**small_spec, "privacy": gaussian(where, 4), "training": training, "gates": []})
    spent = done.series.figures["epsilon_max"]
    assert spent[-1] == pytest.approx(done.report["privacy"]["epsilon_max"])
    assert list(spent) == sorted(spent)
    assert set(done.series.figures["leakage_max"]) == {None}


def test_a_wrong_count_ends_the_run(small_spec, monkeypatch):
    """One row of the final evaluation is counted as another kind."""
    counted = GroupCounter.count_rows

    def count(self, *arguments, slots, **options):
        counts = counted(self, *arguments, slots=slots, **options)
        for of_groups in counts.values() if slots > 1 else ():  # those of each client
            client = np.flatnonzero(of_groups[:, 0, 2])[0]
            of_groups[client, 0] += [0, 1, -1, 0]
        return counts

    monkeypatch.setattr(GroupCounter, "count_rows", count)
    with pytest.raises(CommandError, match=r"failed: selection_rate by group = g1 is .* computes"):
        run(small_spec)


def test_exponents_are_those_of_the_best_rounds_radii():
    done = run(groups_spec(privacy={"mechanism": "laplace-l2", "noise_multiplier": 5}))
    best = done.report["utility"]["best_round"]
    (entry,) = [one for one in done.ledger.entries if one.keys[0].round == best]
    exact = 3 / (5 * entry.radii[entry.outcomes == Outcome.RELEASED])  # n / nu, over each radius
    (pair,) = done.report["privacy"]["between_hypotheses"]["pairs"]
    assert exact.max() <= pair["epsilon_max"] <= 1.1 * exact.max()
    assert np.median(exact) <= pair["epsilon_median"] <= 1.1 * np.median(exact)


def test_groups_without_a_rule_are_refused():
    spec = groups_spec(privacy={"mechanism": "none"})
    rules = [{"group": {"group": "g1"}, "op": "ge", "value": 0}]
    with pytest.raises(InvalidInputError, match="no rule is for group 'g2'"):
        run({**spec, "fairness": {"sensitive": ["group"], "favourable": rules}})


def test_layers_have_exponents_of_their_own(small_spec):
    spec = {
        **small_spec,
        "model": {"kind": "mlp", "hidden": [2]},
        "privacy": {**small_spec["privacy"], "per_layer": True},
    }
    (pair,) = run(spec).report["privacy"]["between_hypotheses"]["pairs"]
    assert pair["epsilon_max"] is None
    assert "each layer" in pair["reasons"]["epsilon_max"]
    assert 0 < pair["indistinguishability_median"] <= pair["indistinguishability"]


def test_a_target_less_its_declared_mean_has_the_figures_of_numbers_around_0(tmp_path):
    random, found = np.random.default_rng(2), []
    rows = [(f"t{row % 9}", "fm"[row // 9 % 2], *random.normal(size=2)) for row in range(180)]
    for mean in (0, 32):
        lines = [f"{town},{sex},{x},{round(8 * (x + e)) / 8 + mean}" for town, sex, x, e in rows]
        (tmp_path / "rows.csv").write_text("\n".join(["town,sex,x,y", *lines]))
        rules = [
            {"group": {"sex": "f"}, "op": "ge", "value": mean + 0.5},
            {"group": {"sex": "m"}, "op": "le", "value": mean},
        ]
        source = {"source": "table", "path": "rows.csv", "client_key": "town", "target": "y"}
        scale = {"y": {"mean": mean, "deviation": 4} if mean else 4}
        document = {
            "name": "shifted",
            "seed": 1,
            "federation": {**source, "features": ["x"], "scale": scale},
            "model": {"kind": "linear"},
            "training": {"loss": "mse", "hypotheses": 1, "rounds": 9, "cohort": {"clients": 3}},
            "privacy": {"mechanism": "none"},
            "fairness": {"sensitive": ["sex"], "favourable": rules, "minimum_group_size": 1},
        }
        ran = run(document, tmp_path)
        [section] = ran.report["fairness"]
        found.append((section["groups"], section["metrics"], ran.report["utility"]))
    assert found[0] == found[1]
    assert 0 < found[0][0][1]["selection_rate"] < 1
