"""Erase what the database holds of a federation's people; budgets, ledgers and reports stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select

from models.repositories.audits import OPEN_AUDITS
from models.repositories.base import Repository, ScopedRepository, table_of
from models.repositories.experiment_parts import SubjectSetRepository
from models.repositories.units import UnitRepository
from models.tables.experiments import (
    Checkpoint,
    Experiment,
    LaterAttacks,
    PredictionAudit,
    Report,
    SubjectSet,
    Unit,
)
from models.tables.federations import (
    Artifact,
    Content,
    ErasedLedger,
    Erasure,
    Federation,
    PendingUpload,
    RowSketch,
)
from models.tables.ledger import DeclaredLedger, DeclaredReservation, DeclaredRoundRow, Fairness
from models.values import ENDED, OPEN, FileKind, utc_now

_BY_RECORDS = "record-personalised"


@dataclass(frozen=True)
class Leaving:
    """What the storage has of a federation, and which ledgers name its clients."""

    experiments: Sequence[str]
    files: Mapping[FileKind, Sequence[str]]
    """Whose files there are: of experiments, of later attacks by their own ids, and of artifacts
    that were brought and are such models by their hashes."""
    named: Sequence[str]
    """Experiments and ledgers of trainings elsewhere that name clients: those of
    `record-personalised` name budgets of records."""
    uploads: Sequence[str]
    """Storage keys of the same content that waits to be registered."""
    ledgers: Sequence[str]
    """Ledgers of trainings elsewhere."""


class ErasureRepository(ScopedRepository):
    """The erasures of one project."""

    def newest(self, federation_id: str) -> Erasure | None:
        """The federation's last one."""
        return self._one(self._of(federation_id).order_by(Erasure.number.desc()).limit(1))

    def get(self, federation_id: str, number: int) -> Erasure | None:
        """One of a federation's."""
        return self._one(self._of(federation_id).where(Erasure.number == number))

    def of(self, federation_id: str) -> Sequence[Erasure]:
        """All of a federation's, newest first."""
        return self._all(self._of(federation_id).order_by(Erasure.number.desc()))

    def _of(self, federation_id: str) -> Select[Erasure]:
        return self._select(Erasure).where(Erasure.federation_id == federation_id)

    def pending(self, federation_id: str) -> bool:
        """Whether one is not done yet."""
        mine = (Erasure.federation_id == federation_id, self._own(Erasure))
        return self._exists(*mine, Erasure.completed_at.is_(None))

    def has_names(self, owner_id: str, federation_id: str | None) -> bool:
        """Whether a ledger has its clients' names still, though its federation was erased."""
        listed = (
            self._select(Erasure)
            .where(Erasure.federation_id == federation_id, Erasure.completed_at.is_(None))
            .with_only_columns(Erasure.ledgers)
        )
        waiting = any(owner_id in ledgers for ledgers in self.session.scalars(listed))
        return waiting and self.statement(owner_id) is None

    def statement(self, owner_id: str) -> dict[str, Any] | None:
        """The envelope that replaces the names of a ledger; None where it has them."""
        found = self._one(self._select(ErasedLedger).where(ErasedLedger.owner_id == owner_id))
        return None if found is None else found.envelope

    def is_made_up(self, federation: Federation) -> bool:
        """Whether the data is synthetic."""
        return not self._exists(Content.fingerprint == federation.fingerprint)

    def lock_ledgers(self, federation_id: str) -> Sequence[DeclaredLedger]:
        """Its declared ledgers, locked against new rounds until the transaction ends, as is the
        unit that profiles it. Call before the federation is locked."""
        profiled = select(Federation.unit_id).where(Federation.id == federation_id)
        unit = select(Unit.id).where(Unit.id == profiled.scalar_subquery())
        self.session.execute(unit.with_for_update(key_share=True))
        mine = self._select(DeclaredLedger).where(DeclaredLedger.federation_id == federation_id)
        return self._all(mine.order_by(DeclaredLedger.id).with_for_update(key_share=True))

    def leaving(self, federation: Federation, ledgers: Sequence[DeclaredLedger]) -> Leaving:
        """What is to be erased. Call it under the federation's lock."""
        erased, columns = select(ErasedLedger.owner_id), table_of(Experiment).c
        mine = (columns.federation_id == federation.id, self._own(Experiment))
        named = select(columns.id, columns.mechanism, columns.status)
        named = named.where(*mine, columns.id.not_in(erased)).order_by(columns.id)
        rows = self.session.execute(named).all()
        experiments = [row.id for row in rows]
        by_records = [row for row in rows if row.mechanism == _BY_RECORDS]
        sha256 = Report.document["model"]["sha256"].as_string().label("sha256")
        attack = Report.document["attacks"][0]["kind"].as_string().label("attack")
        of_these = Report.experiment_id.in_(experiments)
        reports = self.session.execute(
            select(Report.experiment_id, sha256, attack).where(of_these)
        ).all()
        models = [one for one in reports if one.sha256 is not None]
        later = select(LaterAttacks.id).where(LaterAttacks.experiment_id.in_(experiments))
        attacked = [one.experiment_id for one in reports if one.attack is not None]
        # Locked, so that `in_use` sees the admission of an experiment that starts from one.
        brought = self._select(Artifact).where(Artifact.sha256.in_([one.sha256 for one in models]))
        brought = brought.order_by(Artifact.sha256).with_for_update()
        same_content = PendingUpload.fingerprint == federation.fingerprint
        waiting = self._select(PendingUpload).where(same_content)
        known = set(self.session.scalars(erased.where(ErasedLedger.federation_id == federation.id)))
        declared = [row.id for row in ledgers if row.id not in known]
        return Leaving(
            experiments=experiments,
            files={
                "model": [one.experiment_id for one in models],
                "record-table": [row.id for row in by_records if row.status == "succeeded"],
                "attack-files": [*attacked, *self.session.scalars(later)],
                "artifact": [row.sha256 for row in self._all(brought)],
            },
            named=[*(row.id for row in rows if row.mechanism != _BY_RECORDS), *declared],
            uploads=[row.storage_key for row in self._all(waiting)],
            ledgers=declared,
        )

    def in_use(self, federation: Federation, leaving: Leaving) -> Sequence[str]:
        """Ids of what still needs it: experiments, attacks on them and audits that have not ended,
        also such as start from its models."""
        columns, artifacts = table_of(Experiment).c, leaving.files["artifact"]
        started = columns.spec["model"]["start"]["artifact"].as_string()
        needing_it = or_(
            columns.federation_id == federation.id,
            started.in_(artifacts) if artifacts else columns.id.is_(None),
        )
        open_runs = (self._own(Experiment), columns.status.not_in(ENDED))
        runs = select(columns.id).where(*open_runs, needing_it)
        open_attacks = (self._own(LaterAttacks), LaterAttacks.status.in_(OPEN))
        attacks = (
            select(LaterAttacks.id)
            .join(Experiment, Experiment.id == LaterAttacks.experiment_id)
            .where(*open_attacks, needing_it)
        )
        open_audits = PredictionAudit.status.in_(OPEN_AUDITS)
        audits = select(PredictionAudit.id).where(*self._audits_of(federation), open_audits)
        needing = (runs, attacks, audits)
        return [id_ for statement in needing for id_ in self.session.scalars(statement)]

    def other_projects(self, federation: Federation) -> Sequence[tuple[str, str]]:
        """(project, federation) of the others that hold the same content, erased ones left out."""
        columns = table_of(Federation).c
        same = select(columns.project_id, columns.id).where(
            columns.fingerprint == federation.fingerprint,
            columns.project_id != self.project_id,
            columns.status != "erased",
        )
        found = self.session.execute(same.order_by(columns.project_id))
        return [(project_id, id_) for project_id, id_ in found]

    def erase(self, federation: Federation, leaving: Leaving) -> dict[str, int]:
        """Removes what the database holds beside names; returns how many of each thing."""
        ids = list(leaving.experiments)
        removed = {
            "profiles": int(bool(federation.profile)),
            "registrations": int(federation.registration is not None),
            "row_sketches": self._delete(RowSketch, RowSketch.federation_id == federation.id),
            "group_counts": self._delete(Fairness, Fairness.experiment_id.in_(ids)),
            "checkpoints": self._delete(Checkpoint, Checkpoint.experiment_id.in_(ids)),
        }
        self._forget_parts(federation, ids)
        removed["declared_group_counts"] = self._forget_declared(leaving.ledgers)
        self._delete(Artifact, self._own(Artifact), Artifact.sha256.in_(leaving.files["artifact"]))
        keys = PendingUpload.storage_key.in_(leaving.uploads)
        self._delete(PendingUpload, self._own(PendingUpload), keys)
        if federation.unit_id is not None:
            UnitRepository(self.session).withdraw(federation.unit_id)
        mine = (Federation.id == federation.id, self._own(Federation))
        emptied = ("reasons", "registration", "storage_key", "file_name", "size_bytes")
        values = {"status": "erased", "profile": {}, "deleted_at": utc_now()}
        self._set(Federation, *mine, **values, **dict.fromkeys(emptied))
        return removed

    def _forget_parts(self, federation: Federation, ids: Sequence[str]) -> None:
        mine = Experiment.id.in_(ids)
        attacks, audits = LaterAttacks.experiment_id.in_(ids), self._audits_of(federation)
        units = (
            select(Experiment.unit_id).where(mine),
            select(LaterAttacks.unit_id).where(attacks),
            select(PredictionAudit.unit_id).where(*audits),
        )
        used = (Unit.id.in_(some) for some in units)
        # Of which data a profile was that another replaced is not known any more.
        replaced = ~exists().where(table_of(Federation).c.unit_id == Unit.id)
        earlier = and_(Unit.kind == "profile", self._own(Unit), replaced)
        theirs = or_(Unit.id == federation.unit_id, earlier, *used)
        self._set(Unit, theirs, last_error=None)
        self._set(Experiment, mine, status_detail=None)
        self._set(LaterAttacks, attacks, status_detail=None)
        self._set(Report, Report.experiment_id.in_(ids), model_layout=None, clients=None)
        # A group of one is a person; what reports name of groups is theirs.
        named = self.session.execute(select(Experiment.id, Experiment.attributes).where(mine)).all()
        for id_, attributes in named:
            without: dict[str, list[str]] = {name: [] for name in attributes}
            self._set(Experiment, Experiment.id == id_, attributes=without)
        self._set(PredictionAudit, *audits, faults=None)

    def _audits_of(self, federation: Federation) -> tuple[ColumnElement[bool], ...]:
        same_content = PredictionAudit.fingerprint == federation.fingerprint
        return self._own(PredictionAudit), same_content

    def _forget_declared(self, ledgers: Sequence[str]) -> int:
        # Without its secret no one can try guesses on what the chain holds of declarations.
        forgotten = dict.fromkeys(("drawn_names", "drawn_counts", "secret"))
        self._set(DeclaredLedger, DeclaredLedger.id.in_(ledgers), **forgotten)
        reserved = DeclaredReservation.ledger_id.in_(ledgers)
        self._set(DeclaredReservation, reserved, admitted=[], denied=[])
        posted = DeclaredRoundRow.ledger_id.in_(ledgers)
        # It covers who took part, and a guess at these could be confirmed.
        self._set(DeclaredRoundRow, posted, content_hash="")
        counted = DeclaredRoundRow.groups.is_not(None)
        return self._set_rows(DeclaredRoundRow, posted, counted, groups=None)

    def add(self, row: Erasure) -> Erasure:
        """Notes what the sweeper has to do, in the transaction that erased, as the federation's
        next erasure."""
        mine = select(func.max(Erasure.number)).where(Erasure.federation_id == row.federation_id)
        row.number = (self.session.scalar(mine) or 0) + 1
        return self.store(row)


