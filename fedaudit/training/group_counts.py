"""True and false positives and negatives per group of the sensitive attributes."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.federations.federation import Federation
from fedaudit.federations.outcomes import OutcomeRules, outcome_rules
from fedaudit.spec.fairness import Fairness
from fedaudit.training.data import StackData, take


@dataclass(frozen=True)
class _Rules:
    """One federation's rules, laid out for comparison with predictions, [clients, rows]."""

    favourable: NDArray[np.bool_]
    threshold: NDArray[np.float64]
    direction: NDArray[np.float64]
    """1 where the outcome is favourable from the threshold up, -1 from it down, 0 for `in`."""
    rule: NDArray[np.int64]
    """-1 where no rule speaks of the row."""


class GroupCounter:
    """Compares predictions with targets by the label rules, on the device."""

    def __init__(self, data: StackData, fairness: Fairness) -> None:
        self.attributes: tuple[str, ...] = tuple(fairness.sensitive)
        self._groups: list[int] = []
        self._codes: list[Tensor] = []
        if not self.attributes:
            return
        outcomes = [outcome_rules(part, fairness) for part in data.federations]
        rules = [
            _lay_out(part, rule) for part, rule in zip(data.federations, outcomes, strict=True)
        ]
        columns = data.columns
        self._favourable = columns([part.favourable for part in rules], data.device).long()
        self._threshold = columns([part.threshold for part in rules], data.device)
        self._direction = columns([part.direction for part in rules], data.device)
        self._rule = columns([part.rule for part in rules], data.device)
        self._scale = data.federations[0].target_scale
        self._members = _members(outcomes[0], len(data.federations[0].classes), data.device)
        for name in self.attributes:
            found = [part.attribute(name) for part in data.federations]
            self._groups.append(len(found[0].values))
            codes = columns([item.codes.astype(np.int64) for item in found], data.device)
            self._codes.append(codes.masked_fill(self._rule < 0, -1))

    def count(
        self, predictions: Tensor, index: Tensor, *, per_client: bool = False
    ) -> dict[str, NDArray[np.int64]]:
        """Attribute -> int64 [cells, groups, 4], or [cells, clients, groups, 4] per client.

        `predictions` [rows, cells, clients] for the clients at `index` [cells, clients]; the last
        axis counts true positives, false positives, true negatives, false negatives.
        """
        if not self.attributes:
            return {}
        outcome = self._outcomes(predictions, index)
        slots = index.numel() if per_client else index.shape[0]
        shape = tuple(index.shape) if per_client else (index.shape[0],)
        slot = torch.arange(slots, device=index.device).view(*shape, *[1] * (2 - len(shape)))
        counts = {}
        for name, groups, codes in zip(self.attributes, self._groups, self._codes, strict=True):
            code = take(codes, index)
            cell = (slot * groups + code) * 4 + outcome
            unscored = slots * groups * 4
            cell = torch.where(code < 0, unscored, cell)
            found = torch.bincount(cell.flatten(), minlength=unscored + 1)[:unscored]
            counts[name] = found.view(*shape, groups, 4).cpu().numpy()
        return counts

    def _outcomes(self, predictions: Tensor, index: Tensor) -> Tensor:
        """0 true positive, 1 false positive, 2 true negative, 3 false negative."""
        target = take(self._favourable, index)
        if self._members is not None:
            rule = take(self._rule, index).clamp_min(0)
            predicted = self._members[rule, predictions.long()]
        else:
            distance = predictions.double() * self._scale - take(self._threshold, index)
            predicted = distance * take(self._direction, index) >= 0
        return torch.where(predicted, 1 - target, 2 + target)


def _lay_out(federation: Federation, rules: OutcomeRules) -> _Rules:
    shape = federation.mask.shape
    rule = rules.rule_index.astype(np.int64)
    threshold = np.zeros(shape)
    direction = np.zeros(shape)
    for position, (op, value) in enumerate(zip(rules.ops, rules.values, strict=True)):
        rows = rule == position
        if op != "in":
            threshold[rows] = value
            direction[rows] = 1.0 if op == "ge" else -1.0
    return _Rules(
        favourable=rules.label(federation.raw_target),
        threshold=threshold,
        direction=direction,
        rule=rule,
    )


def _members(rules: OutcomeRules, classes: int, device: torch.device) -> Tensor | None:
    """Whether a class is favourable under a rule: bool [rules, classes]; None for regression."""
    if classes == 0:
        return None
    members = torch.zeros((len(rules.ops), classes), dtype=torch.bool)
    for position, favourable in enumerate(rules.values):
        members[position, list(favourable)] = True
    return members.to(device)
