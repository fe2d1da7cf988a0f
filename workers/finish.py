"""End an experiment: with its report, or with the reason why there is none."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.claim_bundles import ClaimsKey
from fedaudit.ledger.statements import Checkpoint, SigningKey
from fedaudit.reports.claims import claims_of
from fedaudit.reports.figures import figures_of, parsed
from fedaudit.reports.report import report_hash
from fedaudit.reports.sections.attacks import AttackSection, raised_alarms
from fedaudit.reports.sections.guarantee import proven_cost
from fedaudit.reports.sections.material import Progressed, ReportMaterial, unfollowed
from fedaudit.reports.sections.other_runs import RepeatsSection, SweepSection
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.reports.sections.utility import known_ending
from fedaudit.reports.verdict.verdict import answer_by_codes
from fedaudit.reports.verification.verification import verify
from fedaudit.runs.report_material import checked_report, report_material
from fedaudit.spec.disclosure import parse_disclosure_policy
from fedaudit.spec.metrics import ROUND_METRICS
from fedaudit.stored import IndexedFigure, LedgerRow
from fedaudit.sweeps.report_section import (
    SeedFigures,
    larger_sums,
    named_figures,
    repeats_section,
    shown_figures,
    sweep_section,
    with_repeats,
)
from fedaudit.training.base.rounds import FinalResult
from infrastructure.storage import Storage
from models.database import Database
from models.repositories import (
    CheckpointRepository,
    EventRepository,
    ExperimentRepository,
    LedgerRepository,
    ReportListRepository,
    ReportRepository,
    RunLogRepository,
    SweepRepository,
    fail_task,
)
from models.repositories.ledger import stored_rows
from models.tables.experiments import Unit
from models.values import ENDED, ReportIndex, utc_now
from workers.flush import RunningExperiment
from workers.lost_rounds import enter_lost_rounds
from workers.proof.signing import sign_as_stored, sign_checkpoint


@dataclass(frozen=True)
class FinishedReport:
    """The signed report of a finished run, and what is stored with it."""

    document: dict[str, Any]
    hash: str
    claims: list[dict[str, Any]]
    """Signed bundles."""
    material: ReportMaterial


GATE_EVALUATED = "gate.evaluated"
ALARM_RAISED = "alarm.raised"
DIVERGED = "diverged"
NOISE_TOO_SMALL = "noise-too-small"
"""Canaries beside the run ended it."""

_ROWS = 500
"""Read between two signs of progress."""
_PRIVACY = ("leakage_max", "leakage_median", "log_ratio_max", "epsilon_max")


def report_of(
    database: Database,
    experiment: RunningExperiment,
    result: FinalResult,
    *,
    device: str,
    backend: Mapping[str, str],
    key: SigningKey,
    attacks: Sequence[AttackSection] = (),
    progressed: Progressed = unfollowed,
) -> FinishedReport:
    """The signed report of a finished run, with its claims. `progressed` is called between
    parts. Raises FiguresDisagreeError if fairness figures do not follow from the rows."""
    with database.read() as session:
        material = report_material(
            experiment.run,
            result,
            partial(LedgerRepository(session).of_round, experiment.id),
            device=device,
            backend=backend,
            key_id=key.key_id,
            disclosure_policy=parse_disclosure_policy(experiment.row.disclosure or {}),
            sweep=sweep_of(session, experiment),
        )
        material = replace(material, attacks=attacks)
        begun = RunLogRepository(session).begun(experiment.id)
    progressed()
    document = checked_report(material, result, progressed=progressed)
    if experiment.run.spec.repeats > 1:
        with database.read() as session:
            repeats = repeats_of(session, experiment, document)
        if repeats is not None:
            gates = experiment.run.spec.gates
            document = with_repeats(document, repeats, gates=gates)
    run, of_claims = None if begun is None else begun.run, ClaimsKey(key).public.key_id
    signed = sign_report(document, key, claims_key_id=of_claims, run=run)
    hashed = report_hash(signed)
    claims = _signed_claims(database, experiment, signed, key, hashed=hashed, progressed=progressed)
    return FinishedReport(signed, hashed, claims, material)


def _signed_claims(
    database: Database,
    experiment: RunningExperiment,
    report: dict[str, Any],
    key: SigningKey,
    *,
    hashed: str,
    progressed: Progressed,
) -> list[dict[str, Any]]:
    """The report's claims in signed bundles, after it was verified as a stranger would verify it:
    its ledger is read as it is stored, and everything is computed anew, but for the checkpoint,
    which this process is about to sign. `hashed`: the report's hash."""

    def watched(rows: Iterable[LedgerRow]) -> Iterator[LedgerRow]:
        for number, row in enumerate(rows):
            if number % _ROWS == 0:
                progressed()
            yield row

    ledger = experiment.run.ledger
    evidence = Evidence(
        experiment_id=experiment.id,
        spec=experiment.row.spec,
        names=ledger.ledger_context.subjects,
        report=report,
        checkpoints=[experiment.ledger_checkpoint("succeeded").sign(key).as_dict()],
        keys=[key.public],
        rows=watched(stored_rows(database, experiment.id, experiment.project_id)),
        salt=ledger.salt,
    )
    # Claims and the log's newest entry are not there yet: nothing was checked of them.
    checks = verify(evidence, trusted=[key.public]).checks
    found = [one for one in checks if not one.name.startswith(("claims.", "log."))]
    at = utc_now().isoformat().replace("+00:00", "Z")
    private = ClaimsKey(key)
    return [private.sign(one) for one in claims_of(report, hashed, verified=found, at=at)]


