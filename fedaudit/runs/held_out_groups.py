"""Whose figures a run reports by group, and which of the groups are disclosed."""

import numpy as np

from fedaudit.fairness.disclosure import Disclosure, attribute_rule
from fedaudit.fairness.joint_disclosure import decide_together
from fedaudit.fairness.population import Population
from fedaudit.federations.groups.favourable_outcomes import outcome_rules
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.record_sources import validation_rows


def held_out_groups(cell: Cell) -> Population:
    """The rows that are scored, by their groups of every attribute of the spec.

    They follow from spec and data alone, so they are the same in every round. A row for which no
    rule decides whether its outcome is favourable is not among them.
    """
    federation = cell.federation
    held_out = validation_rows(cell.spec, federation)
    own, row = np.nonzero(held_out.scored)
    place = held_out.clients[own], row
    rules = outcome_rules(federation, cell.spec.fairness)
    if rules.ops:
        judged = rules.rule_index[place] >= 0
        place = place[0][judged], place[1][judged]
    codes = {one.name: one.codes[place].astype(np.int64) for one in federation.attributes}
    sizes = {one.name: len(one.values) for one in federation.attributes}
    return Population(codes, sizes, place[0].astype(np.int64))


def decide_disclosures(cell: Cell) -> dict[str, Disclosure]:
    """Which groups of each attribute a run may report, in its rounds and at its end."""
    groups = {one.name: one.values for one in cell.federation.attributes}
    if not groups:
        return {}
    rules = {name: attribute_rule(cell.spec, name, groups) for name in groups}
    return decide_together(rules, held_out_groups(cell))
