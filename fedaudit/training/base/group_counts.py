"""True and false positives and negatives per group of the sensitive attributes."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
from fedaudit.federations.groups.favourable_outcomes import OutcomeRules, outcome_rules
from fedaudit.spec.fairness import Fairness

Number = TypeVar("Number", bound=np.generic)

# Where a row is counted within its group: by its truth, times 2, and its prediction. Counts are
# given as true positives, false positives, true negatives, false negatives.
_GIVEN = (3, 1, 0, 2)
_DIRECTIONS = {"ge": 1.0, "le": -1.0}
"""For rules about a number: on which side of the bound the outcome is favourable."""


class GroupCounter:
    """Compares predictions with targets by the label rules.

    A row's count depends on its prediction only through favourable or not, so everything else is
    computed in advance, and counting is a look-up of small integers on the host. Without a
    favourable outcome nothing is counted, and every row of a group is scored.
    """

    def __init__(self, federations: Sequence[Federation], fairness: Fairness) -> None:
        self.attributes = fairness.attributes
        self._federations = federations
        self.rows = federations[0].longest
        """Rows of the client that has the most."""
        if not self.attributes:
            return
        rules = [outcome_rules(part, fairness) for part in federations]
        pairs = list(zip(federations, rules, strict=True))
        self._declared = bool(rules[0].ops)
        self._members = _members(rules[0], len(federations[0].classes))
        self._groups = [len(federations[0].attribute(name).values) for name in self.attributes]
        self._places = np.concatenate(
            [np.stack([_places(*pair, name) for name in self.attributes]) for pair in pairs], axis=1
        )
        """int16 [attributes, clients, rows]: group * 4 + truth * 2; groups * 4 of a row that is
        not scored."""
        if self._declared:
            self._bounds = np.concatenate([_bounds(*pair) for pair in pairs], axis=1)
        self._kept: _Taken | None = None

    def count(
        self,
        predictions: NDArray[np.generic],
        columns: NDArray[np.int64],
        *,
        per_client: bool = False,
        scored: NDArray[np.bool_] | None = None,
    ) -> dict[str, NDArray[np.int64]]:
        """Attribute -> int64 [cells, groups, 4], or [cells, clients, groups, 4] per client.

        `predictions` [cells, clients, rows] for the clients at `columns` [cells, clients] of the
        stack's data; the last axis counts true positives, false positives, true negatives, false
        negatives. Rows outside `scored` [cells, clients, rows] are not counted.
        """
        shape = columns.shape if per_client else columns.shape[:1]
        if not self.attributes:
            return {}
        if not self._declared:
            sizes = zip(self.attributes, self._groups, strict=True)
            return {name: np.zeros((*shape, size, 4), dtype=np.int64) for name, size in sizes}
        slots = int(np.prod(shape))
        slot = np.arange(slots).reshape(*shape, *[1] * (3 - len(shape)))
        rows = min(predictions.shape[-1], self.rows)
        taken = self._taken(columns, rows)
        favourable = self._favourable(predictions[..., :rows], taken.bounds)
        counts: dict[str, NDArray[np.int64]] = {}
        for position, (name, groups) in enumerate(zip(self.attributes, self._groups, strict=True)):
            places = taken.places[position]
            if scored is not None:
                places = np.where(scored[..., :rows], places, np.int16(groups * 4))
            cells = groups * 4 + 2  # the last two: rows that are not scored
            place = slot * cells + places
            place += favourable
            found = np.bincount(place.ravel(order="K"), minlength=slots * cells)
            of_groups = found.reshape(*shape, cells)[..., : groups * 4]
            # `take` rather than an index: its result is contiguous, as code that stores it
            # requires.
            counts[name] = of_groups.reshape(*shape, groups, 4).take(_GIVEN, axis=-1)
        return counts

    def codes(self, columns: NDArray[np.int64]) -> dict[str, tuple[int, NDArray[np.int64]]]:
        """Attribute -> how many groups it has, and the group of each row that may be scored.

        Groups int64 [clients, rows] of the clients at `columns` [clients]; -1 for the other rows.
        """
        found = {}
        for position, (name, groups) in enumerate(zip(self.attributes, self._groups, strict=True)):
            codes = self._places[position, columns].astype(np.int64) // 4
            found[name] = groups, np.where(codes < groups, codes, -1)
        return found

    def right(
        self, predictions: NDArray[np.generic], columns: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """Where the predicted class [clients, rows] is the true one; None for a number."""
        if not self._federations[0].classes:
            return None
        target = np.concatenate([part.raw_target for part in self._federations])[columns]
        right: NDArray[np.bool_] = predictions == target[:, : predictions.shape[1]]
        return right

    def _taken(self, columns: NDArray[np.int64], rows: int) -> "_Taken":
        """The tables of the clients at columns; cached, because the next call often asks for
        them."""
        if len(columns) > 1 and (columns == columns[0]).all():
            columns = columns[:1]
        kept = self._kept
        if kept is None or kept.rows != rows or not np.array_equal(kept.columns, columns):
            kept = self._kept = _Taken(
                columns.copy(),
                rows,
                _rows_first(self._places[:, columns, :rows]),
                _rows_first(self._bounds[:, columns, :rows]),
            )
        return kept

    def _favourable(
        self, predictions: NDArray[np.generic], bounds: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        factor, bound = bounds
        if self._members is not None:
            found: NDArray[np.bool_] = self._members[bound.astype(np.int64), predictions]
            return found
        above: NDArray[np.bool_] = predictions * factor >= bound
        return above


class _Taken(NamedTuple):
    """Some clients, shared by all cells or separate for each."""

    columns: NDArray[np.int64]
    """[1 or cells, clients]"""
    rows: int
    places: NDArray[np.int16]
    """[attributes, 1 or cells, clients, rows]"""
    bounds: NDArray[np.float64]
    """[2, 1 or cells, clients, rows]"""


def _rows_first(values: NDArray[Number]) -> NDArray[Number]:
    """The same [..., rows] in the order in which predictions lie in memory: row by row.

    Arithmetic between arrays that lie alike takes them from end to end.
    """
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(values, -1, 1)), 1, -1)


def _places(federation: Federation, rules: OutcomeRules, attribute: str) -> NDArray[np.int16]:
    """Where each row is counted if predicted unfavourable: [clients, rows].

    Without rules every row of a group has a place, of which the group alone matters.
    """
    found = federation.attribute(attribute)
    scored = found.codes >= 0
    if rules.ops:
        scored &= rules.rule_index >= 0
    truth = rules.label(federation.raw_target)
    places = np.where(scored, found.codes * 4 + truth * 2, len(found.values) * 4)
    return places.astype(np.int16)


def _bounds(federation: Federation, rules: OutcomeRules) -> NDArray[np.float64]:
    """What each row's prediction is multiplied by, and the bound from which it is favourable: [2,
    clients, rows].

    That is the target's scale and the rule's bound, both with their signs reversed where the
    favourable side is below the bound. For a classifier: 0, and the rule's number.
    """
    rule = np.maximum(rules.rule_index, 0)
    if federation.classes:
        return np.stack([np.zeros(rule.shape), rule])
    direction = np.array([_DIRECTIONS[op] for op in rules.ops])
    bounds = np.asarray(rules.values, dtype=np.float64) * direction
    return np.stack([federation.target_scale * direction[rule], bounds[rule]])


def _members(rules: OutcomeRules, classes: int) -> NDArray[np.bool_] | None:
    """Whether a class is favourable under a rule: [rules, classes]; None for regression."""
    if classes == 0:
        return None
    members = np.zeros((len(rules.ops), classes), dtype=np.bool_)
    for position, favourable in enumerate(rules.values):
        members[position, list(favourable)] = True
    return members
