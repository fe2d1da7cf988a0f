"""Held-out rows with their predictions: counts per group in rounds, and the figures of a report."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Floats32, Ints, Ints16, renumbered
from fedaudit.fairness.gaps import ClientScores, GroupScores
from fedaudit.fairness.joint_disclosure import PredictedRows
from fedaudit.fairness.ranking import ScoredOutcomes
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups import OutcomeRules, outcome_rules
from fedaudit.native.library import call, kernels, line
from fedaudit.spec.fairness import Fairness
from fedaudit.training.base.cell import Cell
from fedaudit.utility import (
    ConstantComparison,
    LossShape,
    MeasuredRows,
    RowLoss,
    compare_with_constant,
)

# Where a row is counted within its group: by its truth, times 2, and its prediction. Counts are
# given as true positives, false positives, true negatives, false negatives.
_GIVEN = (3, 1, 0, 2)
_DIRECTIONS = {"ge": 1.0, "le": -1.0}
"""On which side of the bound the outcome of a rule about a number is favourable."""


class GroupCounter:
    """Compares predictions with targets by the label rules.

    A row's count depends on its prediction only through favourable or not, so everything else is
    computed in advance, and counting is a look-up of small integers on the host. Without a
    favourable outcome nothing is counted, and every row of a group is scored.
    """

    def __init__(self, federations: Sequence[Federation], fairness: Fairness) -> None:
        self.attributes = fairness.attributes
        self._counts = np.concatenate([part.counts for part in federations])
        self._first = np.cumsum(self._counts) - self._counts
        self._target = None
        if federations[0].classes:
            self._target = np.concatenate([part.raw_target for part in federations])
        self._groups = [len(federations[0].attribute(name).values) for name in self.attributes]
        if not self.attributes:
            return
        rules = [outcome_rules(part, fairness) for part in federations]
        pairs = list(zip(federations, rules, strict=True))
        self._declared = bool(rules[0].ops)
        self._members = _members(rules[0], len(federations[0].classes))
        self._places = np.concatenate(
            [np.stack([_places(*pair, name) for name in self.attributes]) for pair in pairs], axis=1
        )
        """int16 [attributes, rows]: group * 4 + truth * 2; groups * 4 of a row that is not
        scored."""
        if self._declared:
            self._bounds = np.concatenate([_bounds(*pair) for pair in pairs], axis=1)

    @property
    def counts_rows(self) -> bool:
        """Whether predictions are looked at: there are attributes, and favourable outcomes."""
        return bool(self.attributes) and self._declared

    def rows(self, columns: Ints) -> "RowPlaces":
        """All rows of the clients at columns [clients]."""
        counts = self._counts[columns]
        ends = np.cumsum(counts)
        place = np.arange(counts.sum()) + np.repeat(self._first[columns] - (ends - counts), counts)
        return RowPlaces(place, np.repeat(np.arange(len(columns)), counts), len(columns))

    def count(
        self, predictions: NDArray[np.generic], columns: Ints, *, scored: Bools | None = None
    ) -> dict[str, Ints]:
        """Attribute -> int64 [cells, groups, 4].

        `predictions` [cells, clients, rows] for the clients at `columns` [cells, clients] of the
        stack's data, padded; the last axis counts true positives, false positives, true negatives,
        false negatives. Rows outside `scored` [cells, clients, rows] are not counted.
        """
        cells = len(columns)
        if not self.counts_rows:
            return self.nothing(cells)
        if scored is None and self._members is None and predictions.dtype == np.float32:
            compiled = self._compiled(line(predictions, np.float32), line(columns, np.int64))
            if compiled is not None:
                return compiled
        number = np.arange(predictions.shape[-1])
        within = number < self._counts[columns][..., np.newaxis]
        place = (self._first[columns][..., np.newaxis] + number)[within]
        own = None if scored is None else scored[within]
        slot = np.nonzero(within)[0]
        return self.count_rows(predictions[within], place, slot, slots=cells, scored=own)

    def count_rows(
        self,
        predictions: NDArray[np.generic],
        place: Ints,
        slot: Ints,
        *,
        slots: int,
        scored: Bools | None = None,
    ) -> dict[str, Ints]:
        """Attribute -> int64 [slots, groups, 4] of rows end to end.

        `predictions`, `place` (see `RowPlaces`), `slot` and `scored` are [rows].
        """
        if not self.counts_rows:
            return self.nothing(slots)
        factor, bound = self._bounds[:, place]
        if self._members is None:
            favourable = predictions * factor >= bound
        else:
            favourable = self._members[bound.astype(np.int64), predictions]
        counts: dict[str, Ints] = {}
        for position, (name, groups) in enumerate(zip(self.attributes, self._groups, strict=True)):
            places = self._places[position, place]
            if scored is not None:
                places = np.where(scored, places, np.int16(groups * 4))
            cells = groups * 4 + 2  # the last two: rows that are not scored
            at = slot * cells + places + favourable
            counts[name] = _given(np.bincount(at, minlength=slots * cells), slots, groups)
        return counts

    def nothing(self, slots: int) -> dict[str, Ints]:
        """What `count` returns where no row is counted."""
        sizes = zip(self.attributes, self._groups, strict=True)
        return {name: np.zeros((slots, size, 4), dtype=np.int64) for name, size in sizes}

    def _compiled(self, predictions: Floats32, columns: Ints) -> dict[str, Ints] | None:
        """Do what `count` does by the compiled kernel; None without it."""
        library = kernels()
        if library is None:
            return None
        sizes = line([groups * 4 + 2 for groups in self._groups], np.int64)
        found = np.zeros(len(columns) * int(sizes.sum()), dtype=np.int64)
        call(
            library.fedaudit_count,
            *(predictions, columns, *predictions.shape, self._first, self._counts, self._places),
            *(self._bounds, self._places.shape[1], len(sizes), sizes, found),
        )
        ends = np.cumsum(sizes) * len(columns)
        parts = zip(self.attributes, self._groups, np.split(found, ends[:-1]), strict=True)
        return {name: _given(part, len(columns), groups) for name, groups, part in parts}

    def codes(self, place: Ints) -> dict[str, tuple[int, Ints]]:
        """Attribute -> how many groups it has, and the group of each row that may be scored.

        Groups int64 [rows] of the rows at `place` [rows]; -1 for the other rows.
        """
        found: dict[str, tuple[int, Ints]] = {}
        for position, (name, groups) in enumerate(zip(self.attributes, self._groups, strict=True)):
            codes = self._places[position, place].astype(np.int64) // 4
            found[name] = groups, np.where(codes < groups, codes, -1)
        return found

    def right(self, predictions: NDArray[np.generic], place: Ints) -> Bools | None:
        """Where the predicted class [rows] is the true one; None for a number."""
        if self._target is None:
            return None
        right: Bools = predictions == self._target[place]
        return right


def _given(found: Ints, slots: int, groups: int) -> Ints:
    """The four counts of each group, [slots, groups, 4], out of those by place."""
    of_groups = found.reshape(slots, -1)[:, : groups * 4]
    # `take` rather than an index: its result is contiguous, as code that stores it requires.
    return of_groups.reshape(slots, groups, 4).take(_GIVEN, axis=-1)


class RowPlaces(NamedTuple):
    """Some clients' rows, client after client."""

    place: Ints
    """[rows]: where each is in the stack's data, all clients' rows end to end."""
    client: Ints
    """[rows], ascending: whose it is, as a place among these clients."""
    clients: int

    @property
    def by_client(self) -> list[slice]:
        """Which of these rows each client has."""
        ends = np.searchsorted(self.client, np.arange(self.clients), side="right").tolist()
        return [slice(first, end) for first, end in zip([0, *ends[:-1]], ends, strict=True)]


