"""Which groups are disclosed where several attributes are reported beside each other.

A report's totals are exact, so one attribute's groups less another's, or an intersection's lines
together, may leave few rows (`differencing`). What the rules of each attribute alone let pass is
looked at here as one system: as long as few rows follow from it, one group more is suppressed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.differencing import Exposure, find_exposure, find_one_of
from fedaudit.fairness.disclosure import Disclosure, DisclosureRule
from fedaudit.fairness.population import Atoms, Population

MAX_CELLS = 1 << 20
"""Groups times atoms that are looked at together."""
MAX_WORK = 1 << 24
"""The same, times how often they are looked at: once for every group that is suppressed. Takes some
seconds."""

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
    nothing else speaks against; the others are suppressed, however large. Groups of few rows or
    clients are, and whatever would give any of them away.
    """
    found: dict[str, Disclosure] = {}
    kept = {}
    for name, rule in rules.items():
        allowed = None if beforehand is None else beforehand[name]
        rows, clients = population.sizes(name), population.clients_of(name)
        found[name] = rule.decide(rows, clients=clients, allowed=allowed)
        if allowed is not None:
            kept[name] = ~allowed & (rows > 0)
    shown = _shown_together(found, population, fixed={}, kept=kept)
    return {
        name: replace(one, shown=shown[name])
        if name in shown
        else replace(one, shown=np.zeros_like(one.shown), why=UNDECIDED)
        for name, one in found.items()
    }


def decide_parts_together(
    decided: Mapping[str, Disclosure],
    population: Population,
    part: NDArray[np.int64],
    *,
    parts: int,
    of: str,
) -> dict[str, Disclosure]:
    """Which cells [parts, groups] of each attribute are disclosed beside its groups.

    `decided`: the groups, as `decide_together` did. `part` [rows]: the part that each row of the
    population is in, below `parts`. `of`: what rows of a part are called.
    """
    cells = population.crossed(part, parts=parts)
    found = {}
    for name, groups in decided.items():
        shape = parts, len(groups.rows)
        clients = cells.clients_of(name).reshape(shape)
        enough = clients >= groups.rule.minimum_group_clients
        own = groups.of_parts(cells.sizes(name).reshape(shape), of=of)
        found[name] = replace(own, shown=own.shown & enough)
    flat = {
        name: replace(one, rows=one.rows.ravel(), shown=one.shown.ravel())
        for name, one in found.items()
    }
    shown = _shown_together(flat, cells, fixed=decided, kept={})
    return {
        name: replace(one, shown=shown[name].reshape(one.shown.shape))
        if name in shown
        else replace(one, shown=np.zeros_like(one.shown), why=UNDECIDED)
        for name, one in found.items()
    }


def _shown_together(
    found: Mapping[str, Disclosure],
    population: Population,
    *,
    fixed: Mapping[str, Disclosure],
    kept: Mapping[str, NDArray[np.bool_]],
) -> Mapping[str, NDArray[np.bool_]]:
    """What is shown of each attribute that could be decided; without those named last otherwise."""
    names = _decidable(found, population)
    while True:
        system = _System(
            population.atoms(names),
            {name: found[name] for name in names},
            fixed={name: fixed[name] for name in names if name in fixed},
            kept={name: kept[name] for name in names if name in kept},
        )
        shown = system.suppress_exposed()
        if shown is not None:
            return shown
        names.pop()


def _decidable(found: Mapping[str, Disclosure], population: Population) -> list[str]:
    """The attributes, from the first, that can be looked at together."""
    names = list(found)
    while names:
        groups = sum(found[name].rows.size for name in names)
        if groups * len(population.atoms(names)) <= MAX_CELLS:
            break
        names.pop()
    return names


@dataclass
class _Total:
    """Rows whose figures are shown together."""

    members: NDArray[np.bool_]
    """[atoms]"""
    rows: int
    group: tuple[str, int] | None
    """The attribute and the place of a group that need not be shown; None for what is shown in any
    case."""


