"""True and false positives and negatives per group of the sensitive attributes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.federation import Federation
from fedaudit.federations.outcomes import OutcomeRules, outcome_rules
from fedaudit.spec.fairness import Fairness

_TRUE_POSITIVE, _FALSE_POSITIVE, _TRUE_NEGATIVE, _FALSE_NEGATIVE = range(4)


class GroupCounter:
    """Compares predictions with targets by the label rules.

    What a row counts as depends on its prediction in one way only, favourable or not, so both
    answers are worked out beforehand: `_cells` [clients, 2 per attribute, rows] hold the group and
    the kind of count for an unfavourable and a favourable prediction, -1 where it is not scored.
    Counting is a look-up of small integers, done on the host.
    """

    def __init__(self, federations: Sequence[Federation], fairness: Fairness) -> None:
        self.attributes: tuple[str, ...] = tuple(fairness.sensitive)
        if not self.attributes:
            return
        rules = [outcome_rules(part, fairness) for part in federations]
        pairs = list(zip(federations, rules, strict=True))
        self._scale = federations[0].target_scale
        self._members = _members(rules[0], len(federations[0].classes))
        self._groups = [len(federations[0].attribute(name).values) for name in self.attributes]
        self._cells = np.concatenate(
            [
                np.stack([cell for name in self.attributes for cell in _cells(*pair, name)], axis=1)
                for pair in pairs
            ]
        )
        self._bounds = np.concatenate([np.stack(_bounds(*pair), axis=1) for pair in pairs])

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
        slots = int(np.prod(shape))
        slot = np.arange(slots).reshape(*shape, *[1] * (3 - len(shape)))
        counts: dict[str, NDArray[np.int64]] = {}
        if not self.attributes:
            return counts
        rows = min(predictions.shape[-1], self._cells.shape[-1])
        cells = self._cells[columns]
        bounds = self._bounds[columns][..., :rows]
        favourable = self._favourable(predictions[..., :rows], bounds)
        for position, (name, groups) in enumerate(zip(self.attributes, self._groups, strict=True)):
            kinds = cells[:, :, 2 * position : 2 * position + 2, :rows]
            cell = np.where(favourable, kinds[:, :, 1], kinds[:, :, 0])
            if scored is not None:
                cell[~scored[..., :rows]] = -1
            place = np.where(cell < 0, slots * groups * 4, slot * (groups * 4) + cell)
            found = np.bincount(place.ravel(), minlength=slots * groups * 4 + 1)[:-1]
            counts[name] = found.reshape(*shape, groups, 4)
        return counts

    def _favourable(
        self, predictions: NDArray[np.generic], bounds: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        if self._members is not None:
            found: NDArray[np.bool_] = self._members[bounds[:, :, 0].astype(np.int64), predictions]
            return found
        raw = predictions.astype(np.float64) * self._scale
        return (raw - bounds[:, :, 0]) * bounds[:, :, 1] >= 0


def _cells(
    federation: Federation, rules: OutcomeRules, attribute: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group and kind of count of each row, predicted unfavourable and favourable."""
    truth = rules.label(federation.raw_target)
    codes = federation.attribute(attribute).codes.astype(np.int64)
    scored = (codes >= 0) & (rules.rule_index >= 0)
    unfavourable = codes * 4 + np.where(truth, _FALSE_NEGATIVE, _TRUE_NEGATIVE)
    favourable = codes * 4 + np.where(truth, _TRUE_POSITIVE, _FALSE_POSITIVE)
    return np.where(scored, unfavourable, -1), np.where(scored, favourable, -1)


def _bounds(
    federation: Federation, rules: OutcomeRules
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each row's rule: the bound, and 1 where favourable lies above it, -1 below.

    For a classifier: the rule's number, and 0.
    """
    rule = np.maximum(rules.rule_index, 0)
    if federation.classes:
        return rule.astype(np.float64), np.zeros(rule.shape)
    direction = np.array([1.0 if op == "ge" else -1.0 for op in rules.ops])
    return np.asarray(rules.values, dtype=np.float64)[rule], direction[rule]


def _members(rules: OutcomeRules, classes: int) -> NDArray[np.bool_] | None:
    """Whether a class is favourable under a rule: [rules, classes]; None for regression."""
    if classes == 0:
        return None
    members = np.zeros((len(rules.ops), classes), dtype=np.bool_)
    for position, favourable in enumerate(rules.values):
        members[position, list(favourable)] = True
    return members