def _places(federation: Federation, rules: OutcomeRules, attribute: str) -> Ints16:
    """Where each row is counted if predicted unfavourable: [rows].

    Without rules every row of a group has a place, of which the group alone matters.
    """
    found = federation.attribute(attribute)
    scored = found.codes >= 0
    if rules.ops:
        scored &= rules.rule_index >= 0
    truth = rules.label(federation.raw_target)
    places = np.where(scored, found.codes * 4 + truth * 2, len(found.values) * 4)
    return places.astype(np.int16)


def _bounds(federation: Federation, rules: OutcomeRules) -> Floats:
    """What each row's prediction is multiplied by, and the bound from which it is favourable: [2,
    rows].

    That is the target's scale and the rule's bound less the target's declared mean, both with their
    signs reversed where the favourable side is below the bound. For a classifier: 0, and the rule's
    number.
    """
    rule = np.maximum(rules.rule_index, 0)
    if federation.classes:
        return np.stack([np.zeros(rule.shape), rule])
    direction = np.array([_DIRECTIONS[op] for op in rules.ops])
    values = np.asarray(rules.less(federation.target_mean).values, dtype=np.float64)
    bounds = values * direction
    return np.stack([federation.target_scale * direction[rule], bounds[rule]])


def _members(rules: OutcomeRules, classes: int) -> Bools | None:
    """Whether a class is favourable under a rule: [rules, classes]; None for regression."""
    if classes == 0:
        return None
    members = np.zeros((len(rules.ops), classes), dtype=np.bool_)
    for position, favourable in enumerate(rules.values):
        members[position, list(favourable)] = True
    return members


