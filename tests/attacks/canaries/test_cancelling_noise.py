"""Noise that hides each release, and not their sum, is found at the counts that are documented."""

from collections.abc import Callable
from functools import cache, partial

import pytest

from benchmarks.canary_power import alarms, in_full_view, measured, planned_for
from benchmarks.canary_scenarios import COUNTS, KEPT, VIOLATIONS, Scenario, central
from fedaudit.attacks.canaries.canary_bounds import PlannedBounds
from tests.attacks.canaries.canary_cells import CENTRAL, canary_cell, section_of

CLAIM = 4.0
MAKERS: dict[str, Callable[[float, int], Scenario]] = {
    **in_full_view(10),
    "coins": partial(central, rate=0.2, rounds=10),
}
TOO_LITTLE = "0.6 shared + 0.8 own"
"""By it all releases tell a quarter more than is claimed, which so few canaries do not show."""


@cache
def _planned(kind: str) -> tuple[Scenario, PlannedBounds]:
    scenario = MAKERS[kind](CLAIM, COUNTS[CLAIM])
    return scenario, planned_for(scenario)


@pytest.mark.parametrize(
    ("kind", "violation"),
    [
        *((kind, violation) for kind in MAKERS for violation in VIOLATIONS),
        *((kind, KEPT) for kind in ("central", "coins")),
    ],
)
def test_violations_over_releases_are_found(kind: str, violation: str) -> None:
    scenario, planned = _planned(kind)
    with scenario.sabotaged(violation):
        found = alarms([measured(scenario, planned, 0)])
    by_sums = int(violation != TOO_LITTLE)
    assert found == {
        "any": by_sums, "known-noise": 0, "f-dp": 0, "one-run": 0, "summed-releases": by_sums,
    }  # fmt: skip


@pytest.mark.parametrize("kind", MAKERS)
def test_noise_as_claimed_raises_no_alarm(kind: str) -> None:
    """At a significance of 1 %, a run raises one once in a hundred; this seed raises none."""
    scenario, planned = _planned(kind)
    section = measured(scenario, planned, 1000)
    assert section.alarm is None
    shares = {bound.name: bound.significance for bound in section.bounds}
    assert shares == pytest.approx(
        {"known-noise": 7e-3, "f-dp": 1e-3, "one-run": 1e-3, "summed-releases": 1e-3}
    )


def test_the_model_kept_is_no_second_release_where_it_is_that_of_its_round() -> None:
    section = section_of(canary_cell(CENTRAL, training__rounds=6), 50)
    assert section.bounds[-1].name == "summed-releases"
    assert section.bounds[-1].epsilon_lower_bound < (section.claim or 0.0)


def test_one_release_has_no_sums() -> None:
    section = section_of(canary_cell(CENTRAL, training__rounds=1), 50)
    assert [bound.name for bound in section.bounds] == ["known-noise", "f-dp", "one-run"]
    assert section.bounds[0].significance == pytest.approx(8e-3)
