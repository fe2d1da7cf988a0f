"""An experiment before it runs: its noise, limits, who is charged, what it can cost, is stored."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, assert_never

import numpy as np

from fedaudit.federations.federation import Federation
from fedaudit.federations.split import training_clients
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.networks.parameter_files import ParameterFileError, decode_tensors, hypotheses_of
from fedaudit.networks.shape import network_shape
from fedaudit.number_text import at_most
from fedaudit.privacy.count_release import BUDGET_DELTA
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.mechanisms.spec_doubts import spec_doubts
from fedaudit.privacy.planning.cost_projection import Projection, theorem_sum
from fedaudit.privacy.unit_key import unit_key
from fedaudit.reports.sections.held_out_privacy import NO_NOISE
from fedaudit.runs.run import cell_ledger_context
from fedaudit.spec.errors import FieldError, InvalidInputError, error_at, raise_errors
from fedaudit.spec.experiment import ExperimentSpec, document_hash
from fedaudit.spec.models import ArtifactStart
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.privacy import NoisedUpdates
from fedaudit.stored import Cost, LeakageTerms
from fedaudit.training.base.cell import Cell


def with_solved_noise(spec: ExperimentSpec, federation: Federation) -> ExperimentSpec:
    """The spec with the smallest noise multiplier that meets its target; a spec without a target,
    or with a multiplier that meets it, as it is.

    Raises InvalidInputError where no multiplier meets the target, or the one that is given does
    not. The numbers of the data are those of training clients, features and classes.
    """
    privacy = spec.privacy
    if not isinstance(privacy, NoisedUpdates) or privacy.target is None:
        return spec
    shape = network_shape(spec.model, features=federation.width, classes=len(federation.classes))
    figure = mechanism_of(spec).targeted_figure(
        n=shape.n, training_clients=training_clients(federation.clients, spec.federation)
    )
    assert figure is not None, "a mechanism with a target has its figure"
    asked, noise = privacy.target.amount, privacy.noise_multiplier
    if privacy.is_unsolved:
        document = spec.model_dump(mode="json")
        document["privacy"]["noise_multiplier"] = figure.least_noise(asked)
        try:
            return parse_spec(document)
        except InvalidInputError as error:
            # What the multiplier disagrees with follows from the spec, as the multiplier does.
            faults = [FieldError(one.pointer, one.message, of_spec=True) for one in error.errors]
            raise InvalidInputError(faults) from None
    projected = figure.projected(noise)
    if not projected <= asked:
        message = (
            f"does not meet privacy.target: at {noise:g}, {figure.terms} come to {figure.name} "
            f"{at_most(projected)}, and {asked:g} is asked for; leave it out, so that the smallest "
            "one that meets the target is found, or leave the target out"
        )
        raise error_at("/privacy/noise_multiplier", message, of_spec=True)
    return spec


_BYTES_OF_A_PARAMETER = 4


@dataclass(frozen=True, kw_only=True)
class PlanLimits:
    """The most that a spec may ask for."""

    model_bytes: int
    """Bytes of all hypotheses together, before any update: training takes a multiple of it."""
    planned_records: int
    """Rows of a mechanism that plans record by record: about 20 s of one core for a million."""
    data_bytes: int
    """Bytes of the features of such a mechanism, which has all rows in memory."""


def check_limits(cell: Cell, limits: PlanLimits) -> None:
    """Raises InvalidInputError where a spec exceeds the limits; takes no time itself."""
    faults = []
    hypotheses, n = cell.spec.training.hypotheses, cell.shape.n
    needed = hypotheses * n * _BYTES_OF_A_PARAMETER
    if needed > limits.model_bytes:
        message = (
            f"{hypotheses} hypotheses of {n} parameters take {needed} bytes, and "
            f"{limits.model_bytes} are allowed (FEDAUDIT_MAX_MODEL_BYTES); ask for fewer, or for a "
            "smaller model"
        )
        faults.append(FieldError("/training/hypotheses", message, of_spec=True))
    role = mechanism_of(cell.spec).facts.applied_by
    match role:
        case "clients" | "server":
            pass
        case "local-steps":
            rows, message = cell.federation.rows, ""
            features = rows * cell.federation.width * 2 * 4  # with a copy
            if rows > limits.planned_records:
                message = (
                    "every record is planned by itself, and the data have more than the "
                    f"{limits.planned_records} that are allowed (FEDAUDIT_MAX_PLANNED_RECORDS); "
                    "take fewer rows or another mechanism"
                )
            elif features > limits.data_bytes:
                message = (
                    "the rows of all clients train in every round, and their features take "
                    f"{features} bytes of memory, of which {limits.data_bytes} are allowed "
                    "(FEDAUDIT_MAX_DATA_MEMORY_BYTES); take fewer features or another mechanism"
                )
            if message:
                faults.append(FieldError("/privacy/mechanism", message, of_spec=True))
        case _:
            assert_never(role)
    raise_errors(faults)


OpenArtifact = Callable[[str], bytes | None]
"""The content of an artifact by its id, its SHA-256; None where there is none."""


def no_artifacts(artifact_id: str) -> None:
    """An `OpenArtifact` that has none."""


def with_start(cell: Cell, open_artifact: OpenArtifact) -> Cell:
    """The cell with the parameters that its spec starts from.

    Raises InvalidInputError where there is no such artifact, or its tensors are not those of the
    spec's model.
    """
    start = cell.spec.model.start
    if not isinstance(start, ArtifactStart):
        return cell
    data = open_artifact(start.artifact)
    if data is None:
        raise _fault(
            "is not known here; upload the file first (POST /v1/artifacts), or hand it "
            "to `fedaudit run` by --artifact"
        )
    if hashlib.sha256(data).hexdigest() != start.artifact:
        raise _fault("is stored with another content than its id says; upload the file again")
    try:
        found = hypotheses_of(
            decode_tensors(data), cell.shape, hypotheses=cell.spec.training.hypotheses
        )
    except ParameterFileError as error:
        raise _fault(f"names a file that does not fit the spec: it {error}") from None
    return replace(cell, start=found)


def _fault(message: str) -> InvalidInputError:
    return error_at("/model/start/artifact", message, of_spec=True)


def refuse_without_room(spec: ExperimentSpec, context: LedgerContext) -> None:
    """Raises InvalidInputError where the spec's own budget has no room for a single round."""
    inputs, plan = context.inputs, context.plan
    if mechanism_of(spec).participation_cap(n=inputs.n, plan=plan) != 0:
        return
    if plan is None:
        name, cost = "client_budget", inputs.leakage(1)
    else:
        name, cost = "epsilon_budget", max(plan.largest(one, 1) for one in plan.observers)
    message = (
        f"has no room for one round, which costs {at_most(cost)}: no client could take part; set "
        "at least that, or a larger noise_multiplier"
    )
    raise error_at(f"/privacy/{name}", message, of_spec=True)


