"""The rule of early stopping by itself, without a trainer."""

from dataclasses import dataclass

import pytest

from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.stopping import EarlyStopping, release_number
from tests.training.specs import groups_spec


@dataclass
class RepeatedEvent:
    """How far a run came."""

    round: int = 0
    release: int = 0
    release_until: int = 0
    best_loss: float = float("inf")
    best_round: int = 0
    without_improvement: int = 0


def test_the_rule_is_that_of_the_spec() -> None:
    spec = groups_spec(training__stopping={"patience": 3, "validate_every": 4})
    rule = EarlyStopping.of_spec(parse_spec(spec))
    assert (rule.rounds, rule.patience, rule.validate_every) == (30, 3, 4)


def test_only_a_lower_loss_is_an_improvement() -> None:
    rule, repeated = EarlyStopping(rounds=9, patience=2, validate_every=1), RepeatedEvent()
    found = []
    for number, loss in enumerate((2.0, 1.0, 1.0, 1.5), start=1):
        repeated.round = number
        found.append(rule.observe(repeated, loss))
    assert found == ["improved", "improved", "not-improved", "not-improved"]
    assert (repeated.best_loss, repeated.best_round, repeated.without_improvement) == (1.0, 2, 2)
    assert rule.stop_reason(repeated, last_round=9) == "patience"


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_not_finite_leaves_the_best_alone(loss: float) -> None:
    rule, repeated = EarlyStopping(rounds=9, patience=2, validate_every=1), RepeatedEvent(round=1)
    rule.observe(repeated, 1.0)
    repeated.round = 2
    assert rule.observe(repeated, loss) == "diverged"
    assert (repeated.best_loss, repeated.best_round, repeated.without_improvement) == (1.0, 1, 0)


@pytest.mark.parametrize(
    ("number", "waited", "last_round", "why"),
    [
        (5, 0, 9, None),
        (5, 2, 9, "patience"),
        (9, 2, 9, "patience"),
        (9, 0, 9, "rounds"),
        (5, 0, 5, "budget"),
        (5, 0, 4, "budget"),
        (9, 0, 5, "rounds"),
    ],
)
def test_why_a_run_ends(number: int, waited: int, last_round: int, why: str | None) -> None:
    rule = EarlyStopping(rounds=9, patience=2, validate_every=1)
    repeated = RepeatedEvent(round=number, without_improvement=waited)
    assert rule.stop_reason(repeated, last_round=last_round) == why


def test_the_last_round_is_validated_too() -> None:
    rule = EarlyStopping(rounds=10, patience=None, validate_every=4)
    validated = [number for number in range(1, 11) if rule.validates(number, last_round=10)]
    assert validated == [4, 8, 10]
    assert rule.validates(7, last_round=7)


def test_rounds_that_repeat_interrupted_ones_carry_their_release() -> None:
    repeated = RepeatedEvent(release=2, release_until=6)
    assert [release_number(repeated, number) for number in (5, 6, 7)] == [2, 2, 0]
