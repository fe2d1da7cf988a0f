"""Whether the labels of a spec are of codes that the data have, and tell groups apart."""

from collections.abc import Mapping, Sequence

from fedaudit.federations.classes import find_classes
from fedaudit.federations.errors import listed, pointer
from fedaudit.federations.federation import Federation
from fedaudit.spec.errors import FieldError
from fedaudit.spec.naming.labels import label_of, repeated_labels

Labels = Mapping[str, Mapping[str, str]]


def federation_label_faults(labels: Labels, federation: Federation) -> list[FieldError]:
    """Every label of a code that the data lack, and every label that two groups share."""
    values = {one.name: one.values for one in federation.attributes}
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
