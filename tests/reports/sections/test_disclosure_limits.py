"""The sentence that says under which policy a report's groups were asked for."""

from fedaudit.reports.sections.provenance import disclosure_limits
from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.parse import parse_spec
from tests.spec.documents import HOSPITAL, changed

SPEC = parse_spec(HOSPITAL)


def test_what_the_owner_set_and_what_was_left() -> None:
    policy = DisclosurePolicy(minimum_group_size=30, minimum_group_clients=2, edges={})
    [sentence] = disclosure_limits(policy, SPEC)
    assert "Set by the federation's owner: groups of 30 scored rows or more" in sentence
    assert "of 2 clients or more, edges." in sentence
    assert "Left to whoever asked: the favourable outcome" in sentence
    assert "who is held out and scored" in sentence


def test_without_a_policy_everything_was_left() -> None:
    [sentence] = disclosure_limits(DisclosurePolicy(), SPEC)
    assert "no disclosure policy" in sentence


def test_nothing_is_said_of_runs_that_no_service_admitted_or_that_look_at_no_groups() -> None:
    assert disclosure_limits(None, SPEC) == []
    bare = parse_spec(changed(HOSPITAL, {"fairness": {}}))
    assert disclosure_limits(DisclosurePolicy(), bare) == []