class _System:
    """The totals of some attributes over the same rows."""

    def __init__(
        self,
        atoms: Atoms,
        found: Mapping[str, Disclosure],
        *,
        fixed: Mapping[str, Disclosure],
        kept: Mapping[str, NDArray[np.bool_]],
    ) -> None:
        """`fixed`: groups beside whose figures those of `found`, which are parts of them, stand.
        `kept` [groups]: those that may not follow, however large."""
        self._atoms = atoms
        self._found = found
        self._order = {name: place for place, name in enumerate(found)}
        self._shown = {name: one.shown.copy() for name, one in found.items()}
        rules = [one.rule for one in found.values()]
        self._rows = max((rule.minimum_group_size for rule in rules), default=1)
        self._clients = max((rule.minimum_group_clients for rule in rules), default=1)
        self._fixed = [
            _Total(self._lying_in(name, one, group), int(one.rows[group]), None)
            for name, one in fixed.items()
            for group in np.flatnonzero(one.shown & (one.rows > 0)).tolist()
        ]

        members = [atoms.members(name, np.flatnonzero(own)) for name, own in kept.items()]
        self._kept = np.concatenate([np.zeros((0, len(atoms)), dtype=np.bool_), *members])

    def _lying_in(self, name: str, groups: Disclosure, group: int) -> NDArray[np.bool_]:
        """The atoms of a group of which this system has the parts."""
        codes = self._atoms.codes[name]
        lying: NDArray[np.bool_] = (codes >= 0) & (codes % len(groups.rows) == group)
        return lying

    def suppress_exposed(self) -> Mapping[str, NDArray[np.bool_]] | None:
        """By attribute, what is shown once no few rows follow any more; None after too much work.

        One group after the other is suppressed. Of the groups that give few rows away, the
        smallest: so an intersection yields to its parts. Of several, that of the attribute named
        last.
        """
        work = 0
        while len(totals := self._totals()) > len(self._fixed):
            work += len(totals) * len(self._atoms)
            if work > MAX_WORK:
                return None
            exposure = self._exposure(totals)
            if exposure is None:
                break
            by = [total for total, used in zip(totals, exposure.by, strict=True) if used]
            name, place = min(
                (total.rows, -self._order[total.group[0]], total.group)
                for total in by
                if total.group is not None
            )[2]
            self._shown[name][place] = False
        return self._shown

    def _exposure(self, totals: list[_Total]) -> Exposure | None:
        """Few rows that follow, or a group that may not."""
        members = np.stack([total.members for total in totals])
        removable = np.array([total.group is not None for total in totals])
        few = find_exposure(
            members,
            self._atoms,
            removable=removable,
            targets=np.concatenate([*self._suppressed(), *self._missing()]),
            rows=self._rows,
            clients=self._clients,
        )
        return few or find_one_of(self._kept, members, removable=removable)

    def _totals(self) -> list[_Total]:
        """What is shown, and beside it everybody's figures."""
        totals = list(self._fixed)
        for name, one in self._found.items():
            places = np.flatnonzero(self._shown[name] & (one.rows > 0))
            members = self._atoms.members(name, places)
            totals += [
                _Total(own, int(one.rows[place]), (name, place))
                for own, place in zip(members, places.tolist(), strict=True)
            ]
        if len(totals) > len(self._fixed):
            everybody = np.ones(len(self._atoms), dtype=np.bool_)
            totals.append(_Total(everybody, int(self._atoms.rows.sum()), None))
        return totals

    def _missing(self) -> list[NDArray[np.bool_]]:
        """By attribute, the rows that have no value of it: [1, atoms]."""
        return [(self._atoms.codes[name] < 0)[np.newaxis] for name in self._found]

    def _suppressed(self) -> list[NDArray[np.bool_]]:
        """By attribute, the groups that have rows and are not shown: [count, atoms]."""
        return [
            self._atoms.members(name, np.flatnonzero(~self._shown[name] & (one.rows > 0)))
            for name, one in self._found.items()
        ]
