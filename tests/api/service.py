"""An API under test, its database, and experiments in every state."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Connection, event, text
from starlette.testclient import TestClient

from api.app import create_app
from benchmarks import served_api
from benchmarks.served_api import make_key
from fedaudit.fairness.gaps import gaps
from fedaudit.ledger.encoding import EntryEncoder, genesis, ledger_hash, salt_hash
from fedaudit.ledger.statements import ALGORITHM, Checkpoint, SigningKey
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.report import assemble, report_hash
from fedaudit.reports.sections.material import FederationFacts, FinalFigures, ReportMaterial
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.reports.verdict.verdict import answer_by_codes
from fedaudit.spec.parse import parse_spec
from fedaudit.stored import FairnessRow, LedgerRow, RoundRow
from infrastructure.settings import Settings
from models.database import Database
from models.repositories import (
    EventRepository,
    ExperimentRepository,
    FairnessRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    ReportRepository,
    RoundRepository,
    SigningKeyRepository,
    SubjectSetRepository,
)
from models.tables.base import Base
from models.tables.experiments import Experiment
from models.values import PROJECT_SCOPES, SCOPES
from tests.fairness.disclosures import disclosed_counts
from tests.infrastructure.secrets_keys import secrets_key_in
from tests.ledger.single_entry import SingleEntry, digest_of, link
from tests.utility.comparisons import useful_model
from workers.finish import report_index

T = TypeVar("T", bound=Base)
SPEC: dict[str, Any] = {
    "name": "groups-k2",
    "seed": 7,
    "tags": ["groups", "small"],
    "federation": {
        "source": "synthetic-groups",
        "clients_per_group": [30, 10],
        "rows_per_client": 3,
        "validation_fraction": 0.5,
    },
    "model": {"kind": "linear"},
    "training": {"loss": "rmse", "hypotheses": 2, "rounds": 4, "cohort": {"clients": 5}},
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
    "fairness": {
        "sensitive": ["group"],
        "favourable": [
            {"group": {"group": "g1"}, "op": "ge", "value": 0},
            {"group": {"group": "g2"}, "op": "le", "value": 15},
        ],
        "minimum_group_size": 2,
    },
    "gates": [
        {
            "figure": "leakage_max",
            "op": "le",
            "value": 40,
            "allow_heuristic": True,
            "allow_simulation": True,
        }
    ],
}
"""20 training clients, n = 3 parameters: each release costs n / nu = 1, in the worst case 4."""


def spec(**changes: Any) -> dict[str, Any]:
    """SPEC, with sections merged and anything else replaced."""
    made = copy.deepcopy(SPEC)
    for name, value in changes.items():
        if isinstance(value, dict) and isinstance(made.get(name), dict):
            made[name] = {**made[name], **value}
        else:
            made[name] = value
    return made


def settings_for(database_url: str, folder: Path, **changes: Any) -> Settings:
    """Settings of a service on a database, its queue in a folder."""
    sources = folder / "sources"
    sources.mkdir(exist_ok=True)
    values = {
        "data_dir": folder / "data",
        "sources_dir": sources,
        "database_url": database_url,
        "broker_url": f"filesystem://{folder}/queue",
        "secrets_key_file": secrets_key_in(folder),
    }
    return Settings(**{**values, **changes})


@dataclass
class Api:
    """The application, called without a network."""

    settings: Settings
    database: Database
    client: TestClient
    project_id: str
    key: str
    """A key with every scope."""
    _other_keys: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def key_with(self, *scopes: str, project: str = "hospital") -> str:
        """A key of a project with these scopes only."""
        if (project, scopes) not in self._other_keys:
            self._other_keys[project, scopes] = make_key(
                self.database, project, scopes, name="tests"
            )[1]
        return self._other_keys[project, scopes]

    def request(
        self,
        method: str,
        path: str,
        *,
        key: str | None = "",
        headers: dict[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """An answer; `key` is that with every scope unless given, None for none at all."""
        sent: dict[str, Any] = dict(headers or {})
        if key is not None:
            sent["Authorization"] = f"Bearer {key or self.key}"
        return self.client.request(method, path, headers=sent, **options)

    def get(self, path: str, **options: Any) -> Any:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> Any:
        return self.request("POST", path, **options)

    def submit(self, value: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """A queued experiment."""
        response = self.post("/v1/experiments", json=value or SPEC, **options)
        return dict(body_of(response, 202))

    def check(self, value: dict[str, Any] | None = None, **options: Any) -> Any:
        """The answer to an experiment that is to be checked alone."""
        return self.post("/v1/experiments?validate_only=true", json=value or SPEC, **options)

    def set_budget(self, federation_id: str, total: float | None, **setting: Any) -> Any:
        """The answer to a total, of leakage in simulations unless something else is set."""
        asked = {"book": "simulation", "figure": "leakage", "total": total, **setting}
        return self.request("PUT", f"/v1/federations/{federation_id}/budget", json=asked)

    def budgets(self, federation_id: str, key: str = "", **wanted: Any) -> list[dict[str, Any]]:
        """The budgets on a federation that have these values."""
        answer = self.get(f"/v1/federations/{federation_id}/budget", key=key)
        return [one for one in body_of(answer)["items"] if one.items() >= wanted.items()]

    def change(self, *statements: Any) -> None:
        """Change the database behind the service's back."""
        with self.database.write() as session:
            for one in statements:
                session.execute(one)

    def put_source(self, name: str, content: bytes) -> Path:
        """A file below the sources folder."""
        assert self.settings.sources_dir is not None
        path = self.settings.sources_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def counts(self) -> dict[str, int]:
        """Rows of every table; in one statement, since tests count before and after all they do."""
        names = [table.name for table in Base.metadata.sorted_tables]
        asked = ", ".join(f"(SELECT count(*) FROM {name})" for name in names)
        with self.database.read() as session:
            return dict(zip(names, session.execute(text(f"SELECT {asked}")).one(), strict=True))

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Fails where the block leaves a row more or less in any table."""
        before = self.counts()
        yield
        assert self.counts() == before

    def row(self, table: type[T], key: Any) -> T:
        """What is stored under a primary key."""
        with self.database.read() as session:
            return session.get_one(table, key)

    def stored(self, experiment_id: str) -> Experiment:
        """The experiment's row."""
        return self.row(Experiment, experiment_id)


