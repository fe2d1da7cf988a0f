"""What a spec and its data must agree on."""

from collections.abc import Mapping, Sequence

from fedaudit.federations.favourable_outcomes import outcome_rules
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.levels import find_classes
from fedaudit.federations.split import training_clients
from fedaudit.spec.errors import FieldError, listed, pointer, raise_errors
from fedaudit.spec.experiment import Decision, ExperimentSpec
from fedaudit.spec.labels import label_of, repeated_labels

Labels = Mapping[str, Mapping[str, str]]


def federation_label_faults(labels: Labels, federation: Federation) -> list[FieldError]:
    """Every label of a code that the data lack, and every label that two groups share."""
    values = {
        # Codes that were joined or left out keep their labels.
        one.name: tuple(dict.fromkeys((*(one.data or one).values, *one.values)))
        for one in federation.attributes
    }
    return label_faults(labels, {federation.target_name: federation.classes, **values})


def label_faults(labels: Labels, values: Mapping[str, Sequence[str]]) -> list[FieldError]:
    """The faults, by the codes of each column. A numeric target has none, and its labels wait for
    an experiment that takes it for classes."""
    faults: list[FieldError] = []
    for column, words in labels.items():
        known = values.get(column, ())
        if not known:
            continue
        places = find_classes(known, list(words))
        faults += [
            FieldError(
                pointer("federation", "labels", column, code),
                f"{column!r} has no value {code!r}; it has {listed(tuple(known))}",
            )
            for code, place in zip(words, places, strict=True)
            if place < 0
        ]
        repeated = repeated_labels([label_of(words, value) or value for value in known])
        faults += [
            FieldError(
                pointer("federation", "labels", column, code),
                f"{label!r} is what another group of {column!r} is called; give it another label",
            )
            for (code, label), place in zip(words.items(), places, strict=True)
            if place >= 0 and label in repeated
        ]
    return faults


def image_faults(spec: ExperimentSpec, federation: Federation) -> list[FieldError]:
    """An error at /model/kind where rows are not images of the size that the network takes."""
    taken = spec.model.image
    if taken is None:
        return []
    features = federation.features
    image = features.image if isinstance(features, ClientRows) else None
    if image == taken:
        return []
    height, width, channels = taken
    found = "no images" if image is None else f"images of {_size(*image)}"
    message = (
        f"`{spec.model.kind}` takes images of {_size(height, width, channels)}, and these rows are "
        f"{found}; bring them to that size, or use `mlp` or `logistic`"
    )
    return [FieldError("/model/kind", message, of_spec=True)]


def _size(height: int, width: int, channels: int) -> str:
    return f"{height} by {width} with {channels} channel{'s' if channels != 1 else ''}"


def check_agreement(spec: ExperimentSpec, federation: Federation) -> None:
    """Refuse a cohort larger than the training clients, and groups that the data do not have.

    Also refuses images whose size does not match the network's input, a threshold between other
    than two classes, and labels of codes that the data lack. Raises InvalidInputError below
    /training, /model, /decision, /fairness and /federation/labels.
    """
    raise_errors(
        _cohort_faults(spec, federation)
        + _reference_faults(spec, federation)
        + image_faults(spec, federation)
        + _decision_faults(spec, federation)
        + federation_label_faults(spec.federation.labels, federation)
    )
    outcome_rules(federation, spec.fairness)


def _cohort_faults(spec: ExperimentSpec, federation: Federation) -> list[FieldError]:
    asked = spec.training.asked_clients
    training = training_clients(federation.clients, spec.federation)
    if asked is None or asked <= training:
        return []
    message = (
        f"a cohort of {asked} clients is more than the {training} training clients "
        f"({federation.clients} clients, {federation.clients - training} of them held out for "
        f"validation); ask for at most {training}"
    )
    return [FieldError("/training/cohort/clients", message, of_spec=True)]


def _decision_faults(spec: ExperimentSpec, federation: Federation) -> list[FieldError]:
    if spec.decision == Decision() or len(federation.classes) == 2:
        return []
    message = (
        f"the target has {len(federation.classes)} classes, and a threshold decides between two; "
        "leave it out"
    )
    return [FieldError("/decision/threshold", message, of_spec=True)]


def _reference_faults(spec: ExperimentSpec, federation: Federation) -> list[FieldError]:
    group = spec.fairness.reference_group
    values = [value for attribute in federation.attributes for value in attribute.values]
    if group is None or group in values:
        return []
    message = f"no sensitive attribute has a group {group!r}; there are {listed(values)}"
    return [FieldError("/fairness/reference_group", message)]
