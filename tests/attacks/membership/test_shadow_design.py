"""What is refused, at which field and with which remedy, before anything is trained."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.attacks.membership.shadow_design import (
    choose_rows,
    draw_shadows,
    faults,
    trained_rows,
)
from fedaudit.randomness import CounterSource
from fedaudit.spec.attacks import MembershipSpec
from fedaudit.training.base.records import record_use_of, training_records
from tests.attacks.attacked_runs import attacked_run
from tests.attacks.membership.test_membership_attack import attack
from tests.spec.documents import refusals
from tests.training.personalised import records_spec
from tests.training.specs import cell, groups_spec

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


@pytest.mark.parametrize("spec", [{}, RATIO])
def test_a_spec_that_agrees(spec: dict[str, Any]) -> None:
    asked, own = MembershipSpec(**spec), cell(groups_spec())
    assert refusals(asked, own.spec) == {}
    assert faults(asked, own, pointer="/attacks/0") == []


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
    found = faults(MembershipSpec(**spec), cell(groups_spec(**changes)), pointer="/attacks/0")
    assert [fault.pointer for fault in found] == [field]
    assert remedy in found[0].message


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
    [own, shadows] = [record_use_of(each.spec, each.federation) for each in (one, cells[0])]
    budgets = dict(
        zip(
            training_records(one.spec, one.federation).place.tolist(),
            own.budgets.tolist(),
            strict=True,
        )
    )
    places = training_records(cells[0].spec, cells[0].federation).place.tolist()
    pairs = [
        (budgets[place], budget)
        for place, budget in zip(places, shadows.budgets.tolist(), strict=True)
        if place in budgets
    ]
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