# Far below the largest number in double precision, so that sums of reservations stay finite.
_MAX_COST = 1e300


@dataclass(frozen=True)
class ExperimentPlan:
    """A spec that can be run, and what it would cost."""

    spec: ExperimentSpec
    """Spec with the noise multiplier that its target asks for."""
    federation: Federation
    parameters: int
    """Number of parameters of the network."""
    training_clients: int
    ledger_context: LedgerContext
    projection: Projection
    profile: dict[str, Any]
    """Profile of the data, as the service shows it."""

    @property
    def doubts(self) -> list[str]:
        """What the spec asks for that protects no one, or in vain."""
        costs = _training_costs(self.spec, self.ledger_context)
        rising = sorted(costs, key=lambda one: one.amount)  # the last of a figure's is the largest
        mean, worst = self.projection.leakage_expected, self.projection.leakage_worst_case
        figures: Any = [{"expected": mean, "value": worst}, *self.projection.epsilon]
        shares = [one["expected"] / one["value"] for one in figures if one.get("expected")]
        return spec_doubts(
            self.spec,
            training_clients=self.training_clients,
            rows=self.federation.rows,
            costs={f"{one.figure}_max": one.amount for one in rising},
            mean=min(shares, default=1.0),
        )

    def stored_fields(self) -> dict[str, Any]:
        """What is stored of the experiment beside its ids, under the names of the columns.

        The subjects are stored by themselves: those of `ledger_context`.
        """
        spec, inputs = self.spec, self.ledger_context.inputs
        document = spec.model_dump(mode="json")
        return {
            "name": spec.name,
            "spec": document,
            "spec_hash": document_hash(document),
            "seed": spec.seed,
            "mechanism": spec.privacy.mechanism,
            "hypotheses": spec.training.hypotheses,
            "noise": spec.privacy.noise,
            "rounds_total": spec.training.rounds_played,
            "parameters": self.parameters,
            "noise_multiplier": inputs.nu if inputs.cost_kind == "leakage" else None,
            # None where spec and number of parameters determine all of them, without data.
            "mechanism_inputs": inputs.as_dict()
            if inputs.counts_epsilon or inputs.components is not None
            else None,
            "attributes": {one.name: list(one.values) for one in self.federation.attributes},
            "tags": spec.tags,
        }


