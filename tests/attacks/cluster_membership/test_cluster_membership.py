"""Hypothesis membership: how often the server names the hypothesis that a client chose."""

import csv
import io
from typing import Any

import numpy as np
import pytest

from fedaudit.attacks.attack import AttackedRun, AttackOutcome
from fedaudit.attacks.cluster_membership import attack_cluster_membership
from fedaudit.attacks.feasibility import faults
from fedaudit.reports.sections.attacks import ClusterMembershipSection
from fedaudit.spec.attacks import ClusterMembershipSpec
from tests.attacks.attacked_runs import attacked_run
from tests.training.gaussian import ALONE
from tests.training.specs import cell, linear_spec

FIXED = {"mechanism": "laplace-l2", "noise_multiplier": 1.0, "radius": 1.0}
WELL_APART = {
    "federation": {"source": "synthetic-linear", "clients": 400, "rows_per_client": 10},
    "training__rounds": 100,
    "training__clustering": {"method": "k-means", "empty_cluster": "keep"},
}


@pytest.fixture(scope="module")
def fixed() -> AttackedRun:
    return attacked_run(cell(linear_spec(**WELL_APART, privacy=FIXED)))


def attack(run: AttackedRun, **spec: Any) -> tuple[ClusterMembershipSection, AttackOutcome]:
    shares: list[float] = []
    found = attack_cluster_membership(ClusterMembershipSpec(**spec), run, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert isinstance(found.section, ClusterMembershipSection)
    return found.section, found


def test_noise_hides_the_choice_and_little_noise_does_not(fixed: AttackedRun) -> None:
    section, _ = attack(fixed, noise_multipliers=[1e-3, 10.0, 1e4])
    little, some, much = (result.nearest for result in section.results)
    assert little.value == 1.0
    assert some.value is not None
    assert 0.7 < some.value < 0.95
    assert section.chance is not None
    # Two hypotheses and noise that drowns both: half of the guesses are right, whatever is common.
    assert much.interval.low <= 0.5 <= much.interval.high
    assert 0.5 <= section.chance < 0.65


def test_figures_follow_from_the_uploads(fixed: AttackedRun) -> None:
    section, outcome = attack(fixed, noise_multipliers=[10.0])
    lines = list(csv.DictReader(io.StringIO(outcome.files["uploads.csv"].decode())))
    assert len({line["client"] for line in lines}) == section.clients == 200
    [result] = section.results
    right = [line["nearest"] == line["chosen"] for line in lines]
    assert result.nearest.value == pytest.approx(np.mean(right))
    assigned = [line["assigned"] == line["chosen"] for line in lines]
    assert result.assigned.value == pytest.approx(np.mean(assigned))
    choices = [line["chosen"] for line in lines]
    assert section.chance == max(choices.count("0"), choices.count("1")) / 200


def test_the_exponent_is_the_one_of_the_report(fixed: AttackedRun) -> None:
    # n / (nu r) times the distance of the two hypotheses; each nu has its own.
    section, _ = attack(fixed, noise_multipliers=[2.0, 5.0])
    for result in section.results:
        expected = 2 / (result.noise_multiplier * 1.0) * section.smallest_distance
        assert result.exponent_max == pytest.approx(expected)
        assert result.exponent_median == pytest.approx(expected)


def test_an_adaptive_radius_hides_nothing_once_updates_are_small() -> None:
    section, _ = attack(attacked_run(cell(linear_spec(**WELL_APART))))
    assert [result.noise_multiplier for result in section.results] == pytest.approx(
        [0.1, 1 / 3, 1, 3, 10]
    )
    assert [result.nearest.value for result in section.results] == [1.0] * 5
    assert all(result.exponent_median is not None for result in section.results)


def test_few_choices_are_suppressed() -> None:
    spec = linear_spec(**WELL_APART, privacy=FIXED)
    spec["federation"]["clients"] = 60
    spec["fairness"] = {"minimum_group_size": 40}
    section, _ = attack(attacked_run(cell(spec)))
    assert section.chance is None
    assert "few clients" in section.reasons["chance"]
    assert "suppressed" in section.statement


def test_the_noise_is_not_that_of_the_run(fixed: AttackedRun) -> None:
    once, again = (attack(fixed, noise_multipliers=[10.0])[1] for _ in range(2))
    assert once == again
    other = attacked_run(cell(linear_spec(**WELL_APART, seed=1, privacy=FIXED)))
    assert attack(other, noise_multipliers=[10.0])[1].files != once.files


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"training__hypotheses": 1}, "ask for more `training.hypotheses`"),
        ({"training__clustering": {"method": "reported"}}, "use the clustering `k-means`"),
        (ALONE, "`laplace-l2`"),
        ({"privacy": {"mechanism": "none"}}, "`laplace-l2`"),
    ],
)
def test_nothing_to_guess(changes: dict[str, Any], remedy: str) -> None:
    spec = cell(linear_spec(**changes)).spec
    found = list(ClusterMembershipSpec().disagreements(spec, pointer="/attacks/2"))
    assert all((one.context or {})["pointer"] == "/attacks/2/kind" for one in found)
    assert any(remedy in one.message() for one in found)


def test_a_federation_with_few_clients_is_refused() -> None:
    few = cell(linear_spec(federation__clients=40, training__cohort={"clients": 20}))
    [fault] = faults(ClusterMembershipSpec(), few, at="/attacks/0")
    assert "too few clients train" in fault.message
    assert fault.pointer == "/attacks/0/kind"