class ErasingRepository(Repository):
    """Erasures of all projects that are not done."""

    def waiting(self, limit: int) -> Sequence[Erasure]:
        """Some of them, the oldest first."""
        open_ones = select(Erasure).where(Erasure.completed_at.is_(None))
        return self._all(open_ones.order_by(Erasure.requested_at).limit(limit))

    def named_ledgers(self, erasure: Erasure) -> Sequence[str]:
        """Those of its ledgers that have their clients' names still."""
        done = select(ErasedLedger.owner_id).where(ErasedLedger.owner_id.in_(erasure.ledgers))
        without = set(self.session.scalars(done))
        return [one for one in erasure.ledgers if one not in without]

    def is_profiled(self, erasure: Erasure) -> bool:
        """Whether a worker still profiles the data, and may keep something of them."""
        profiling = (Federation.id == erasure.federation_id, Unit.id == Federation.unit_id)
        return self._exists(*profiling, Unit.state == "leased")

    def experiment(self, owner_id: str) -> Experiment | None:
        """The experiment with this id; None where it is a ledger of a training elsewhere."""
        return self._one(select(Experiment).where(Experiment.id == owner_id))

    def declared(self, owner_id: str) -> DeclaredLedger | None:
        """The ledger of a training elsewhere with this id."""
        return self._one(select(DeclaredLedger).where(DeclaredLedger.id == owner_id))

    def state_erased(
        self, owner_id: str, project_id: str, federation_id: str, envelope: Mapping[str, Any]
    ) -> bool:
        """Stores the statement that replaces a ledger's names, first in the transaction that
        removes them; False if another process was faster."""
        row = {"owner_id": owner_id, "project_id": project_id, "federation_id": federation_id}
        stated = {"erased_at": utc_now(), "envelope": envelope}
        return self._insert_absent(ErasedLedger, {**row, **stated})

    def rename_experiment(self, experiment: Experiment, names: Sequence[str]) -> None:
        """Gives its ledger these names, and deletes its salt, with which old names could be tried
        on its digests. The old names go unless another experiment, such as another project's on the
        same content, has them."""
        before = experiment.subject_set_id
        renamed = SubjectSetRepository(self.session).put(names)
        mine = Experiment.id == experiment.id
        self._set(Experiment, mine, subject_set_id=renamed, ledger_salt=None)
        used = exists().where(table_of(Experiment).c.subject_set_id == before)
        self._delete(SubjectSet, SubjectSet.id == before, ~used)

    def rename_declared(self, ledger_id: str, names: Sequence[str]) -> None:
        """The same of a ledger of a training elsewhere."""
        mine = DeclaredLedger.id == ledger_id
        self._set(DeclaredLedger, mine, names=list(names), ledger_salt=None)

    def files_left(self, erasure: Erasure, files: Sequence[str]) -> None:
        """Notes which files are still to be removed."""
        self._change(erasure, files=list(files))

    def complete(self, erasure: Erasure, envelope: Mapping[str, Any]) -> bool:
        """Stores the receipt; False where there is one."""
        return self._change(erasure, completed_at=utc_now(), envelope=envelope)

    def _change(self, erasure: Erasure, **values: Any) -> bool:
        mine = (Erasure.federation_id == erasure.federation_id, Erasure.number == erasure.number)
        return self._set(Erasure, *mine, Erasure.completed_at.is_(None), **values)
