"""What every mechanism of a spec answers for the rest of the spec, and asks of it.

Every figure of a mechanism is for one kind of sampling, one unit and one form of update; a pair
that no accountant covers is refused, with the pair that would fit.
"""

from abc import abstractmethod
from typing import Any, assert_never

from fedaudit.spec.base import SpecPart
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.training import FixedCohort, PoissonCohort, Training


class MechanismPart(SpecPart):
    """A mechanism, which has no answer by default: one that leaves any out cannot be made."""

    @property
    @abstractmethod
    def has_noise_per_layer(self) -> bool:
        """Whether each layer of the network has noise of its own."""

    @property
    @abstractmethod
    def budget_column(self) -> str | None:
        """The column of the table with each record's budget; None where there is none."""

    @property
    @abstractmethod
    def draws_by_record(self) -> bool:
        """Whether something is drawn for each record: which validate, or with which budgets."""

    @abstractmethod
    def disagreements(self, *, training: Training, federation: FederationSpec) -> Refusals:
        """Every fault between the mechanism and the rest, each with its field and the remedy."""


class UpdateMechanism(MechanismPart):
    """A mechanism of whole updates, of which no record has a budget of its own."""

    @property
    def budget_column(self) -> str | None:
        """None: budgets of records are of another mechanism."""
        return None

    @property
    def draws_by_record(self) -> bool:
        """False: it is clients that are drawn."""
        return False


def check_updates(mechanism: str, *, training: Training, federation: FederationSpec) -> Refusals:
    """Refuses what only record-level training offers."""
    if training.local.optimiser != "sgd":
        yield refuse_at(
            "/training/local/optimiser",
            f"{mechanism} describes a client's update as plain gradient descent; use "
            "`sgd`, or the mechanism `record-personalised`",
        )
    if federation.holds_out_rows:
        yield refuse_at(
            "/federation/validation_unit",
            f"{mechanism} validates on clients that take no part in training; use "
            "`client`, or the mechanism `record-personalised`",
        )


def check_no_coins(mechanism: str, training: Training) -> Refusals:
    """Refuses a cohort without a fixed size, where secret coins amplify nothing."""
    match training.cohort:
        case FixedCohort():
            return
        case PoissonCohort():
            yield refuse_at(
                "/training/cohort/sampling",
                f"{mechanism} gains nothing from secret coins and draws a fixed number of "
                "clients: use {sampling: fixed, clients: U}; Poisson coins go with "
                "`gaussian-central` and `record-personalised`",
            )
        case _:
            assert_never(training.cohort)


def check_one_hypothesis(mechanism: str, training: Training) -> Refusals:
    """Refuses several hypotheses, where which one a client chose is not hidden."""
    if training.hypotheses > 1:
        yield refuse_at(
            "/training/hypotheses",
            f"{mechanism} does not hide which hypothesis a client chose, so its epsilon would not "
            "hold for several; use 1, or the mechanism `gaussian-central` or `laplace-l2`",
        )


def one_client_rate(spec: Any) -> Any:
    """The raw spec with `privacy.client_rate` and the rate of the cohort filled in from each other.

    Only for `record-personalised`, where both mean the same; where both are given, or neither,
    the spec is left as it is.
    """
    privacy, training = _part(spec, "privacy"), _part(spec, "training")
    if privacy.get("mechanism") != "record-personalised" or not training:
        return spec
    rate, cohort = privacy.get("client_rate"), training.get("cohort")
    if cohort is None and rate is not None:
        cohort = {"sampling": "poisson", "rate": rate}
        return {**spec, "training": {**training, "cohort": cohort}}
    if rate is None and isinstance(cohort, dict) and cohort.get("sampling") == "poisson":
        return {**spec, "privacy": {**privacy, "client_rate": cohort.get("rate")}}
    return spec


def _part(spec: Any, name: str) -> dict[Any, Any]:
    part = spec.get(name) if isinstance(spec, dict) else None
    return part if isinstance(part, dict) else {}
