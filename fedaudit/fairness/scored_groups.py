"""The rows that figures by group are made from, and which of the groups are disclosed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure, DisclosureRule, attribute_rule
from fedaudit.fairness.earlier_disclosures import (
    DisclosedRows,
    Neighbourhood,
    conflicting,
    disclosed_sets,
)
from fedaudit.fairness.joint_disclosure import decide_together
from fedaudit.fairness.population import Population
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Fairness


@dataclass(frozen=True)
class DisclosureDecision:
    """Which attributes a report says nothing of, and what it discloses of the others."""

    withheld: frozenset[str]
    """Attributes whose groups are too near to those of earlier reports."""
    sets: tuple[DisclosedRows, ...]
    """What is to be remembered."""


@dataclass(frozen=True, eq=False)
class ScoredGroups:
    """Rows that are scored, by their groups of every attribute of a spec. Confidential."""

    spec: ExperimentSpec
    groups: Mapping[str, tuple[str, ...]]
    """By attribute, the names of its groups."""
    population: Population
    favourable: NDArray[np.bool_]
    """[rows]: whether the true outcome is."""

    def decide(self, withheld: Collection[str] = ()) -> dict[str, Disclosure]:
        """Which groups of each attribute may be reported.

        `withheld`: attributes of which none may be, because of earlier reports.
        """
        rules = self._rules
        open_ = {name: rule for name, rule in rules.items() if name not in withheld}
        found = decide_together(open_, self.population) if open_ else {}
        for name in withheld:
            one = rules[name].decide(self.population.sizes(name))
            why = _near(self.spec.fairness)
            found[name] = replace(one, shown=np.zeros_like(one.shown), why=why)
        return {name: found[name] for name in self.groups}

    def decide_beside(
        self,
        earlier: Sequence[DisclosedRows],
        *,
        client_of: NDArray[np.int64],
        withheld: Collection[str] = (),
    ) -> DisclosureDecision:
        """Which attributes are withheld, after reports that disclosed `earlier` sets of rows.

        `client_of` as for `Neighbourhood`; `withheld`: those that are for another reason. With an
        attribute its intersections are withheld.
        """
        fairness = self.spec.fairness
        neighbourhood = Neighbourhood(
            client_of, rows=fairness.minimum_group_size, clients=fairness.minimum_group_clients
        )
        hidden = set(withheld)
        while True:
            decided = self.decide(hidden)
            sets = disclosed_sets(self.population, decided, self.favourable, ordered=fairness.edges)
            found = conflicting(sets, earlier, neighbourhood)
            if not found:
                every = {one.key: one for own in sets.values() for one in own}
                return DisclosureDecision(frozenset(hidden), tuple(every.values()))
            hidden |= found
            hidden |= {
                name for name, parts in fairness.combinations.items() if hidden.intersection(parts)
            }

    @cached_property
    def _rules(self) -> dict[str, DisclosureRule]:
        return {name: attribute_rule(self.spec, name, self.groups) for name in self.groups}


def _near(fairness: Fairness) -> str:
    return (
        "suppressed: the groups, the rows held out or whose outcomes are favourable differ from "
        f"those of an earlier report on these data by fewer than {fairness.minimum_group_size} "
        f"rows or by rows of fewer than {fairness.minimum_group_clients} clients, which the two "
        "reports together would disclose; keep to its edges, categories, rules and split"
    )
