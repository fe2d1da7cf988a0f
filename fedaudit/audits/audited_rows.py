"""The rows of an audited table: whose they are, what came about, what was predicted."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedaudit.audits.row_contents import RowContents
from fedaudit.fairness.joint_disclosure import Population
from fedaudit.fairness.scored_groups import Numbered, NumberedRows, ScoredGroups, clients_by_number
from fedaudit.federations.favourable_outcomes import OutcomeRules
from fedaudit.federations.federation import Federation
from fedaudit.spec.audits import AuditSpec, measuring_spec
from fedaudit.spec.experiment import ExperimentSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditedRows:
    """A table that was read for an audit. Confidential; arrays are [rows]."""

    audit: AuditSpec
    federation: Federation
    """Of one client: truth, groups and the numbers of the rows, without features."""
    rules: OutcomeRules
    predicted: NDArray[np.int64]
    """The predicted class, as the truth's."""
    scores: NDArray[np.float64] | None
    clients: NDArray[np.int64]
    """Whose each row is. Without a client key, one of equally large bundles of rows dealt out at
    random, which intervals count."""
    client_count: int | None
    """None without a client key."""
    left_out: int
    contents: tuple[RowContents, ...] = ()
    """By which the rows are known again in other files; none where that was not asked for, or the
    rows are too much alike."""

    @cached_property
    def spec(self) -> ExperimentSpec:
        """The audit as the code for groups and disclosure reads it."""
        return measuring_spec(self.audit)

    @cached_property
    def judged(self) -> NDArray[np.bool_]:
        """The rows for which a rule says what is favourable; no other one is scored."""
        found: NDArray[np.bool_] = self.rules.rule_index >= 0
        return found

    @cached_property
    def favourable(self) -> NDArray[np.bool_]:
        """Whether the true outcome is."""
        found: NDArray[np.bool_] = self.rules.label(self.federation.raw_target)
        return found

    def predicts_favourable(self, predicted: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether these predicted classes [rows] are."""
        found: NDArray[np.bool_] = self.rules.label(predicted.astype(np.float64))
        return found

    @cached_property
    def truth(self) -> NDArray[np.int64]:
        """The true class."""
        return np.asarray(self.federation.raw_target, dtype=np.int64)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """By attribute, the names of its groups."""
        return {one.name: one.values for one in self.federation.attributes}

    def codes(self, attribute: str) -> NDArray[np.int64]:
        """The group of each row; -1 for none."""
        return np.asarray(self.federation.attribute(attribute).codes, dtype=np.int64)

    @cached_property
    def scored(self) -> ScoredGroups:
        """The scored rows by their groups, for what is disclosed of them."""
        judged = self.judged
        population = Population(
            codes={name: self.codes(name)[judged] for name in self.groups},
            groups={name: len(values) for name, values in self.groups.items()},
            clients=self.clients[judged],
            row_ids=self._row_numbers[judged].astype(np.int64),
        )
        return ScoredGroups(
            spec=self.spec,
            groups=self.groups,
            population=population,
            favourable=self.favourable[judged],
        )

    @property
    def rows_of_file(self) -> Numbered:
        """The rows of `scored` by their places in the file."""
        client_of = clients_by_number(self._row_numbers, self.clients)
        return [NumberedRows(self.scored.population, client_of)]

    def by_contents(self, contents: RowContents) -> Numbered:
        """The rows of `scored` by what they hold."""
        # The numbers of rows in the file begin with 1.
        numbers = contents.numbers[self._row_numbers - 1]
        population = replace(self.scored.population, row_ids=numbers[self.judged])
        return [NumberedRows(population, clients_by_number(numbers, self.clients))]

    @property
    def _row_numbers(self) -> NDArray[np.int64]:
        numbers = self.federation.row_numbers
        if numbers is None:
            raise ValueError("rows of a table have numbers")
        return np.asarray(numbers, dtype=np.int64)

    @cached_property
    def all_right(self) -> bool:
        """Whether every scored prediction equals the truth."""
        return bool((self.predicted == self.truth)[self.judged].all())


def predicted_from(
    rules: OutcomeRules, scores: NDArray[np.float64], *, threshold: float
) -> NDArray[np.int64]:
    """The class, 0 or 1, that scores [rows] of the favourable outcome predict: that outcome from
    the threshold up."""
    second_is_favourable = rules.label(np.ones(len(scores)))
    return np.asarray((scores >= threshold) == second_is_favourable, dtype=np.int64)
