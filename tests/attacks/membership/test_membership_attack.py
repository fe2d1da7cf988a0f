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
from fedaudit.attacks.membership.shadow_design import (
    AttackedRows,
    choose_rows,
    draw_shadows,
    faults,
    trained_rows,
)
from fedaudit.randomness import CounterSource
from fedaudit.reports.sections.attacks import MembershipSection
from fedaudit.spec.attacks import MembershipSpec
from fedaudit.training.base.records import record_use_of, training_records
from tests.attacks.attacked_runs import attacked_run, overfitted
from tests.spec.documents import refusals
from tests.training.personalised import records_spec
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


# -- what is refused, and rows and halves before anything is trained ------------------------------


RATIO = {"method": "likelihood-ratio", "shadows": 64}


ALONE = {
    "training__method": {"kind": "local-only"},
    "training__hypotheses": 1,
    "federation__scoring": {"method": "split"},
    "privacy": {"mechanism": "none"},
}


@pytest.mark.parametrize(
    ("spec", "changes", "field", "remedy"),
    [
        ({"shadows": 64}, {}, "shadows", "leave `shadows` out"),
        ({"method": "likelihood-ratio"}, {}, "shadows", "ask for at least 64"),
        ({"method": "likelihood-ratio", "shadows": 63}, {}, "shadows", "ask for at least 64"),
        ({}, ALONE, "kind", "choose another method"),
    ],
)
def test_a_spec_that_disagrees(spec, changes, field, remedy):
    found = refusals(MembershipSpec(**spec), cell(groups_spec(**changes)).spec)
    assert list(found) == [f"/attacks/0/{field}"]
    assert remedy in found[f"/attacks/0/{field}"]


FEW = {"federation__clients_per_group": [6, 3], "training__cohort": {"clients": 3}}
MANY_HYPOTHESES = {
    "federation__clients_per_group": [8, 4],
    "federation__validation_fraction": 0.25,
    "training__hypotheses": 8,
    "training__cohort": {"clients": 8},
}
FEW_HELD_OUT = {"federation__validation_fraction": 0.02, "training__cohort": {"clients": 20}}
MANY_NEEDED = {"fairness__minimum_group_size": 501}
MANY_CLIENTS = {"fairness__minimum_group_clients": 51}
MANY_ROWS = {"federation__clients_per_group": [40_000, 10_000], "federation__rows_per_client": 1}


@pytest.mark.parametrize(
    ("changes", "spec", "field", "remedy"),
    [
        ({}, RATIO, None, ""),
        ({}, {}, None, ""),
        (FEW, RATIO, "/attacks/0/shadows", "10 clients or more"),
        (MANY_HYPOTHESES, RATIO, "/attacks/0/shadows", "ask for fewer `training.hypotheses`"),
        (FEW_HELD_OUT, {}, "/federation/validation_fraction", "needs 30 that train"),
        # Fewer rows, or clients, than a group has to have.
        (MANY_NEEDED, {}, "/federation/validation_fraction", "needs 501 that train"),
        (MANY_CLIENTS, {}, "/federation/validation_fraction", "of 51 clients or more"),
        # Of so many rows some would be in fewer than 16 of 64 random halves.
        (MANY_ROWS, RATIO, "/attacks/0/shadows", "128 or 256"),
    ],
)
def test_data_that_do_not_suffice(changes, spec, field, remedy):
    asked, own = MembershipSpec(**spec), cell(groups_spec(**changes))
    assert refusals(asked, own.spec) == {}
    found = faults(asked, own, pointer="/attacks/0")
    assert [fault.pointer for fault in found] == ([field] if field else [])
    assert all(remedy in fault.message for fault in found)


def test_shadow_runs_are_the_run_on_other_halves() -> None:
    one = cell(groups_spec(training__cohort={"clients": 50}, federation__validation_fraction=0.3))
    rows = choose_rows(one, CounterSource(0), models=64)
    cells, trained = draw_shadows(one, rows, CounterSource(0), shadows=64)
    assert len({shadow.spec.seed for shadow in cells} | {one.spec.seed}) == 65
    assert {int(row.sum()) for row in trained} == {500}  # half of 100 clients of 10 rows
    assert min(trained.sum(0).min(), (~trained).sum(0).min()) >= 16
    # Halves know nothing of the run's split: within a shadow run as many members as others.
    shares = trained[:, rows.member].mean(), trained[:, ~rows.member].mean()
    assert shares[0] == pytest.approx(shares[1], abs=0.03)
    for shadow in cells[:3]:
        assert shadow.spec.training.model_dump(exclude={"cohort"}) == (
            one.spec.training.model_dump(exclude={"cohort"})
        )
        assert shadow.spec.privacy == one.spec.privacy
    assert len({id(shadow.federation) for shadow in cells}) == 1


def test_records_with_budgets_keep_them_in_shadow_runs() -> None:
    one = cell(records_spec(federation__clients_per_group=[20, 10]))
    rows = choose_rows(one, CounterSource(0), models=64)
    cells, _ = draw_shadows(one, rows, CounterSource(0), shadows=64)
    budgets, again = (
        dict(
            zip(
                training_records(each.spec, each.federation).place.tolist(),
                record_use_of(each.spec, each.federation).budgets.tolist(),
                strict=True,
            )
        )
        for each in (one, cells[0])
    )
    pairs = [(budgets[place], again[place]) for place in budgets.keys() & again.keys()]
    assert len(pairs) > 50
    assert all(before == after for before, after in pairs)
    # Records that never enter a step are neither members nor others.
    assert trained_rows(one)[rows.place].tolist() == rows.member.tolist()
    section, _, _ = attack(attacked_run(one))
    assert (section.claim.unit, section.claim.steps) == ("record", 1)


@pytest.mark.parametrize("unit", ["client", "record"])
def test_rows_that_every_figure_leaves_out_are_neither_attacked_nor_counted(unit: str) -> None:
    """The number of non-members less that of held-out rows would be how many these are."""
    one = cell(groups_spec(federation__validation_unit=unit, fairness={}))
    left_out = np.arange(one.federation.rows) % 7 == 0
    one = replace(one, federation=replace(one.federation, left_out=left_out))
    rows = choose_rows(one, CounterSource(1), models=1)
    assert not left_out[rows.place[~rows.member]].any()
    others = int((~rows.member).sum())
    assert others & (others - 1) == 0
    assert others > 1
    [fault] = faults(MembershipSpec(**RATIO), one, pointer="/attacks/0")[:1]
    assert fault.pointer == "/attacks/0/shadows"
    assert "fairness.exclude" in fault.message