@dataclass(frozen=True)
class ScoredRows:
    """The predictions for one cell's validation clients, client after client: [rows] each."""

    predictions: NDArray[np.generic]
    """The predicted target (scaled), or the predicted class."""
    logits: Floats32 | None
    """Logits of the second of two classes; None for other targets."""
    values: Floats
    """The training loss of each row, before any root."""
    hypotheses: Ints | None
    """The hypothesis that made the prediction; None where there is only one."""
    scored: Bools | None
    """The rows that are scored; None for all of them."""

    def of(self, rows: Bools) -> "ScoredRows":
        """Those that `rows` [rows] selects."""
        given = {name: values for name, values in vars(self).items() if values is not None}
        return replace(self, **{name: values[rows] for name, values in given.items()})


def final_groups(
    counter: GroupCounter, rows: ScoredRows, places: RowPlaces
) -> dict[str, GroupScores]:
    """Scores of each client's groups, by attribute; `places`: where the rows lie in the data of
    the counter."""
    right = counter.right(rows.predictions, places.place)
    found = {}
    for name, (groups, codes) in counter.codes(places.place).items():
        counted = codes >= 0 if rows.scored is None else (codes >= 0) & rows.scored
        slot, shape = (places.client * groups + codes)[counted], (places.clients, groups)
        found[name] = GroupScores(
            rows=_by_group(slot, shape),
            correct=None if right is None else _by_group(slot[right[counted]], shape),
            loss=_by_group(slot, shape, rows.values[counted]),
        )
    return found


def _by_group(slot: Ints, shape: tuple[int, int], values: Floats | None = None) -> NDArray[Any]:
    """How many rows each slot has, or the sum of their values: [clients, groups]."""
    return np.bincount(slot, values, minlength=shape[0] * shape[1]).reshape(shape)


def predicted_rows(
    federation: Federation, fairness: Fairness, rows: ScoredRows, place: Ints
) -> dict[str, PredictedRows]:
    """Attribute -> truth, prediction and group of each row, straight from the data.

    `rows`, of which all are scored, lie at `place` [rows] of the federation's arrays. Labels come
    from the label rules themselves, in the target's own units, and groups from the attribute:
    `GroupCounter` with its tables is not involved, so that its counts can be checked against these
    rows.
    """
    if not fairness.attributes:
        return {}
    rules = outcome_rules(federation, fairness)
    rules = replace(rules, rule_index=rules.rule_index[place])
    truth = federation.raw_target[place]
    centred = rules.less(federation.target_mean)
    predicted = rows.predictions.astype(np.float64) * federation.target_scale
    judged = rules.rule_index >= 0 if rules.ops else np.ones(len(place), dtype=np.bool_)
    found = {}
    for name in fairness.attributes:
        codes = federation.attribute(name).codes[place]
        chosen = judged & (codes >= 0)
        found[name] = PredictedRows(
            groups=codes[chosen].astype(np.int64),
            truth=rules.label(truth)[chosen] if rules.ops else None,
            predicted=centred.label(predicted)[chosen] if rules.ops else None,
            true_classes=truth[chosen].astype(np.int64) if federation.classes else None,
            predicted_classes=predicted[chosen].astype(np.int64) if federation.classes else None,
        )
    return found


