"""Load or profile the federation of a spec, which its data must agree with: the entry point of
this package."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, assert_never

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.federations.federation import Attribute, ClientRows, Federation
from fedaudit.federations.groups import agreed_rules, compared, left_out_rows, with_intersections
from fedaudit.federations.hospital import HospitalChargesKind
from fedaudit.federations.image_federation import FemnistKind, ImagesKind
from fedaudit.federations.reading.source_files import Files
from fedaudit.federations.record_keys import record_keys
from fedaudit.federations.source_kind import LoadRequest, SourceKind
from fedaudit.federations.split import held_out, split_clients, training_clients
from fedaudit.federations.synthetic import SyntheticGroupsKind, SyntheticLinearKind
from fedaudit.federations.table.table_federation import TableKind
from fedaudit.spec.errors import FieldError, error_at, listed_values, pointer, raise_errors
from fedaudit.spec.experiment import Decision, ExperimentSpec
from fedaudit.spec.fairness import Fairness, Groups
from fedaudit.spec.federation import (
    FederationSpec,
    Femnist,
    HospitalCharges,
    Images,
    SyntheticGroups,
    SyntheticLinear,
)
from fedaudit.spec.labels import as_read, find_classes, label_of, repeated_labels
from fedaudit.spec.registration import Registration
from fedaudit.spec.sources import LeaveOneOut, RowSplit
from fedaudit.spec.table import Table


def source_kind(source: FederationSpec) -> SourceKind[Any]:
    """The loader of this source."""
    match source:
        case SyntheticLinear():
            return SyntheticLinearKind(source)
        case SyntheticGroups():
            return SyntheticGroupsKind(source)
        case HospitalCharges():
            return HospitalChargesKind(source)
        case Table():
            return TableKind(source)
        case Images():
            return ImagesKind(source)
        case Femnist():
            return FemnistKind(source)
        case _:
            assert_never(source)


def load_federation(
    spec: ExperimentSpec, *, sources_dir: Path | None = None, files: Files | None = None
) -> Federation:
    """The clients' data that a spec asks for, checked against the rest of the spec.

    `files`: where those that the spec names are found; without it, everything below `sources_dir`.
    Raises InvalidInputError with pointers below /federation, /fairness or /training.
    """
    asked = _asked(spec, files or Files(sources_dir))
    return _agreed(spec, source_kind(spec.federation).load(asked))


def outline_federation(spec: ExperimentSpec, *, files: Files) -> Federation:
    """What a plan needs of the data that a spec asks for, with the errors of `load_federation`.

    Of tables the features are left out (`Federation.is_outline`), so that it takes memory for rows
    alone; all else is equal. Raises InvalidInputError.
    """
    return _agreed(spec, source_kind(spec.federation).outline(_asked(spec, files)))


def _asked(spec: ExperimentSpec, files: Files) -> LoadRequest:
    return LoadRequest(
        fairness=spec.fairness,
        classification=spec.classifies,
        seed=spec.seed,
        files=files,
        budgets=spec.privacy.budget_column,
        keyed=spec.privacy.draws_by_record,
    )


def _agreed(spec: ExperimentSpec, federation: Federation) -> Federation:
    if spec.privacy.draws_by_record:
        federation = replace(federation, record_keys=record_keys(federation))
    elif spec.federation.holds_out_rows and federation.is_large:
        raise error_at(
            "/federation/validation_unit",
            f"these data are read from disk, and {spec.privacy.mechanism} cannot hold rows out "
            "there; use `client`",
        )
    groups = compared(federation.attributes, spec.fairness)
    federation = with_pooled_sites(spec, replace(federation, attributes=groups))
    federation = with_intersections(federation, spec.fairness.combinations)
    check_agreement(spec, federation)
    return without_left_out(spec, federation)


@dataclass(frozen=True)
class RegisteredData:
    """The data of a registration, read with it alone: small groups are suppressed. All that reads
    them raises InvalidInputError with the same message as loading the data."""

    registration: Registration
    files: Files
    progress: Callable[[], None] = lambda: None
    """Called now and then."""

    def profile(self, fingerprint: str | None = None) -> dict[str, Any]:
        """Sizes and names, as JSON; `fingerprint` is the expected one of the data.

        A table is read as a stream, with memory for its clients and groups only; images and
        hospital charges are loaded.
        """
        figures = source_kind(self.registration.federation).profile(self._asked, fingerprint)
        attributes = {name: tuple(found["groups"]) for name, found in figures["attributes"].items()}
        codes = {figures["target"]: figures["classes"], **attributes}
        raise_errors(label_faults(self.registration.federation.labels, codes))
        return figures

    def row_hashes(self, *, keep: int) -> Ints | None:
        """The `keep` smallest hashes of a table's rows; None for what is no table.

        Raises InvalidInputError where a column cannot be read, which need not be one that is used.
        """
        return source_kind(self.registration.federation).row_hashes(self._asked, keep=keep)

    @property
    def _asked(self) -> LoadRequest:
        fairness = self.registration.fairness
        return LoadRequest(fairness=fairness, files=self.files, progress=self.progress)


_WHERE = "/fairness/exclude"


def without_left_out(spec: ExperimentSpec, federation: Federation) -> Federation:
    """The federation as the spec's figures see it, without the rows that `fairness.exclude` leaves
    out of every one, and which may still train.

    Rows of held-out clients serve figures alone, so they are removed. A client keeps its rows where
    it would have none: it is not scored then. Where rows instead of clients are held out, those
    held out stay in the arrays, and neither train nor validate. Raises
    InvalidInputError at /fairness/exclude where no client is left to be scored, or the data are too
    large to be taken apart in memory.
    """
    left_out = left_out_rows(federation.attributes, spec.fairness)
    if left_out is None:
        return federation
    federation, source = replace(federation, left_out=left_out), spec.federation
    if source.holds_out_rows:
        return federation
    if federation.is_large:
        raise error_at(
            _WHERE,
            "these data are read from disk, and rows cannot be left out there; take the rows out "
            "of the file, or join their value into another group by `groups`",
        )
    split = split_clients(
        federation.clients, validation_fraction=source.validation_fraction, seed=spec.seed
    )
    kept = np.bincount(federation.client_of[~left_out], minlength=federation.clients)
    if not kept[split.validation].any():
        raise error_at(
            _WHERE,
            "leaves no row of the clients that are held out; leave fewer values out, or hold out "
            "more clients by `validation_fraction`",
        )
    held_out = np.zeros(federation.clients, dtype=np.bool_)
    held_out[split.validation] = True
    of_scored = (held_out & (kept > 0))[federation.client_of]
    return federation.of_rows(np.flatnonzero(~(left_out & of_scored)))


OTHER_SITES = "other sites"


def with_pooled_sites(spec: ExperimentSpec, federation: Federation) -> Federation:
    """The federation, clients with too few scored rows in one group, where the client key is an
    attribute whose groups may be of one client. The smallest of the others joins them where they
    are too few together; a reference group, and clients that have rules, stay by themselves. So do
    all under `fairness.noise`, which covers no choice by their exact sizes."""
    name, fairness = spec.federation.traits.client_key, spec.fairness
    if name is None or name not in fairness.sensitive or fairness.minimum_group_clients > 1:
        return federation
    if fairness.noise is not None:
        return federation
    sites = federation.attribute(name)
    if (
        name in fairness.edges
        or as_read(OTHER_SITES) in map(as_read, sites.values)
        or isinstance(fairness.favourable, list)
    ):
        return federation
    pool = pooled_groups(_scored(spec, federation, sites), fairness.minimum_group_size)
    values = [sites.values[place] for place in pool]
    if len(values) < 2 or fairness.reference_group in values:
        return federation
    joined = Groups(sensitive=[name], groups={name: {OTHER_SITES: values}})
    [pooled] = compared([sites], joined)
    attributes = tuple(pooled if one.name == name else one for one in federation.attributes)
    return replace(federation, attributes=attributes)


def pooled_groups(sizes: Ints, least: int) -> list[int]:
    """The places of groups of these sizes [groups] that are pooled: at most all but one."""
    order = [place for place in np.argsort(sizes, kind="stable").tolist() if sizes[place]]
    count = int((sizes[order] < least).sum()) if order else 0
    while 0 < count < len(order) and sizes[order[:count]].sum() < least:
        count += 1
    return order[:count] if count < len(order) else []


def _scored(spec: ExperimentSpec, federation: Federation, sites: Attribute) -> Ints:
    """About how many rows of each group are scored: [groups]."""
    source = spec.federation
    if source.holds_out_rows:
        scored = held_out(spec, federation)
    else:
        split = split_clients(
            federation.clients, validation_fraction=source.validation_fraction, seed=spec.seed
        )
        scored = np.isin(federation.client_of, split.validation)
    left_out = left_out_rows(federation.attributes, spec.fairness)
    if left_out is not None:
        scored &= ~left_out
    codes = sites.codes[scored & (sites.codes >= 0)]
    sizes = np.bincount(codes, minlength=len(sites.values)).astype(np.float64)
    match source.scoring:
        case RowSplit():
            sizes *= source.scoring.fraction
        case LeaveOneOut():
            pass
        case _:
            assert_never(source.scoring)
    return sizes.astype(np.int64)


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
                f"{column!r} has no value {code!r}; it has {listed_values(known)}",
            )
            for code, place in zip(words, places, strict=True)
            if place < 0
        ]
        repeated = repeated_labels([label_of(words, value) or value for value in known])
        owner = {as_read(value): value for value in known}
        faults += [
            FieldError(
                pointer("federation", "labels", column, code),
                f"{label!r} is what another group of {column!r} is called; give it another label",
            )
            for (code, label), place in zip(words.items(), places, strict=True)
            if place >= 0
            and (label in repeated or owner.get(as_read(label), known[place]) != known[place])
        ]
    return faults


def check_agreement(spec: ExperimentSpec, federation: Federation, *, new: bool = False) -> None:
    """Refuse a cohort larger than the training clients, and groups that the data do not have.

    Also refuses images whose size does not match the network's input, a threshold between other
    than two classes, and, in a `new` spec alone, wrong labels and groups without a rule. Raises
    InvalidInputError below /training, /model, /decision, /fairness and /federation/labels.
    """
    raise_errors(
        [
            *_cohort_faults(spec, federation),
            *reference_faults(spec.fairness, federation),
            *_model_faults(spec, federation),
            *(federation_label_faults(spec.federation.labels, federation) if new else ()),
        ]
    )
    agreed_rules(federation, spec.fairness, new=new)


def _cohort_faults(spec: ExperimentSpec, federation: Federation) -> Iterator[FieldError]:
    asked = spec.training.asked_clients
    training = training_clients(federation.clients, spec.federation)
    if asked is not None and asked > training:
        message = (
            f"a cohort of {asked} clients is more than the {training} training clients "
            f"({federation.clients} clients, {federation.clients - training} of them held out for "
            f"validation); ask for at most {training}"
        )
        yield FieldError("/training/cohort/clients", message, of_spec=True)


def reference_faults(fairness: Fairness, federation: Federation) -> Iterator[FieldError]:
    """That there is the group that others are compared with, where one is named."""
    group = fairness.reference_group
    values = [value for attribute in federation.attributes for value in attribute.values]
    if group is not None and group not in values:
        message = f"no sensitive attribute has a group {group!r}; there are {listed_values(values)}"
        yield FieldError("/fairness/reference_group", message)


def _model_faults(spec: ExperimentSpec, federation: Federation) -> Iterator[FieldError]:
    """That rows are images of the size that a network takes, and a threshold decides between two
    classes."""
    taken, features, classes = spec.model.image, federation.features, len(federation.classes)
    image = features.image if isinstance(features, ClientRows) else None
    if taken is not None and image != taken:
        found = "no images" if image is None else f"images of {_size(*image)}"
        message = (
            f"`{spec.model.kind}` takes images of {_size(*taken)}, and these rows are {found}; "
            "bring them to that size, or use `mlp` or `logistic`"
        )
        yield FieldError("/model/kind", message, of_spec=True)
    if spec.decision != Decision() and classes != 2:
        message = (
            f"the target has {classes} classes, and a threshold decides between two; leave it out"
        )
        yield FieldError("/decision/threshold", message, of_spec=True)


def _size(height: int, width: int, channels: int) -> str:
    return f"{height} by {width} with {channels} channel{'s' if channels != 1 else ''}"
