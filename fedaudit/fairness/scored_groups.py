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


@dataclass(frozen=True, eq=False)
class NumberedRows:
    """The scored rows, by their groups of some attributes, under one numbering."""

    population: Population
    client_of: NDArray[np.int64]
    """As for `Neighbourhood`."""


Numbered = Sequence[NumberedRows]
"""One way to number rows; perhaps differently for each attribute."""


@dataclass(frozen=True)
class DisclosureDecision:
    """Which attributes a report says nothing of, and what it discloses of the others."""

    withheld: frozenset[str]
    """Attributes whose groups are too near to those of earlier reports."""
    sets: Sequence[Sequence[DisclosedRows]]
    """What is to be remembered, under each of the numberings."""


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
        self, earlier: Sequence[tuple[Numbered, Sequence[DisclosedRows]]]
    ) -> DisclosureDecision:
        """Which attributes are withheld, after reports that disclosed sets of rows.

        `earlier`: ways to number the rows, and the sets that were disclosed under each. With an
        attribute its intersections are withheld.
        """
        fairness = self.spec.fairness
        hidden: set[str] = set()
        while True:
            decided = self.decide(hidden)
            found: set[str] = set()
            remembered = []
            for numbered, before in earlier:
                every: dict[tuple[str, str], DisclosedRows] = {}
                for one in numbered:
                    sets = disclosed_sets(
                        one.population, decided, self.favourable, ordered=fairness.edges
                    )
                    found |= conflicting(sets, before, self._neighbourhood(one.client_of))
                    every |= {each.key: each for own in sets.values() for each in own}
                remembered.append(tuple(every.values()))
            if not found:
                return DisclosureDecision(frozenset(hidden), remembered)
            hidden |= found
            hidden |= {
                name for name, parts in fairness.combinations.items() if hidden.intersection(parts)
            }

    def _neighbourhood(self, client_of: NDArray[np.int64]) -> Neighbourhood:
        fairness = self.spec.fairness
        return Neighbourhood(
            client_of, rows=fairness.minimum_group_size, clients=fairness.minimum_group_clients
        )

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
