"""The mechanism `record-personalised`: every record is sampled as often as its budget allows.

One record's clipped gradient moves the sum of a step by at most c where the record joins or leaves.
Steps depend on the client's coin, and rounds are composed
(`fedaudit.privacy.accounting.two_stage`). Rates follow from the record's own budget and
public numbers, so they do not affect other records' rates. The baselines' rates and noise also
follow from how many records a client has, or from others' budgets: a proof would have to treat
these as public, so their figures are called heuristic.

Whether ledger entries about records are consistent with a spec's public numbers.

Budgets are not part of the evidence: the events of the entries' groups of records are accepted if
they have the spec's public numbers, and epsilons are computed from them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, assert_never

import numpy as np

from fedaudit.privacy.accounting.epsilon_tables import (
    RepeatedEvent,
    renyi_epsilons,
    repeated_event_from_dict,
)
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    CostKind,
    GuaranteeKind,
    MechanismParameters,
    Observer,
    TwoStage,
    unbounded_inputs,
)
from fedaudit.privacy.accounting.two_stage import TwoStageRun, calibrated_run
from fedaudit.privacy.guarantees.guarantee import (
    UPDATES_AS_THEY_WERE,
    Guarantee,
    how_budgets_are_kept,
    no_guarantee,
    what_follows_from_the_seed,
    what_the_server_sees,
)
from fedaudit.privacy.mechanisms.base import (
    EpsilonMechanism,
    Epsilons,
    MechanismFacts,
    NoiseOrigin,
    Sizes,
)
from fedaudit.privacy.planning.cost_projection import NO_NOISE, Projection, unbounded_projection
from fedaudit.privacy.planning.plan import PlanAccountant, SpendingPlan
from fedaudit.privacy.records.record_plans import TREATED_AS_PUBLIC, RecordPlan
from fedaudit.privacy.records.record_use import (
    RECORD_ADJACENCY,
    RECORD_OBSERVERS,
    client_rate,
    epsilon_terms,
    record_spending,
    uncalibrated_run,
)
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import RecordPersonalised

_NOTHING_HIDDEN = (
    "Training without noise, to compare with: nothing bounds what the server, or anyone who "
    "sees the model, learns about a record."
)
_NO_COST_OF_GROUPS = "who takes part in a round is secret, and each record spends its own budget"
_NO_COST_WITHOUT_NOISE = f"{NO_NOISE}, and no group has a cost that is counted"


@dataclass(frozen=True)
class RecordPersonalisedMechanism(EpsilonMechanism):
    """Records are charged by groups of budgets: for every round against an observer of the final
    model, and for the rounds of the busiest client against the server."""

    facts: ClassVar[MechanismFacts] = MechanismFacts(
        name="record-personalised",
        label="budgets of records",
        description="Every record has its own budget. Counted as epsilon.",
        applied_by="local-steps",
        noise_law="gaussian",
        unit="record",
        subject_kind="record_group",
        observers=RECORD_OBSERVERS,
        cost_kinds=("epsilon", "unbounded"),
        noise_origin=NoiseOrigin(
            registry_model="Federated",
            registry_details=(
                "Data stay with the clients. A client is trusted with its records, and adds the "
                "noise."
            ),
            statement="Each client adds noise, and is trusted with its own records.",
            noised="a noised step of a client",
        ),
        unbounded=NO_NOISE,
        unbounded_release="without noise",
    )

    privacy: RecordPersonalised

    @property
    def guarantee_kind(self) -> GuaranteeKind:
        """Formal with exact rates and no baseline; the baseline `privacy-free` has no guarantee."""
        if self._is_without_noise:
            return "none"
        proven = self.privacy.baseline is None and self._rates_are_exact
        return "formal" if proven else "heuristic"

    @property
    def uncovered_model(self) -> str | None:
        """None with exact rates and no baseline."""
        if self._is_without_noise:
            return (
                "the baseline privacy-free adds no noise, so nothing bounds what the model "
                "discloses; leave privacy.baseline out"
            )
        if self.privacy.baseline is not None:
            return (
                f"the baseline {self.privacy.baseline} takes facts of the data for known, and no "
                "theorem covers the model without them; leave privacy.baseline out"
            )
        if not self._rates_are_exact:
            return (
                "rates by curve-fit may pass the records' budgets; set privacy.inversion to exact"
            )
        return None

    @property
    def cost_kind(self) -> CostKind:
        """An epsilon with a delta, except for the baseline without noise."""
        return "unbounded" if self._is_without_noise else "epsilon"

    @property
    def no_client_costs(self) -> str | None:
        """Records pay, and clients do not; without noise no one pays."""
        return _NO_COST_WITHOUT_NOISE if self._is_without_noise else _NO_COST_OF_GROUPS

    adjacency: ClassVar[Adjacency] = RECORD_ADJACENCY
    """Neighbours differ by the presence of one record."""

    def noise_multiplier(self) -> float | str:
        """The noise that a record in every batch requires to stay within `epsilon_max`.

        The noise of other baselines follows from the data and would reveal part of them: a client's
        number of records, or the smallest budget.
        """
        match self.privacy.baseline:
            case None | "filter":
                return self._run_at_rate_one().noise_multiplier
            case "privacy-free":
                return NO_NOISE
            case "uniform" | "strong-for-all" | "dropout" as baseline:
                return (
                    f"the noise of the baseline {baseline} is each client's own and follows from "
                    "the data"
                )
            case other:
                assert_never(other)

    def inputs(
        self, *, n: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> MechanismParameters:
        """The events of each group of records, which include the noise of every client and follow
        from the budgets."""
        if self._is_without_noise:
            return unbounded_inputs(self.facts.name, n=n, noise=self.privacy.noise)
        return super().inputs(n=n, plan=plan)

    accountant: ClassVar[PlanAccountant] = "two-stage"
    """That of both coins."""

    @property
    def shared_noise(self) -> tuple[float | None, float | None]:
        """Only the clip: noise is each client's own."""
        return None, self.privacy.clip

    def spending_plan(
        self, *, training_clients: int, names: Sequence[str] = (), records: RecordPlan | None = None
    ) -> SpendingPlan | None:
        """The plan of the records; None for the baseline without noise."""
        if self._is_without_noise:
            return None
        if records is None:
            raise ValueError("a plan for records needs how they are used (record_use)")
        rounds = self.spec.training.rounds
        found = record_spending(records, rounds=rounds, delta=self.privacy.delta)
        if self._keeps_budgets and found.overspent(rounds):
            raise RuntimeError(f"{found.overspent(rounds)} records would pass their budgets")
        return SpendingPlan(
            subject_kind=self.facts.subject_kind,
            subjects=tuple(group.name for group in found.groups),
            delta=self.privacy.delta,
            adjacency=self.adjacency,
            accountant=self.accountant,
            steps=rounds,
            lines=found.lines(),
            records=found,
        )

    def project_cost(
        self, *, n: int, training_clients: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> Projection:
        """Project costs from the plan, or from public numbers alone as far as these suffice."""
        if self._is_without_noise:
            return unbounded_projection(NO_NOISE)
        rounds, privacy = self.spec.training.rounds, self.privacy
        leaves = "a record leaves before the round that would pass its"
        then = leaves if privacy.baseline == "filter" else "none of them ends the run"
        most: dict[Observer, float] | str
        if plan is not None:
            most = {observer: plan.largest(observer, rounds) for observer in plan.observers}
        elif isinstance(self.noise_multiplier(), str):
            from_data = f"the noise of the baseline {privacy.baseline} follows from the data"
            most = f"{from_data}, which are not loaded yet"
        else:
            # That of a record in every batch: no record spends more.
            event = self._run_at_rate_one().event(1.0)
            most = {
                one: float(renyi_epsilons(event, rounds, epsilon_terms(one, privacy.delta)))
                for one in RECORD_OBSERVERS
            }
        return self.projection(most, ends=f"budgets are the records' own, and {then}")

    def guarantee(
        self, *, n: int, epsilons: Epsilons = (), planned: Epsilons = (), layers: Sizes = ()
    ) -> Guarantee:
        """The guarantee for records with their own epsilon; none for the baseline without noise."""
        if self._is_without_noise:
            name, unit = self.facts.name, self.facts.unit
            return no_guarantee(name, unit=unit, statement=_NOTHING_HIDDEN)
        return super().guarantee(n=n, epsilons=epsilons, planned=planned, layers=layers)

    def sentences(self) -> list[str]:
        """State the guarantee, against the server too, because clients add the noise themselves."""
        privacy, rate = self.privacy, self._client_rate
        label = "Formal" if self.guarantee_kind == "formal" else "Heuristic"
        found = [
            f"{label}. The models of all rounds together satisfy (epsilon, delta)-differential "
            f"privacy, delta = {privacy.delta:g}, for every record with its own epsilon, "
            "between data that differ by that record being there or not (adjacency "
            "add-or-remove-one in the zero-out sense: the record contributes nothing, and "
            "denominators stay as they are).",
            *what_follows_from_the_seed(self.spec),
            "A client adds the noise itself, in every local step, so this holds against the server "
            f"too. {what_the_server_sees(rate)}",
            how_budgets_are_kept(privacy, rate),
        ]
        if privacy.baseline is not None:
            public = "; ".join(TREATED_AS_PUBLIC[privacy.baseline])
            found.append(
                f"This is the baseline {privacy.baseline}. Its figures are a theorem only where "
                f"the following is known to everybody anyway: {public}."
            )
        elif privacy.inversion == "curve-fit":
            found.append(
                "Rates are the authors' fit inverted, which lets small budgets be passed; the "
                "epsilons reported are the accountant's own and not the fit's."
            )
        found.append(
            "A record is all that is covered: somebody with many records is protected less. Which "
            "clients there are, how many records have which budget, and how many are left out, is "
            "disclosed without noise."
        )
        return found

    def limits(self) -> list[str]:
        """What the server's figure means, and to whom the budgets belong."""
        if self._is_without_noise:
            return [UPDATES_AS_THEY_WERE]
        found, distribution = [], self.privacy.budgets.distribution
        if self._client_rate < 1:
            found.append(
                "The server's figure is by the rounds of the client that took part most, which "
                "reveals how often that was; the figure for the models takes the clients' coins as "
                "secret."
            )
        if distribution is not None:
            found.append(
                f"The budgets were drawn from the distribution {distribution} with the "
                "experiment's seed; no person chose them."
            )
        return found

    @property
    def _is_without_noise(self) -> bool:
        return self.privacy.baseline == "privacy-free"

    @property
    def _keeps_budgets(self) -> bool:
        """Whether no record may spend more than its budget against the final model."""
        match self.privacy.baseline:
            case None:
                return self._rates_are_exact
            case "strong-for-all" | "dropout" | "filter":
                return True
            case "uniform" | "privacy-free":
                return False
            case other:
                assert_never(other)

    @property
    def _rates_are_exact(self) -> bool:
        """Whether rates follow from budgets by the accountant itself; baselines do not ask."""
        return self.privacy.inversion == "exact"

    @property
    def _client_rate(self) -> float:
        return client_rate(self.spec.training.cohort)

    def _run_at_rate_one(self) -> TwoStageRun:
        """The event of a record in every batch."""
        return calibrated_run(self.privacy.epsilon_max, uncalibrated_run(self.spec))


_DIGITS = 1e-6
"""Relative: another library or machine may round differently, by far less."""
_MAX_EVENTS = 5000
"""Repeated events of all groups. Each is composed, and evidence may come from anybody."""
_NOT_COURSES = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


class TooManyEventsError(Exception):
    """The entries' events would take too long to compose, although nothing is known to be wrong."""


def record_courses(
    spec: ExperimentSpec, inputs: MechanismParameters, parameters: int, names: Sequence[str]
) -> list[tuple[RepeatedEvent, ...]] | None:
    """The repeated events of each group of records; None where they contradict the spec's public
    numbers, or no run with these can have an epsilon.

    Raises TooManyEventsError.
    """
    privacy = spec.privacy
    if not isinstance(privacy, RecordPersonalised):
        return None
    mechanism = RecordPersonalisedMechanism(spec, privacy)
    public = mechanism.public_inputs(n=parameters)
    if mechanism.cost_kind != "epsilon" or replace(inputs, event=None) != public:
        return None
    try:
        noise = mechanism.noise_multiplier()
    except InvalidInputError:
        return None
    try:
        kept = json.loads(inputs.event or "")
        if len(kept) != len(names):
            return None
        if sum(len(kept[name]) for name in names) > _MAX_EVENTS:
            raise TooManyEventsError(
                f"the entries have more than {_MAX_EVENTS} events, which take too long to compose "
                "anew"
            )
        repeated_events = [tuple(map(repeated_event_from_dict, kept[name])) for name in names]
    except _NOT_COURSES:
        return None
    run = uncalibrated_run(spec)
    leaves = privacy.baseline == "filter"
    fits = all(
        some and all(_fits(run, repeated, noise=noise, leaves=leaves) for repeated in some)
        for some in repeated_events
    )
    return repeated_events if fits else None


def _fits(run: TwoStageRun, repeated: RepeatedEvent, *, noise: float | str, leaves: bool) -> bool:
    """Whether a repeated event has the spec's public numbers.

    `noise`: as the mechanism publishes it; noise that follows from the data is not among these
    numbers. `leaves`: whether records may leave before as many rounds are charged as were
    planned. Earlier ledgers do not say that the others leave then.
    """
    event = repeated.event
    if not isinstance(event, TwoStage):
        return False
    if (event.client_rate, event.steps) != (run.client_rate, run.steps):
        return False
    lasts = repeated.max_compositions
    if lasts not in (None, run.rounds) and (not leaves or lasts > run.rounds):
        return False
    if isinstance(noise, str):
        return True
    return bool(np.isclose(event.noise_multiplier, noise, rtol=_DIGITS, atol=0))
