"""What a mechanism asks of the parts of a spec around it.

Every figure of a mechanism is for one kind of sampling, one unit and one form of update; a pair
that no accountant covers is refused here, with the pair that would fit.
"""

from typing import Any, assert_never

from fedaudit.spec.errors import refuse_at
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    PrivacySpec,
    RecordPersonalised,
)
from fedaudit.spec.training import FixedCohort, PoissonCohort, Training


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


def check_mechanism(
    privacy: PrivacySpec, *, training: Training, federation: FederationSpec
) -> None:
    """Raises a validation error that names the field and the remedy."""
    match privacy:
        case NoMechanism():
            _check_records_stay_out(privacy, training, federation)
            _check_no_coins(privacy, training)
        case LaplaceL2():
            _check_records_stay_out(privacy, training, federation)
            _check_no_coins(privacy, training)
            _check_floor(privacy)
        case GaussianCentral():
            _check_records_stay_out(privacy, training, federation)
            _check_central(privacy, training)
        case GaussianLocal():
            _check_records_stay_out(privacy, training, federation)
            _check_no_coins(privacy, training)
            _check_one_hypothesis(privacy.mechanism, training)
        case RecordPersonalised():
            _check_record_rates(privacy, training)
            _check_record_steps(privacy, training)
            _check_budgets(privacy, federation)
        case _:
            assert_never(privacy)


def _part(spec: Any, name: str) -> dict[Any, Any]:
    part = spec.get(name) if isinstance(spec, dict) else None
    return part if isinstance(part, dict) else {}


def _check_floor(privacy: LaplaceL2) -> None:
    adaptive = privacy.radius == "adaptive"
    if adaptive and privacy.clip is not None and privacy.clip < privacy.radius_floor:
        raise refuse_at(
            "/privacy/clip",
            f"must not lie below radius_floor ({privacy.radius_floor}), which it would never "
            "reach; raise the clip or lower the floor",
        )


def _check_records_stay_out(
    privacy: PrivacySpec, training: Training, federation: FederationSpec
) -> None:
    """What only record-level training offers."""
    if training.local.optimiser != "sgd":
        raise refuse_at(
            "/training/local/optimiser",
            f"{privacy.mechanism} describes a client's update as plain gradient descent; use "
            "`sgd`, or the mechanism `record-personalised`",
        )
    if federation.holds_out_rows:
        raise refuse_at(
            "/federation/validation_unit",
            f"{privacy.mechanism} validates on clients that take no part in training; use "
            "`client`, or the mechanism `record-personalised`",
        )


def _check_no_coins(privacy: PrivacySpec, training: Training) -> None:
    """A cohort of fixed size, where secret coins amplify nothing."""
    match training.cohort:
        case FixedCohort():
            return
        case PoissonCohort():
            raise refuse_at(
                "/training/cohort/sampling",
                f"{privacy.mechanism} gains nothing from secret coins and draws a fixed number of "
                "clients: use {sampling: fixed, clients: U}; Poisson coins go with "
                "`gaussian-central` and `record-personalised`",
            )
        case _:
            assert_never(training.cohort)


def _check_central(privacy: GaussianCentral, training: Training) -> None:
    _check_central_accountant(privacy, training)
    if training.hypotheses > 1 and not training.reports_choices:
        raise refuse_at(
            "/training/clustering/method",
            "the server of gaussian-central sees sums and no single uploads to cluster: with "
            "several hypotheses each client says which one it chose; use `method: reported`",
        )
    clip = privacy.adaptive_clip
    if clip is not None and 2 * clip.count_noise <= privacy.noise_multiplier:
        raise refuse_at(
            "/privacy/clip/adaptive/count_noise",
            "is too little: the count of clipped updates alone would spend what "
            f"noise_multiplier = {privacy.noise_multiplier:g} allows for both; it must exceed "
            f"{privacy.noise_multiplier / 2:g}",
        )


def _check_central_accountant(privacy: GaussianCentral, training: Training) -> None:
    match training.cohort:
        case PoissonCohort():
            return
        case FixedCohort():
            pass
        case _:
            assert_never(training.cohort)
    match privacy.accountant:
        case "rdp":
            return
        case "pld":
            raise refuse_at(
                "/privacy/accountant",
                "a cohort of fixed size has a bound from `rdp` only, under replace-one: use "
                "`accountant: rdp`, or keep `pld` with `cohort: {sampling: poisson, rate: ...}`, "
                "under add-or-remove-one",
            )
        case _:
            assert_never(privacy.accountant)


def _check_one_hypothesis(mechanism: str, training: Training) -> None:
    if training.hypotheses > 1:
        raise refuse_at(
            "/training/hypotheses",
            f"{mechanism} does not hide which hypothesis a client chose, so its epsilon would not "
            "hold for several; use 1, or the mechanism `gaussian-central` or `laplace-l2`",
        )


def _check_record_rates(privacy: RecordPersonalised, training: Training) -> None:
    cohort = training.cohort
    match cohort:
        case FixedCohort():
            raise refuse_at(
                "/training/cohort/sampling",
                "record-personalised is accounted for with a coin for each client: use {sampling: "
                "poisson, rate: ...}, rate 1 for everyone in every round; a fixed number of "
                "clients goes with `gaussian-central` and `rdp`",
            )
        case PoissonCohort():
            _check_same_rate(privacy.client_rate, cohort.rate)
        case _:
            assert_never(cohort)


def _check_same_rate(client_rate: float | None, rate: float) -> None:
    if client_rate is not None and client_rate != rate:
        raise refuse_at(
            "/privacy/client_rate",
            f"is the rate of the cohort, which is {rate:g}; give one of the two, or both alike",
        )


def _check_record_steps(privacy: RecordPersonalised, training: Training) -> None:
    _check_one_hypothesis(privacy.mechanism, training)
    if training.local.steps is None:
        raise refuse_at(
            "/training/local/steps",
            "is required: records are drawn anew in every step, and epsilon counts steps; give "
            "`steps` in place of `epochs`",
        )
    if training.root_mean:
        raise refuse_at(
            "/training/loss",
            "the root of a mean has no gradient for each record to clip; use `mse` or "
            "`cross-entropy`",
        )
    if privacy.baseline is not None and training.local.batch_size is None:
        raise refuse_at(
            "/training/local/batch_size",
            f"is required: the baseline {privacy.baseline} draws so many records in each step on "
            "average",
        )


def _check_budgets(privacy: RecordPersonalised, federation: FederationSpec) -> None:
    column = privacy.budgets.column
    if column is None:
        return
    training_columns = federation.traits.training_columns
    if training_columns is None:
        raise refuse_at(
            "/privacy/budgets/column",
            f"{federation.source} has no columns of its caller's; use a `distribution`, or the "
            "source `table`",
        )
    if column in training_columns:
        raise refuse_at(
            "/privacy/budgets/column",
            f"{column!r} is a feature or the target; budgets need a column of their own",
        )