def alarm_events(
    attacks: Sequence[Mapping[str, Any]], *, later: int | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """An event for each attack that raised an alarm; `later`: the request's number, for attacks on
    an ended experiment."""
    of_later = {} if later is None else {"later": later}
    return [
        (ALARM_RAISED, {**of_later, "position": position, "kind": attack["kind"]})
        for position, attack in enumerate(attacks)
        if attack["alarm"] is not None
    ]


def store_file(
    storage: Storage, key: str, pieces: Iterable[bytes], *, progressed: Progressed = unfollowed
) -> None:
    """Store a file of a run; a repeat stores the same again. Raises StorageError."""
    with storage.writer(key) as file:
        for piece in pieces:
            progressed()
            file.write(piece)


def succeed(
    session: Session, experiment: RunningExperiment, report: FinishedReport, *, key: SigningKey
) -> bool:
    """Store the report, its companions, gates and last checkpoint, settle the reservation,
    and publish the end. No change if the experiment has ended; False if its sweep now costs more
    than the report states, which must then be made again. `key`: the one that signed it."""
    document, material = report.document, report.material
    experiments = ExperimentRepository(session, experiment.project_id)
    row = experiments.get(experiment.id)
    if row is None or row.status in ENDED:
        return True
    if not is_as_stated(session, experiment, document):
        return False
    ReportRepository(session, experiment.project_id).put(
        experiment.id,
        document=document,
        report_hash=report.hash,
        index=report_index(document),
        model_layout=None if isinstance(material.model, str) else material.model.layout,
        clients=material.clients,
        claims=report.claims,
    )
    events = [(GATE_EVALUATED, gate) for gate in document["gates"]]
    events += alarm_events(document["attacks"])
    if events:
        EventRepository(session, experiment.project_id).append(experiment.id, events)
    ended_early = known_ending(document["utility"]["stopped_by"]) == "audit"
    experiments.conclude(
        experiment.id,
        status="succeeded",
        reason=NOISE_TOO_SMALL if ended_early else None,
        figures=stored_figures(document),
    )
    checkpoint = experiment.ledger_checkpoint("succeeded")
    CheckpointRepository(session).delete(experiment.id)
    sign_checkpoint(session, checkpoint, project_id=experiment.project_id, key=key)
    return True


def fail_unit(
    session: Session, unit: Unit, *, reason: str, detail: str, shown: str, key: SigningKey
) -> None:
    """End what a unit was to do that failed for good. `detail`: why; `shown`: the same for those
    who may not know more of the data."""
    owner = (unit.id, unit.project_id)
    fail_task(session, *owner, reason=reason, detail=detail, shown=shown)
    experiments = ExperimentRepository(session, unit.project_id)
    ids = [row.id for row in experiments.of_unit(unit.id)]
    ended = [id_ for id_ in ids if experiments.fail(id_, reason=reason, detail=detail)]
    # Last: who holds a log's lock waits for no row.
    for id_ in ended:
        sign_end(session, id_, unit.project_id, key=key)


def sign_end(
    session: Session,
    experiment_id: str,
    project_id: str,
    *,
    key: SigningKey,
    checkpoint: Checkpoint | None = None,
    diverged: bool = False,
) -> None:
    """Sign what an experiment without a report spent. Lost rounds are charged first, and nothing is
    signed where the ledger refuses them: otherwise the signed end would attest a ledger that shows
    less than was charged. `checkpoint`: the worker's ledger state; by default the database's."""
    CheckpointRepository(session).delete(experiment_id)
    # A run that diverged has a worker, which knows that the rest of its block was not run.
    entered = 0 if diverged else enter_lost_rounds(session, experiment_id, project_id)
    if checkpoint is not None and entered == 0:
        sign_checkpoint(session, checkpoint, project_id=project_id, key=key)
    elif entered is not None:
        sign_as_stored(session, experiment_id, project_id, key=key)


def stored_figures(document: Mapping[str, Any]) -> dict[str, Any]:
    """The figures by which the experiment is found; per-attribute gaps only with one attribute."""
    figures: dict[str, Any] = {name: proven_cost(document, name)[0] for name in _PRIVACY}
    utility = document["utility"]
    figures |= {name: utility[name] for name in ("validation_loss", "accuracy")}
    if len(document["fairness"]) == 1:
        metrics = document["fairness"][0]["metrics"]
        figures |= {name: metrics[name]["value"] for name in ROUND_METRICS}
    return {
        **figures,
        "delta": document["guarantee"]["delta"],
        "gate_outcome": document["gate_outcome"],
        "alarms": len(raised_alarms(document)) if document["attacks"] else None,
        "answer": answer_by_codes(document).model_dump(),
    }


def report_index(document: Mapping[str, Any]) -> ReportIndex:
    """The index of a report document. Raises ValueError where it does not have that form."""
    report, fields = parsed(document), IndexedFigure.__dataclass_fields__
    return ReportIndex(
        guarantee_kind=report.guarantee.kind,
        in_force=report.guarantee.in_force is True,
        unit=report.guarantee.unit,
        summary={
            "verdict": report.verdict,
            "answer": None if report.answer is None else report.answer.model_dump(),
            "degenerate": report.utility.degenerate,
            "guarantee": report.guarantee.model_dump(exclude={"statement"}),
        },
        figures=[
            IndexedFigure(**{name: getattr(one, name) for name in fields})
            for one in figures_of(report)
        ],
    )


def sweep_of(session: Session, experiment: RunningExperiment) -> SweepSection | None:
    """What its sweep costs; None where it is a cell of none."""
    sweeps, place = SweepRepository(session, experiment.project_id), experiment.place
    if place is None:
        return None
    reserved, tries = sweeps.reserved_costs(place.sweep_id)
    return sweep_section(place, reserved, tries=tries)


def is_as_stated(
    session: Session, experiment: RunningExperiment, document: Mapping[str, Any]
) -> bool:
    """Whether its sweep has no more runs, and costs no more, than its report states. Holds the
    sweep until the transaction ends: retries of cells wait for the report."""
    stated = document["sweep"]
    if stated is None:
        return True
    SweepRepository(session, experiment.project_id).hold(stated["id"])
    now = sweep_of(session, experiment)
    if now is None or now.tries != stated["tries"]:
        return now is None
    return not larger_sums(now.model_dump(), stated)


def repeats_of(
    session: Session, experiment: RunningExperiment, document: Mapping[str, Any]
) -> RepeatsSection | None:
    """The figures over all seeds with a report, this one included; None if it is a cell of none."""
    sweeps, place = SweepRepository(session, experiment.project_id), experiment.place
    if place is None:
        return None
    own = SeedFigures(experiment.run.spec.seed, experiment.id, shown_figures(document))
    others = [
        run
        for _, run in sweeps.cells(place.sweep_id)
        if run.id != experiment.id and run.status == "succeeded"
    ]
    figures = ReportListRepository(session, experiment.project_id).figures(
        [one.id for one in others]
    )
    found_others = [SeedFigures(one.seed, one.id, named_figures(figures[one.id])) for one in others]
    return repeats_section([own, *found_others], asked=experiment.run.spec.repeats)
