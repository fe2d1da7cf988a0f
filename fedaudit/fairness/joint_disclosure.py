"""Which groups are disclosed where several attributes are reported beside each other.

A report's totals are exact, so one attribute's groups less another's, or an intersection's lines
together, may leave few rows (`differencing`). What the rules of each attribute alone let pass is
looked at here as one system: as long as few rows follow from it, one group more is suppressed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.differencing import find_exposure
from fedaudit.fairness.disclosure import Disclosure, DisclosureRule
from fedaudit.fairness.population import Atoms, Population

MAX_CELLS = 1 << 22
"""Groups times atoms that are looked at together, which takes seconds."""

UNDECIDED = (
    "suppressed: the attributes before it and its own groups are too many to be sure that no "
    "difference between them leaves few rows"
)


def decide_together(
    rules: Mapping[str, DisclosureRule],
    population: Population,
    *,
    beforehand: Mapping[str, NDArray[np.bool_]] | None = None,
) -> dict[str, Disclosure]:
    """Which groups of each attribute are disclosed, from the rows of all attributes together.

    `rules`: by attribute, the most important first: where groups are too many to be decided
    together, those of the last attributes are suppressed. `beforehand`: by attribute, [groups] that
    may be disclosed for other reasons; the others are suppressed. Groups of few rows or clients
    are, and whatever would give them away.
    """
    found: dict[str, Disclosure] = {}
    for name, rule in rules.items():
        found[name] = rule.decide(population.sizes(name), clients=population.clients_of(name))
        if beforehand is not None:
            found[name] = replace(found[name], shown=found[name].shown & beforehand[name])
    within, atoms = _decidable(found, population)
    system = _System(atoms, {name: found[name] for name in within})
    system.suppress_exposed()
    return {
        name: replace(one, shown=system.shown[name])
        if name in within
        else replace(one, shown=np.zeros_like(one.shown), why=UNDECIDED)
        for name, one in found.items()
    }


def _decidable(
    found: Mapping[str, Disclosure], population: Population
) -> tuple[Sequence[str], Atoms]:
    """The attributes, from the first, that can be looked at together, and their atoms."""
    names = list(found)
    while names:
        atoms = population.atoms(names)
        groups = sum(len(found[name].rows) for name in names)
        if groups * len(atoms) <= MAX_CELLS:
            return names, atoms
        names.pop()
    return [], population.atoms(())


@dataclass
class _Total:
    """A group that is shown."""

    members: NDArray[np.bool_]
    """[atoms]"""
    rows: int
    attribute: str
    place: int


class _System:
    """The totals of some attributes over the same rows."""

    def __init__(self, atoms: Atoms, found: Mapping[str, Disclosure]) -> None:
        self._atoms = atoms
        self._found = found
        self.shown = {name: one.shown.copy() for name, one in found.items()}
        rules = [one.rule for one in found.values()]
        self._rows = max((rule.minimum_group_size for rule in rules), default=1)
        self._clients = max((rule.minimum_group_clients for rule in rules), default=1)

    def suppress_exposed(self) -> None:
        """Suppresses one group after the other until no few rows follow any more.

        Of the groups that give them away, the smallest: so an intersection yields to its parts. Of
        several, that of the attribute named last.
        """
        order = list(self._found)
        while totals := self._totals():
            members = [total.members for total in totals]
            if any(len(one) for one in self._suppressed()):
                # Beside a suppressed group everybody's figures are taken to be known.
                members.append(np.ones(len(self._atoms), dtype=np.bool_))
            exposure = find_exposure(
                np.stack(members),
                self._atoms,
                targets=np.concatenate(self._suppressed()),
                rows=self._rows,
                clients=self._clients,
            )
            if exposure is None:
                return
            by = [total for total, used in zip(totals, exposure.by, strict=False) if used]
            least = min(by, key=lambda total: (total.rows, -order.index(total.attribute)))
            self.shown[least.attribute][least.place] = False

    def _totals(self) -> list[_Total]:
        totals = []
        for name, one in self._found.items():
            places = np.flatnonzero(self.shown[name] & (one.rows > 0))
            members = self._atoms.members(name, places)
            totals += [
                _Total(own, int(one.rows[place]), name, place)
                for own, place in zip(members, places.tolist(), strict=True)
            ]
        return totals

    def _suppressed(self) -> list[NDArray[np.bool_]]:
        """By attribute, the groups that have rows and are not shown: [count, atoms]."""
        return [
            self._atoms.members(name, np.flatnonzero(~self.shown[name] & (one.rows > 0)))
            for name, one in self._found.items()
        ]