def plan_experiment(
    spec: ExperimentSpec,
    federation: Federation,
    *,
    limits: PlanLimits | None = None,
    open_artifact: OpenArtifact = no_artifacts,
) -> ExperimentPlan:
    """Project what a new spec costs over its data, with which it has to agree.

    Raises InvalidInputError where the cost is beyond what can be counted, a budget of its own has
    no room for one round, no noise is enough for the target or for the records' budgets, the noise
    that is given does not meet the target, or the artifact that it starts from is not there or does
    not fit; before anything is computed where the spec exceeds the limits.
    """
    # Only now: they bring pyarrow along, which would double the time that the API needs to start.
    from fedaudit.federations.load import check_agreement
    from fedaudit.federations.profiles.profile import profile

    check_agreement(spec, federation, new=True)
    spec = with_solved_noise(spec, federation)
    cell = Cell(spec, federation)
    if limits is not None:
        check_limits(cell, limits)
    cell = with_start(cell, open_artifact)
    n, training = cell.shape.n, training_clients(federation.clients, spec.federation)
    ledger_context = cell_ledger_context(cell)
    refuse_without_room(spec, ledger_context)
    projection = mechanism_of(spec).project_cost(
        n=n,
        training_clients=training,
        plan=ledger_context.plan,
        layers=ledger_context.inputs.component_sizes,
    )
    costs = [projection.leakage_worst_case or 0.0, projection.log_ratio_worst_case or 0.0]
    costs += [float(str(entry["value"])) for entry in projection.epsilon]
    if not max(costs) <= _MAX_COST:
        message = "is so small that the cost exceeds what can be counted; use a larger one"
        raise error_at("/privacy/noise_multiplier", message, of_spec=True)
    if ledger_context.held_out is None:
        reasons = {**projection.reasons, "fairness_epsilon": NO_NOISE}
        projection = replace(projection, fairness_epsilon=None, reasons=reasons)
    else:
        release = ledger_context.held_out.release
        figure: dict[str, object] = {
            name: getattr(release, name) for name in ("observer", "delta", "adjacency", "unit")
        }
        figure["value"] = release.epsilon(1)
        projection = replace(projection, fairness_epsilon=figure)
    shown = federation.once("profile", partial(profile, federation))
    return ExperimentPlan(spec, federation, n, training, ledger_context, projection, shown)


def planned_costs(spec: ExperimentSpec, context: LedgerContext) -> list[Cost]:
    """What a run may spend, at most, of the people held out, whom its report is about, and of those
    who train; nothing where nothing bounds it."""
    of_training, held_out = list(_training_costs(spec, context)), context.held_out
    if held_out is None:  # nothing bounds what exact or rounded figures reveal
        return of_training
    release = held_out.release
    of_report = Cost(
        figure="epsilon",
        observer=release.observer,
        adjacency=release.adjacency,
        unit=release.unit,
        unit_key=unit_key(spec, release.unit),
        delta=release.delta or BUDGET_DELTA,
        amount=release.epsilon(1),
        curve=release.curve,
        step=release.curve,
        planned=1,
    )
    return [of_report, *of_training]


def _training_costs(spec: ExperimentSpec, context: LedgerContext) -> Iterator[Cost]:
    """An epsilon against each observer, or leakage under its radius and clip and, where there is
    one, the theorem's own sum."""
    inputs, plan, mechanism = context.inputs, context.plan, mechanism_of(spec)
    unit = mechanism.facts.unit
    whose = unit_key(spec, unit)
    match inputs.cost_kind:
        case "unbounded":
            return
        case "leakage":
            most, allowed = spec.training.rounds, mechanism.participation_cap(n=inputs.n)
            most = most if allowed is None else min(most, allowed)
            terms = LeakageTerms.of(radius=inputs.radius, clip=inputs.clip)
            leaked = inputs.leakage(most)
            yield Cost(figure="leakage", adjacency=terms.key, unit_key=whose, amount=leaked)
            one, all_ = theorem_sum(inputs, 1), theorem_sum(inputs, most)
            if not (isinstance(one, str) or isinstance(all_, str)):
                step = np.array([one])
                proven = spec.training.hypotheses == 1  # sizes of clusters show choices
                yield Cost(
                    figure="log_ratio", unit_key=whose, amount=all_, step=step, proven=proven
                )
        case "epsilon":
            assert plan is not None, "what counts an epsilon has a plan"
            for observer in plan.observers:
                allowed = mechanism.compositions_within_budget(plan, observer)
                steps = plan.steps if allowed is None else allowed
                yield Cost(
                    figure="epsilon",
                    observer=observer,
                    adjacency=plan.adjacency,
                    unit=unit,
                    unit_key=whose,
                    delta=plan.delta,
                    amount=plan.largest(observer, steps),
                    curve=plan.curve(observer, steps),
                    step=plan.curve(observer, 1),
                    planned=plan.events_within(observer, steps),
                    proven=mechanism.guarantee_kind == "formal",
                )
        case _:
            assert_never(inputs.cost_kind)
