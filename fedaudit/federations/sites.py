"""Clients as the groups of an attribute: small ones are compared together, as one group."""

from dataclasses import replace
from typing import assert_never

import numpy as np

from fedaudit.arrays import Ints
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.groups import compared, left_out_rows
from fedaudit.federations.split import held_out, split_clients
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Groups
from fedaudit.spec.labels import as_read
from fedaudit.spec.sources import LeaveOneOut, RowSplit

OTHER_SITES = "other sites"


def with_pooled_sites(spec: ExperimentSpec, federation: Federation) -> Federation:
    """The federation, clients with too few scored rows in one group, where the client key is an
    attribute whose groups may be of one client. The smallest of the others joins them where they
    are too few together; a reference group, and clients that have rules, stay by themselves."""
    name, fairness = spec.federation.traits.client_key, spec.fairness
    if name is None or name not in fairness.sensitive or fairness.minimum_group_clients > 1:
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
