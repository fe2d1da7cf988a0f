"""Disclosure of made-up groups."""

from dataclasses import replace

import numpy as np

from fedaudit.fairness.disclosure import Disclosure, DisclosureRule, attribute_rule
from fedaudit.fairness.gaps import scored_rows
from fedaudit.fairness.joint_disclosure import Population
from fedaudit.fairness.suppression import IntersectionTable
from fedaudit.reports.sections.material import ReportMaterial


def disclosed(
    rows,
    *,
    minimum_group_size: int = 1,
    reference: int | None = None,
    combination: IntersectionTable | None = None,
) -> Disclosure:
    """Of groups with so many rows: [..., groups]."""
    rule = DisclosureRule(minimum_group_size, reference=reference, combination=combination)
    return rule.decide(np.asarray(rows, dtype=np.int64))


def with_disclosures(material: ReportMaterial) -> ReportMaterial:
    """Of each attribute of a report by itself, from the counts and scores of its result."""
    result, spec = material.result, material.spec
    groups = {
        name: material.federation.attributes[name]
        for name in spec.fairness.attributes
        if name in material.federation.attributes and name in result.fairness
    }
    found = {}
    for name in groups:
        scores = result.scores.get(name)
        rows = scored_rows(result.fairness[name]) if scores is None else scores.rows
        known = scores is not None or spec.declares_outcome
        found[name] = attribute_rule(spec, name, groups).decide(
            rows.sum(axis=0), clients=np.count_nonzero(rows, axis=0) if known else None
        )
    return replace(material, disclosures=found)


def population(columns, *, clients=None, groups=None) -> Population:
    """Of numbered rows whose groups are given as a list for each attribute; every row its own
    client."""
    codes = {name: np.asarray(column, dtype=np.int64) for name, column in columns.items()}
    sizes = {name: int(column.max()) + 1 for name, column in codes.items()}
    numbers = np.arange(len(next(iter(codes.values()))))
    owner = numbers if clients is None else np.asarray(clients)
    return Population(codes, {**sizes, **(groups or {})}, owner, numbers)


def disclosed_counts(counts, **changes) -> Disclosure:
    """Of counts [..., groups, 4]."""
    return disclosed(scored_rows(np.asarray(counts)), **changes)


def disclosed_clients(client_counts, **changes) -> Disclosure:
    """Of all clients' rows together, from counts [clients, groups, 4]."""
    return disclosed_counts(np.sum(client_counts, axis=0), **changes)


def disclosed_scores(scores, **changes) -> Disclosure:
    """Of the rows of `GroupScores`."""
    return disclosed(scores.rows.sum(axis=0), **changes)