def body_of(response: Any, status: int = 200) -> Any:
    """The JSON of an answer; fails with all of it where it has another status."""
    assert response.status_code == status, response.text
    return response.json()


def key_of(api: Api, name: str, *scopes: str) -> str:
    """A key of a person, with these scopes or with every one."""
    asked = {"name": f"{name}'s key", "scopes": scopes or PROJECT_SCOPES, "person": {"name": name}}
    return str(body_of(api.post("/v1/api-keys", json=asked), 201)["key"])


@cache
def all_operations() -> tuple[tuple[str, str], ...]:
    """Method and path of every operation under /v1 in the application's document."""
    settings = Settings(database_url="sqlite:////nowhere/x.db", broker_url="filesystem:///nowhere")
    paths = create_app(settings).openapi()["paths"]
    found = ((method.upper(), path) for path, of in paths.items() for method in of)
    return tuple(sorted(one for one in found if one[1].startswith("/v1/")))


@contextmanager
def running_api(settings: Settings) -> Iterator[Api]:
    """The application on a migrated database."""
    database = Database(settings.database_url)
    project_id, key = make_key(database, "hospital", SCOPES, name="tests")
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield Api(settings, database, client, project_id, key)
    database.close()


@contextmanager
def statements(api: Api) -> Iterator[list[str]]:
    """The statements that the API sends to its database in the block."""
    found: list[str] = []
    engine = api.client.app.state.resources.database.engine  # type: ignore[attr-defined]

    def note(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        # Not of sessions that only read: the schema is looked at now and then.
        if "sqlite_begin" not in connection.get_execution_options():
            found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


@contextmanager
def served(api: Api) -> Iterator[str]:
    """The address of a real server of the same database, in a thread."""
    with served_api.served(api.settings) as address:
        yield address


# -- what a worker would write ---------------------------------------------------------------------

KEY = SigningKey.generate()
"""What the worker would sign with."""
COUNTS = np.array([[6, 1, 2, 1], [3, 2, 4, 1]])
"""Of the groups g1 and g2: true positives, false positives, true negatives, false negatives."""
ROUNDS = 3
_NUMBERS = range(1, ROUNDS + 1)
SUBJECTS = np.array([0, 3, 5], np.int32)


def play(api: Api, experiment_id: str) -> None:
    """Write the rounds of a running experiment.

    Of SUBJECTS the first releases in every round; the second is refused and the third withheld
    from the second round on.
    """
    row = api.stored(experiment_id)
    with api.database.write() as session:
        names = SubjectSetRepository(session).names(row.subject_set_id)
        ExperimentRepository(session, api.project_id).start_each([experiment_id])
        ledger = list(_ledger_rows(row, names))
        LedgerRepository(session, api.project_id).insert(experiment_id, ledger)
        totals = np.zeros(len(names), np.int32)
        totals[SUBJECTS] = ledger[-1].releases
        LedgerRepository(session, api.project_id).put_totals(
            experiment_id, releases=totals, refusals=ROUNDS - 1, withheld=ROUNDS - 1
        )
        RoundRepository(session, api.project_id).insert(experiment_id, [*map(_round, _NUMBERS)])
        found = gaps(COUNTS, disclosed_counts(COUNTS, minimum_group_size=2))[0]
        figures = [
            {"metric": one.metric, "value": one.value, "reason": one.reason} for one in found
        ]
        of_group = {"attribute": "group", "figures": figures, "counts": COUNTS.tolist()}
        FairnessRepository(session, api.project_id).insert(
            experiment_id, [FairnessRow(round=number, **of_group) for number in _NUMBERS]
        )
        events = [("round.completed", {"round": number}) for number in _NUMBERS]
        EventRepository(session, api.project_id).append(experiment_id, events)
        ExperimentRepository(session, api.project_id).progress_each({experiment_id: ROUNDS})


def finish(api: Api, experiment_id: str, **figures: float) -> dict[str, Any]:
    """Play an experiment to its end; gives the report. `figures` override those it is found by."""
    play(api, experiment_id)
    row = api.stored(experiment_id)
    with api.database.write() as session:
        ledger = LedgerRepository(session)
        head = (ledger.last_row(experiment_id) or (0, b""))[1]
        document = _report(
            row,
            names=SubjectSetRepository(session).names(row.subject_set_id),
            hashed=ledger_hash(ledger.digests(experiment_id)),
            head=head,
        )
        document = sign_report(document, KEY)
        for entries, status in ((0, "running"), (ROUNDS, "succeeded")):
            checkpoint = Checkpoint(
                experiment_id=row.id,
                status=status,
                entries=entries,
                last_round=entries,
                chain_head=(head if entries else genesis(row.id)).hex(),
                spec_hash=row.spec_hash,
                subjects_hash=row.subject_set_id,
                salt_hash=None if row.ledger_salt is None else salt_hash(row.ledger_salt),
            )
            LedgerCheckpointRepository(session, api.project_id).add(
                row.id, entries=entries, status=status, envelope=checkpoint.sign(KEY).as_dict()
            )
        SigningKeyRepository(session).use(
            KEY.key_id, algorithm=ALGORITHM, public_key=KEY.public.pem
        )
        ReportRepository(session, api.project_id).put(
            experiment_id,
            document=document,
            report_hash=report_hash(document),
            index=report_index(document),
        )
        found = {"leakage_max": document["privacy"]["leakage_max"], **figures}
        ExperimentRepository(session, api.project_id).conclude(
            experiment_id,
            status="succeeded",
            figures={
                **found,
                "gate_outcome": document["gate_outcome"],
                "answer": answer_by_codes(document).model_dump(),
            },
        )
    return document


def finished(api: Api, value: dict[str, Any] | None = None, **options: Any) -> str:
    """The id of an experiment that was submitted and played to its end."""
    experiment_id: str = api.submit(value, **options)["id"]
    finish(api, experiment_id)
    return experiment_id


def fail(api: Api, experiment_id: str) -> None:
    """End an experiment as failed."""
    with api.database.write() as session:
        experiments = ExperimentRepository(session, api.project_id)
        experiments.start_each([experiment_id])
        experiments.conclude(experiment_id, status="failed", reason="worker-lost", detail="gone")


def _ledger_rows(row: Experiment, names: Sequence[str]) -> Iterator[LedgerRow]:
    inputs = mechanism_of(parse_spec(row.spec)).inputs(n=row.parameters)
    encoder, head = EntryEncoder(names, salt=row.ledger_salt), genesis(row.id)
    for number in _NUMBERS:
        outcomes = np.array([0, 0, 0] if number == 1 else [0, 1, 2], np.uint8)
        columns = {
            "subjects": SUBJECTS,
            "outcomes": outcomes,
            "radii": np.where(outcomes == 0, 0.25 * number, np.nan),
            "releases": np.array([number, 1, 1], np.int32),
            "clusters": np.array([0, 1, -1], np.int16),
        }
        place = {"round": number, "release": 0, "subject_kind": "client", "observer": "server"}
        digest = digest_of(encoder, SingleEntry(**place, inputs=inputs, **columns))
        head = link(head, digest, columns["clusters"])
        yield LedgerRow(**place, **columns, inputs=inputs.as_dict(), digest=digest, link=head)


def _round(number: int) -> RoundRow:
    reasons = {"accuracy": "the target is a number"}
    return RoundRow(
        round=number,
        selection_loss=1.0 / number,
        validation_loss=1.5 / number,
        cluster_sizes=[3, 2],
        separation=0.5,
        leakage_median=0.0,
        leakage_max=float(number),
        equalized_odds_difference=0.1,
        reasons=reasons,
    )


def _report(row: Experiment, *, names: Sequence[str], hashed: str, head: bytes) -> dict[str, Any]:
    releases, clusters = np.zeros(len(names), np.int32), np.full(len(names), -1, np.int16)
    releases[SUBJECTS] = [ROUNDS, 1, 1]
    clusters[SUBJECTS] = [0, 1, -1]
    return assemble(
        ReportMaterial(
            experiment_id=row.id,
            name=row.name,
            status="succeeded",
            spec=parse_spec(row.spec),
            inputs=mechanism_of(parse_spec(row.spec)).inputs(n=row.parameters),
            federation=FederationFacts(
                fingerprint="f" * 64,
                clients=len(names),
                training_clients=20,
                rows=3 * len(names),
                attributes={"group": ("g1", "g2")},
            ),
            releases=releases,
            refusals=ROUNDS - 1,
            withheld=ROUNDS - 1,
            result=FinalFigures(
                stopped_by="rounds",
                rounds=ROUNDS,
                best_round=ROUNDS,
                selection_loss=0.3,
                validation_loss=0.5,
                accuracy=None,
                fairness={"group": np.broadcast_to(COUNTS, (20, 2, 4)).astype(np.int64)},
                against_constant=useful_model(20),
                start_loss=2.0,
            ),
            ledger_hash=hashed,
            chain_head=head.hex(),
            entries=ROUNDS,
            disclosures={"group": disclosed_counts(20 * COUNTS, minimum_group_size=2)},
            key_id=KEY.key_id,
            clusters=clusters,
        )
    )
