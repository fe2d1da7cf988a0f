"""Membership inference through its front door: a run, its spec, and what the section says."""

import csv
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.attacks.attack import AttackedRun, AttackOutcome
from fedaudit.attacks.membership.member_rates import shown_groups_of
from fedaudit.attacks.membership.membership_attack import attack_membership
from fedaudit.attacks.membership.shadow_design import AttackedRows, choose_rows
from fedaudit.randomness import CounterSource
from fedaudit.reports.sections.attacks import MembershipSection
from fedaudit.spec.attacks import MembershipSpec
from tests.attacks.attacked_runs import attacked_run, overfitted
from tests.training.specs import cell, groups_spec

NOISED = {"mechanism": "gaussian-central", "noise_multiplier": 300.0, "clip": 1.0, "delta": 1e-5}


def attack(
    attacked: AttackedRun, **spec: Any
) -> tuple[MembershipSection, AttackOutcome, list[float]]:
    shares: list[float] = []
    outcome = attack_membership(MembershipSpec(**spec), attacked, progress=shares.append)
    assert isinstance(outcome.section, MembershipSection)
    return outcome.section, outcome, shares


@pytest.fixture(scope="module")
def memorised() -> AttackedRun:
    return overfitted()


def table(outcome: AttackOutcome, name: str) -> dict[str, NDArray[np.float64]]:
    lines = list(csv.DictReader(io.StringIO(outcome.files[name].decode())))
    columns = [column for column in lines[0] if column != "client"]
    return {column: np.array([float(line[column]) for line in lines]) for column in columns}


def test_a_model_that_memorised_gives_its_rows_away(memorised: AttackedRun) -> None:
    section, outcome, shares = attack(memorised, method="likelihood-ratio", shadows=64)
    per_mille, one_percent = section.tpr_at_fpr
    assert one_percent.fpr == 0.01
    assert one_percent.tpr is not None
    assert one_percent.tpr > 0.10  # ten times chance
    assert one_percent.interval.low > 0.10
    assert section.membership_tpr_at_1pct == one_percent.tpr
    assert section.auc > 0.8
    # Too few non-members show no rate of a thousandth.
    assert (per_mille.fpr, per_mille.tpr, per_mille.interval) == (0.001, None, None)
    assert per_mille.reason == (
        "1000 non-members were attacked, and a false positive rate of 0.1% needs 10000 or more"
    )
    assert shares == sorted(shares)
    assert len(shares) > 60
    assert shares[-1] == 1.0
    # Rates are those of the scores, by sorting alone.
    found = table(outcome, "scores.csv")
    member, scores = found["member"] == 1, found["score"]
    assert (section.members, section.non_members) == (int(member.sum()), int((~member).sum()))
    others = np.sort(scores[~member])[::-1]
    plain = (scores[member] > others[int(np.floor(0.01 * len(others) + 1e-9))]).mean()
    assert one_percent.tpr == pytest.approx(plain)
    assert one_percent.interval.low <= plain <= one_percent.interval.high
    pairs = scores[member][:, None] > scores[~member][None]
    assert section.auc == pytest.approx(pairs.mean(), abs=1e-6)
    clients = table(outcome, "clients.csv")
    assert len(clients["rows"]) == 30
    assert set(clients["members"]) == {0.0, 50.0}
    hits = clients["taken_for_members_at_0.01"][clients["members"] > 0].sum()
    assert one_percent.tpr == pytest.approx(hits / section.members)
    # Without a mechanism there is no claim.
    assert section.claim is None
    assert section.reasons["claim"].startswith("there is no mechanism")
    assert section.alarm is None


def test_the_same_run_gives_the_same_scores_and_metric_privacy_no_claim() -> None:
    run = attacked_run(cell(groups_spec()))
    section, first, _ = attack(run, method="likelihood-ratio", shadows=64)
    assert first == attack(run, method="likelihood-ratio", shadows=64)[1]
    assert section.claim is None
    assert "does not translate into rates" in section.reasons["claim"]


def test_noise_hides_them_and_nothing_contradicts_the_claim() -> None:
    section, _, _ = attack(overfitted(privacy=NOISED), method="likelihood-ratio", shadows=64)
    rate = section.tpr_at_fpr[1]
    assert rate.interval.low <= 0.01 <= rate.interval.high
    assert section.alarm is None
    assert (section.claim.unit, section.claim.adjacency) == ("client", "replace-one")
    assert section.claim.steps == 1
    assert 0.01 < section.claim.rates[1].tpr_max < 0.02


def test_members_of_few_clients_raise_no_alarm(memorised: AttackedRun) -> None:
    # The run's ledger claims what the noise would give, and its model was trained without any: many
    # members are found, but one row of each of 30 clients is too few to tell by.
    section, _, _ = attack(replace(overfitted(privacy=NOISED), result=memorised.result))
    assert section.tpr_at_fpr[1].tpr > section.claim.rates[1].tpr_max
    assert section.alarm is None


@pytest.mark.parametrize(("minimum", "shown"), [(30, True), (150, False)])
def test_groups_are_suppressed_as_the_report_suppresses_them(minimum: int, shown: bool) -> None:
    # About 100 held-out rows are of g2; where it is suppressed, g1 would give it away.
    run = attacked_run(cell(groups_spec(fairness__minimum_group_size=minimum)))
    assert run.run.disclosures["group"].shown.tolist() == [shown, shown]
    section, _, _ = attack(run)
    [attribute] = section.groups
    assert [group.suppressed for group in attribute.groups] == [not shown, not shown]
    for group in attribute.groups:
        assert (group.auc is None) is (not shown)
        assert (group.reason is None) is shown


def test_a_group_that_only_the_members_are_few_of_is_suppressed_too() -> None:
    run = attacked_run(cell(groups_spec()))
    codes = run.run.federation.attribute("group").codes
    rows = choose_rows(run.run.cell, CounterSource(0), models=1)
    few = rows.member & (codes[rows.place] == 1)
    kept = ~few | (np.cumsum(few) <= 5)
    fewer = AttackedRows(rows.place[kept], rows.client[kept], rows.member[kept])
    assert shown_groups_of(run.run, rows)["group"].tolist() == [True, True]
    assert shown_groups_of(run.run, fewer)["group"].tolist() == [False, False]
