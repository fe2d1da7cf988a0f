"""What a spec and its data must agree on."""

from typing import assert_never

from fedaudit.federations.errors import listed, raise_errors
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups.favourable_outcomes import outcome_rules
from fedaudit.federations.groups.label_agreement import federation_label_faults
from fedaudit.federations.network_input import image_faults
from fedaudit.federations.split import validation_clients
from fedaudit.spec.errors import FieldError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import FixedCohort, PoissonCohort


def check_agreement(spec: ExperimentSpec, federation: Federation) -> None:
    """Refuse a cohort larger than the training clients, and groups that the data do not have.

    Also refuses images whose size does not match the network's input, and labels of codes that the
    data lack. Raises InvalidInputError below /training, /model, /fairness and /federation/labels.
    """
    raise_errors(
        _cohort_faults(spec, federation)
        + _reference_faults(spec, federation)
        + image_faults(spec, federation)
        + federation_label_faults(spec.federation.labels, federation)
    )
    outcome_rules(federation, spec.fairness)


def _cohort_faults(spec: ExperimentSpec, federation: Federation) -> list[FieldError]:
    cohort = spec.training.cohort
    match cohort:
        case PoissonCohort():
            return []  # how many clients take part is random
        case FixedCohort():
            asked = cohort.clients
        case _:
            assert_never(cohort)
    held_out = validation_clients(
        federation.clients, validation_fraction=spec.federation.validation_fraction
    )
    training = federation.clients - held_out
    if asked <= training:
        return []
    message = (
        f"a cohort of {asked} clients is more than the {training} training clients "
        f"({federation.clients} clients, {held_out} of them held out for validation); ask for at "
        f"most {training}"
    )
    return [FieldError("/training/cohort/clients", message, of_spec=True)]


def _reference_faults(spec: ExperimentSpec, federation: Federation) -> list[FieldError]:
    group = spec.fairness.reference_group
    values = [value for attribute in federation.attributes for value in attribute.values]
    if group is None or group in values:
        return []
    message = f"no sensitive attribute has a group {group!r}; there are {listed(values)}"
    return [FieldError("/fairness/reference_group", message)]