def against_constant(cell: Cell, rows: ScoredRows, place: Ints) -> ConstantComparison:
    """Compares a cell's model with the best constant on the same rows, as of `predicted_rows`."""
    federation = cell.federation
    # Clients without a scored row take no part in a loss over rows; numbered without gaps.
    _, client = renumbered(federation.client_of[place])
    measured = measured_rows(
        federation,
        cell.spec.fairness,
        place,
        client=client,
        predicted=rows.predictions,
        values=rows.values,
        scored=_scored(rows.logits, federation.target[place]),
        threshold=cell.threshold or 0.5,
    )
    if cell.spec.training.method.personalises:
        # each client's model may be its own constant
        measured = replace(measured, hypothesis=measured.client)
    elif rows.hypotheses is not None:
        measured = replace(measured, hypothesis=rows.hypotheses.astype(np.int64))
    return compare_with_constant(measured, _loss_shape(cell))


def measured_rows(
    federation: Federation,
    fairness: Fairness,
    place: Ints,
    *,
    client: Ints,
    predicted: NDArray[np.generic],
    values: Floats,
    scored: ScoredOutcomes | None,
    threshold: float,
) -> MeasuredRows:
    """The rows at `place` [rows] of a federation, all predicted by one hypothesis; arrays as in
    `MeasuredRows`, `predicted` as in `ScoredRows`.

    Outcomes are whether one is favourable where rules say what is, otherwise the classes.
    """
    rules = outcome_rules(federation, fairness)
    judged = np.ones(len(place), dtype=np.bool_)
    outcome = true_outcome = None
    if rules.ops:
        rules = replace(rules, rule_index=rules.rule_index[place])
        judged = rules.rule_index >= 0
        scaled = predicted.astype(np.float64) * federation.target_scale
        favourable = rules.less(federation.target_mean).label(scaled)
        outcome, true_outcome = (
            np.where(judged, one, -1).astype(np.int64)
            for one in (favourable, rules.label(federation.raw_target[place]))
        )
    elif federation.classes:
        outcome = predicted.astype(np.int64)
        true_outcome = federation.raw_target[place].astype(np.int64)
    return MeasuredRows(
        client=client.astype(np.int64),
        clients=int(client.max(initial=-1)) + 1,
        target=federation.target[place].astype(np.float64),
        predicted=predicted.astype(np.float64),
        values=values.astype(np.float64),
        outcome=outcome,
        true_outcome=true_outcome,
        hypothesis=np.zeros(len(client), dtype=np.int64),
        two_outcomes=bool(rules.ops) or len(federation.classes) == 2,
        scored=scored,
        threshold=threshold,
        groups={
            # As everywhere in the report, a row that no rule judges is in no group.
            one.name: (len(one.values), np.where(judged, one.codes[place], -1).astype(np.int64))
            for one in federation.attributes
        },
    )


def _scored(logits: Floats32 | None, target: Floats32) -> ScoredOutcomes | None:
    if logits is None or not np.isfinite(logits).all():
        return None  # nor is the loss finite
    return ScoredOutcomes(
        score=logits,
        probability=np.exp(-np.logaddexp(0.0, -logits.astype(np.float64))),
        outcome=target == 1,
    )


def _loss_shape(cell: Cell) -> LossShape:
    kind = cell.spec.training.loss
    row: RowLoss
    match kind:
        case "cross-entropy":
            row = "log"
        case "rmse" | "mse":
            row = "squared"
        case _:
            assert_never(kind)
    return LossShape(
        row=row,
        classes=len(cell.federation.classes),
        root_mean=cell.spec.training.root_mean,
        by_client=cell.validation_rows.by_client,
    )


def client_scores(cell: Cell, rows: ScoredRows, place: Ints) -> ClientScores:
    """The rows by their clients; arguments as of `predicted_rows`."""
    federation = cell.federation
    clients, own = renumbered(federation.client_of[place])
    correct = None
    if federation.classes:
        right = rows.predictions == federation.target[place]
        correct = np.bincount(own[right], minlength=len(clients))
    return ClientScores(clients, correct, np.bincount(own, minlength=len(clients)))
